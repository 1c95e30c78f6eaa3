"""Reading all that a study's paper is made from; the only reader of ``data/`` in a build."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from report.case_checks import check_layers
from report.devices import read_devices
from report.paper import Inputs, notices_of
from report.reported import read_reported
from report.store import Stored, digest, read_attachment, read_newest, read_record
from report.strict import read_strictly, refuse_first
from report.studies import ATTACHMENTS, STUDIES

#: dict[str, tuple[str, ...]] | None, which a type checker takes for no class.
_PINS: Final[Any] = dict[str, tuple[str, ...]] | None
_REMEDY: Final = "write it as «conv_scaling: [conv_scaling/<file>.json]»"


@dataclass(frozen=True)
class Origin:
    """What a paper says of the data that it comes from.

    ``records`` and ``reported`` are files relative to the data directory, ``devices`` the names of
    the machines, ``measured`` the day of the newest run, None where there is none.
    """

    records: Sequence[str]
    devices: Sequence[str]
    measured: str | None
    reported: str


@dataclass(frozen=True)
class Chosen:
    """The records that a paper uses, newest device first, and all that it reads beside them.

    ``digests`` are those of the records and their attachments, file relative to the data
    directory → SHA-256 in hexadecimal.
    """

    origin: Origin
    digests: dict[str, str]
    notices: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """What tells one choice from another; notices tell nothing of the numbers."""
        return {
            "records": list(self.origin.records),
            "digests": self.digests,
            "origin": asdict(self.origin),
        }


def gather(study: str, data: Path) -> Inputs:
    """The inputs of ``study`` from the data directory.

    Uses the newest full record of each device, or the ones that ``pins.yaml`` names.  Raises
    ``RecordError`` for the first file that cannot be used.
    """
    return _inputs(study, data, _newest(study, data))


def choose(study: str, data: Path) -> Chosen:
    """The records that the paper of ``study`` uses; raises ``RecordError`` as ``gather`` does."""
    records = _newest(study, data)
    beside = {
        f"{item.file.removesuffix('.json')}/{name}": digest(content)
        for item in records
        for name, content in _attachments(item, ATTACHMENTS.get(study, ()), data).items()
    }
    own = {item.file: digest((data / item.file).read_bytes()) for item in records}
    return Chosen(origin_of(study, records), {**own, **beside}, notices_of(records))


def load(study: str, data: Path, records: Sequence[str]) -> Inputs:
    """The inputs of ``study`` with these records; raises ``RecordError``."""
    return _inputs(study, data, tuple(read_record(data / file, data) for file in records))


def origin_of(study: str, records: Sequence[Stored]) -> Origin:
    """What the paper of ``study`` says of the data when it uses ``records``."""
    return Origin(
        records=tuple(item.file for item in records),
        devices=tuple(item.record.environment.label for item in records),
        measured=max((item.record.started[:10] for item in records), default=None),
        reported=_reported(study),
    )


def _newest(study: str, data: Path) -> tuple[Stored, ...]:
    return read_newest(study, data, read_pins(data).get(study, ()))


def _reported(study: str) -> str:
    return f"reported/{study}.json"


def _inputs(study: str, data: Path, records: tuple[Stored, ...]) -> Inputs:
    reported = _reported(study)
    patterns = ATTACHMENTS.get(study, ())
    return Inputs(
        records=tuple(map(check_layers, records)),
        reported=read_reported(data / reported),
        reported_file=reported,
        devices=read_devices(data / "devices.yaml"),
        attachments={item.file: _attachments(item, patterns, data) for item in records},
    )


def _attachments(stored: Stored, patterns: tuple[str, ...], data: Path) -> dict[str, bytes]:
    """The files beside a record whose names fit one of ``patterns``."""
    names = (attachment.name for attachment in stored.record.attachments)
    wanted = [name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)]
    return {name: read_attachment(stored, name, data) for name in wanted}


def read_pins(data: Path) -> dict[str, tuple[str, ...]]:
    """The records that the user pinned: study → files relative to ``data``; none without a file.

    Raises ``RecordError`` for a file that says something else, or names what is no study.
    """
    path = data / "pins.yaml"
    if not path.exists():
        return {}
    # A file in which all lines are comments holds nothing.
    pins = read_strictly(path, _PINS, "YAML", _REMEDY) or {}
    unknown = (f"{name}: found a name that is no study" for name in pins if name not in STUDIES)
    refuse_first(unknown, path, f"the studies are {', '.join(STUDIES)}")
    return pins
