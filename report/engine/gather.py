"""Reading all that a study's paper is made from; the only reader of ``data/`` in a build."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from report.evidence.case_checks import check_layers
from report.evidence.devices import read_devices
from report.evidence.reported import read_reported
from report.evidence.runs import labels
from report.paper.findings import Inputs
from report.records.store import (
    Listed,
    Named,
    Stored,
    digest,
    list_records,
    newest_by_device,
    read_attachment,
    read_record,
)
from report.records.strict import read_strictly, refuse_first
from report.studies import STUDIES, attachments_of

#: dict[str, tuple[str, ...]] | None, which a type checker takes for no class.
_PINS: Final[Any] = dict[str, tuple[str, ...]] | None
_REMEDY: Final = "write it as «conv_scaling: [conv_scaling/<file>.json]»"


@dataclass(frozen=True)
class Origin:
    """What a paper says of the data that it comes from.

    ``records`` and ``reported`` are files relative to the data directory, ``devices`` the names of
    the machines, ``measured`` the day of the newest run, None where there is none.  ``altered`` are
    all records of the study, used or not, that are not what their names say: (file, in which way).
    """

    records: Sequence[str]
    devices: Sequence[str]
    measured: str | None
    reported: str
    altered: Sequence[tuple[str, str]] = ()


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
    return load(study, data, choose(study, data).origin.records)


def choose(study: str, data: Path) -> Chosen:
    """The records that the paper of ``study`` uses, told by the heads of all that there are.

    Raises ``RecordError`` for a head, an attachment or a pin that cannot be used.
    """
    listed, pins = list_records(study, data), read_pins(data).get(study, ())
    used = newest_by_device(listed, pins)
    beside = {
        f"{item.file.removesuffix('.json')}/{name}": digest(content)
        for item in used
        for name, content in _attachments(item, attachments_of(study), data).items()
    }
    digests = {**{item.file: item.sha256 for item in used}, **beside}
    notices = (*_notices(used, listed), *_passed_over(used, listed, pins))
    return Chosen(_origin(study, used, listed, data), digests, notices)


def load(study: str, data: Path, records: Sequence[str]) -> Inputs:
    """The inputs of ``study`` with these records; raises ``RecordError``."""
    return _inputs(study, data, tuple(read_record(data / file, data) for file in records))


def _origin(study: str, used: Sequence[Listed], listed: Iterable[Listed], data: Path) -> Origin:
    return Origin(
        records=tuple(item.file for item in used),
        devices=labels(used),
        measured=max((item.record.started[:10] for item in used), default=None),
        reported=_reported(study, data),
        altered=tuple((item.file, way) for item in listed for way in item.alterations),
    )


def _notices(used: Iterable[Listed], listed: Iterable[Listed]) -> Iterator[str]:
    """What the user should know of the records before reading the paper."""
    for item in listed:
        if item.alterations:
            yield (
                f"data/{item.file}: {' and '.join(item.alterations)}, so it was edited or renamed "
                "after it was measured; restore it with git, or run the experiment again."
            )
    for item in used:
        if item.record.protocol.plan != "full":
            yield (
                f"data/{item.file}: a {item.record.protocol.plan} run stands in for this device, "
                "which has no full one."
            )


def _passed_over(
    used: Iterable[Listed], listed: Sequence[Listed], pins: Collection[str]
) -> Iterator[str]:
    """Which records of a device no paper uses, and why: one line a device."""
    for item in used:
        key = item.record.environment.key
        others = [o for o in listed if o.record.environment.key == key and o.file != item.file]
        if others:
            why = (
                "is named in data/pins.yaml"
                if item.file in pins
                else f"is the newest {item.record.protocol.plan} run of its device"
            )
            yield (
                f"data/{item.file} {why}; not used: {_listing([o.file for o in others])}; to use "
                "another, name it in data/pins.yaml."
            )


#: So many names stand in a line; of more their number.
_NAMED: Final = 2


def _listing(files: Sequence[str]) -> str:
    """The names of the newest files without their folder, and how many more there are."""
    names = [file.rpartition("/")[2] for file in sorted(files, reverse=True)]
    rest = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{rest}"


def _reported(study: str, data: Path) -> str:
    """The file of published values; nothing where the study repeats nobody's."""
    file = f"reported/{study}.json"
    return file if os.path.lexists(data / file) else ""


def _inputs(study: str, data: Path, records: tuple[Stored, ...]) -> Inputs:
    patterns = attachments_of(study)
    return Inputs(
        records=tuple(map(check_layers, records)),
        reported=read_reported(data / "reported" / f"{study}.json"),
        reported_file=_reported(study, data),
        devices=read_devices(data / "devices.yaml"),
        attachments={item.file: _attachments(item, patterns, data) for item in records},
    )


def _attachments(stored: Named, patterns: tuple[str, ...], data: Path) -> dict[str, bytes]:
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
    pins = read_strictly(path, _PINS, "YAML", _REMEDY, data) or {}
    unknown = (f"{name}: found a name that is no study" for name in pins if name not in STUDIES)
    refuse_first(unknown, path, f"the studies are {', '.join(STUDIES)}")
    return pins
