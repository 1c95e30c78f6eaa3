"""Reading all that a study's paper is made from; the only reader of ``data/`` in a build."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from report.devices import read_devices
from report.paper import Inputs
from report.reported import read_reported
from report.store import Stored, newest_by_device, read_attachment, read_study
from report.strict import read_strictly, refuse_first
from report.studies import ATTACHMENTS, STUDIES

#: dict[str, tuple[str, ...]] | None, which a type checker takes for no class.
_PINS: Final[Any] = dict[str, tuple[str, ...]] | None
_REMEDY: Final = "write it as «conv_scaling: [conv_scaling/<file>.json]»"


def gather(study: str, data: Path) -> Inputs:
    """The inputs of ``study`` from the data directory.

    Uses the newest full record of each device, or the ones that ``pins.yaml`` names.  Raises
    ``RecordError`` for the first file that cannot be used.
    """
    reported = data / "reported" / f"{study}.json"
    records = newest_by_device(read_study(study, data), read_pins(data).get(study, ()))
    patterns = ATTACHMENTS.get(study, ())
    return Inputs(
        records=records,
        reported=read_reported(reported),
        reported_file=reported.relative_to(data).as_posix(),
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
