"""Records on disk: where they lie, how they are written once, and which of them a paper uses."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from report.errors import RecordError
from report.records import Record, content_hash, encode, parse

#: ``data/<study>/<UTC time>-<device>-<short hash>.json``
_NAME = re.compile(r"^(?P<time>\d{8}T\d{6}Z)-(?P<device>[a-z0-9-]+)-(?P<hash>[0-9a-f]{8})\.json$")


@dataclass(frozen=True)
class Stored:
    """A record together with the file it came from, relative to the data directory."""

    record: Record
    file: str
    #: False when the content does not match the hash in the file's name: edited after measuring.
    untouched: bool


def record_name(record: Record) -> str:
    """The file name of a record: start time, device and short hash of the content."""
    moment = record.started.replace("-", "").replace(":", "")
    return f"{moment}-{record.environment.key}-{content_hash(record)}.json"


def write_record(record: Record, data: Path) -> Path:
    """Write ``record`` under ``data/<study>/`` atomically and without ever replacing a file.

    Returns the new path.  Raises ``RecordError`` if a file of that name exists.
    """
    folder = data / record.study
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / record_name(record)
    scratch = folder / f".{target.name}.{os.getpid()}.tmp"
    try:
        with scratch.open("wb") as stream:
            stream.write(encode(record) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())
        # link() fails if the target exists, where rename() would replace it without a word.
        os.link(scratch, target)
    except FileExistsError:
        raise RecordError(
            f"{target}: a record of this name exists already and records are never replaced; "
            "nothing was written."
        ) from None
    finally:
        scratch.unlink(missing_ok=True)
    return target


def read_record(path: Path, data: Path) -> Stored:
    """Read and check one record; raises ``RecordError``."""
    place = path.relative_to(data.parent).as_posix() if path.is_relative_to(data.parent) else path
    match = _NAME.match(path.name)
    if match is None:
        raise RecordError(
            f"{place}: the name is not <UTC time>-<device>-<hash>.json; give the file its "
            "name back, or move what is not a record elsewhere."
        )
    try:
        text = path.read_bytes()
    except OSError as error:
        raise RecordError(f"{place}: cannot be read ({error.strerror}).") from error
    record = parse(text, str(place))
    if record.study != path.parent.name:
        raise RecordError(
            f"{place}: study: found {record.study!r} in the folder of {path.parent.name!r}; "
            "move the file to the folder of its study."
        )
    file = path.relative_to(data).as_posix()
    return Stored(record, file, content_hash(record) == match["hash"])


def read_study(study: str, data: Path) -> tuple[Stored, ...]:
    """All records of a study in the order of their names, oldest first; none is not an error."""
    folder = data / study
    paths = sorted(p for p in folder.glob("*.json") if not p.name.startswith("."))
    return tuple(read_record(path, data) for path in paths)


def newest_by_device(stored: Iterable[Stored], pinned: Iterable[str] = ()) -> tuple[Stored, ...]:
    """The record that a paper uses for each device, newest device first.

    The newest run of the full plan wins; a quick or custom run stands in only where a device has
    no full one.  A file named in ``pinned`` wins over both.  Raises ``RecordError`` for a pin that
    names no record, or two pins for one device.
    """
    candidates = tuple(stored)
    pins = tuple(pinned)
    known = {item.file for item in candidates}
    for pin in pins:
        if pin not in known:
            raise RecordError(f"data/pins.yaml: no record {pin}; mend the name or remove the pin.")
    chosen: dict[str, Stored] = {}
    for item in sorted(candidates, key=lambda item: _preference(item, pins)):
        key = item.record.environment.key
        if item.file in pins and key in chosen and chosen[key].file in pins:
            raise RecordError(
                f"data/pins.yaml: {chosen[key].file} and {item.file} are both records of {key}; "
                "pin one of them."
            )
        chosen[key] = item
    return tuple(sorted(chosen.values(), key=lambda item: item.record.started, reverse=True))


def _preference(item: Stored, pins: tuple[str, ...]) -> tuple[bool, bool, str, str]:
    record = item.record
    return (item.file in pins, record.protocol.plan == "full", record.started, item.file)
