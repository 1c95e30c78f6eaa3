"""Records on disk: where they lie, how they are written once, and how they are read.

A record is one JSON file, which ``filed`` reads; the files that belong to it, such
as what counters and profilers printed, lie beside it in a folder of the same name.  What others
measured lies in a folder of its own, ``data/<study>/imported``.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from report.core.errors import RecordError, reason_of
from report.core.missing import Missing
from report.core.records import ENDING, IMPORTED, events
from report.core.records.filed import OWN, REMEDY, Kind, encode, parse
from report.core.records.files import read_file
from report.core.records.imported import ImportedRecord
from report.core.records.record import Head, Record

#: ``data/<study>/<UTC time>-<device>-<short hash>.json``
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9-]+-(?P<hash>[0-9a-f]{8})\.json")
#: What is said of a record whose content was changed after it was measured.
EDITED: Final = "its content does not match the hash in its name"
#: All attachments of a record that are read together (B).
LARGEST_ATTACHED: Final = 2**26

#: A record of one's own or its head, or one of others.
Kind_co = TypeVar("Kind_co", covariant=True)


@dataclass(frozen=True)
class Filed(Generic[Kind_co]):
    """A record with its file, relative to the data directory.

    ``edited`` says that its content is not what its experiment wrote.  ``others`` are further runs
    of the same measurement, which are pooled with it.  ``parts`` are the shards that are one run
    with it, itself among them, as their files hold them; none of a whole run.
    """

    record: Kind_co
    file: str
    edited: bool = False
    others: tuple[Filed[Kind_co], ...] = ()
    parts: tuple[Filed[Kind_co], ...] = ()

    @property
    def shards(self) -> tuple[Filed[Kind_co], ...]:
        """The shards that make this run, or the run itself where it was measured whole."""
        return self.parts or (self,)

    @property
    def files(self) -> tuple[str, ...]:
        """The files of this run: its own, or those of its shards."""
        return tuple(part.file for part in self.shards)

    @property
    def runs(self) -> tuple[Filed[Kind_co], ...]:
        """The record and all that are pooled with it."""
        return (self, *self.others)


Stored: TypeAlias = Filed[Record]
Listed: TypeAlias = Filed[Head]
StoredImport: TypeAlias = Filed[ImportedRecord]
#: A record or its head.
Item = TypeVar("Item", bound=Filed[Head])


# -------------------------------------------------------------------------------------- writing


def record_name(record: Record | ImportedRecord, text: bytes = b"") -> str:
    """The file name of a record: its time, its device and a short hash of its ``text``."""
    return _name(record, text or encode(record))


def _name(record: Head | ImportedRecord, text: bytes) -> str:
    moment = re.sub("[-:]", "", record.moment)
    return f"{moment}-{record.environment.key}-{digest(text)[:8]}{ENDING}"


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal, as an ``Attachment`` names it."""
    return hashlib.sha256(content).hexdigest()


def write_record(
    record: Record | ImportedRecord, data: Path, attachments: Mapping[str, bytes] = {}
) -> Path:
    """Write ``record`` into the folder of its study, whole or not at all; returns its path.

    ``attachments`` are the files that ``record.attachments`` names.  Raises ``RecordError`` if a
    file of that name exists, which is never replaced, or if the folder cannot be written.
    """
    text = encode(record)
    return write_files(data / record.folder / record_name(record, text), text, attachments)


def write_files(target: Path, text: bytes, attachments: Mapping[str, bytes]) -> Path:
    """Write the text of a record, and before it its attachments, as ``write_record`` does.

    Only a process that is killed can leave attachments without their record.
    """
    if target.exists():
        raise RecordError(
            f"{target}: a record of this name exists already and records are never replaced; "
            "nothing was written."
        )
    try:
        write_attachments(target, attachments)
        # Who came first meanwhile wrote the same: the name holds the hash of the content.
        _write(target, text)
    except OSError as error:
        raise RecordError(
            f"{target}: cannot be written ({error.strerror}); make room for it or give write "
            "permission, and try again."
        ) from error
    finally:
        if not target.exists():
            shutil.rmtree(attachments_folder(target), ignore_errors=True)
    return target


def write_attachments(target: Path, attachments: Mapping[str, bytes]) -> None:
    """Write attachments into the folder of the record ``target``; raises ``OSError``."""
    folder = attachments_folder(target) if attachments else target.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in attachments.items():
        _write(folder / name, content)


def _write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; raises ``OSError``."""
    scratch = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with scratch.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        scratch.replace(path)
    finally:
        with suppress(OSError):
            scratch.unlink()


# ----------------------------------------------------------------------------------- attachments


def attachments_folder(path: Path) -> Path:
    """The folder with the attachments of the record ``path``."""
    return path.with_name(path.name.removesuffix(ENDING))


def read_attachments(
    stored: Filed[Any], patterns: Iterable[str], data: Path, most: int = LARGEST_ATTACHED
) -> dict[str, bytes | Missing]:
    """Read the attachments of a record whose names fit one of ``patterns``, by their names.

    Raises ``RecordError`` for one that cannot be read, or that is not the file that the record
    names by its SHA-256, and for more than ``most`` bytes; one that is not there is missing.
    """
    wanted = tuple(patterns)
    contents: dict[str, bytes | Missing] = {}
    for item in stored.record.attachments:
        if not any(fnmatchcase(item.name, pattern) for pattern in wanted):
            continue
        path = attachments_folder(data / stored.file) / item.name
        place = _place(path, data)
        if not os.path.lexists(path):
            contents[item.name] = Missing(f"{item.name} is not beside the record")
            continue
        most -= path.stat().st_size if path.is_file() else 0
        if most < 0:
            why = f"have more than the {LARGEST_ATTACHED:,} B that are read of a record"
            raise RecordError(f"{place}: it and the attachments before {why}; remove it.")
        content = read_file(path, place, REMEDY, data)
        if digest(content) != item.sha256:
            raise RecordError(f"{place}: is another file than the record names; {REMEDY}.")
        contents[item.name] = content
    return contents


# --------------------------------------------------------------------------------------- reading


def read_record(path: Path, data: Path, kind: type[Kind] = OWN) -> Filed[Kind]:
    """Read and check one record in any folder of ``data``; raises ``RecordError``."""
    place, name = _place(path, data), _NAME.fullmatch(path.name)
    if not os.path.lexists(path):
        raise RecordError(f"{place}: there is no such file; correct the name.")
    if name is None:
        raise RecordError(
            f"{place}: found a name that is not <UTC time>-<device>-<hash>.json; give the file its "
            "name back, or move what is not a record elsewhere."
        )
    text = read_file(path, place, REMEDY, data)
    edited = digest(text)[:8] != name["hash"]
    try:
        record = parse(text, place, kind)
    except RecordError:
        raise
    except Exception as error:
        raise RecordError(f"{place}: {reason_of(error)}") from error
    right = _name(record, text)
    if not edited and path.name != right:
        raise RecordError(
            f"{place}: found a name of another time or machine than it was measured at or on; "
            f"rename it to {right}."
        )
    stored = Filed(record, path.relative_to(data).as_posix(), edited)
    return replace(stored, record=_with_events(stored, data))


def _with_events(stored: Filed[Any], data: Path) -> Any:
    """The record, if it is a whole one with the events of its cases, or why they are missing."""
    if not isinstance(stored.record, Record):
        return stored.record
    for content in read_attachments(stored, (events.NAME,), data).values():
        if isinstance(content, Missing):
            return events.without_events(stored.record, content.reason)
        return events.join_events(stored.record, content, f"{stored.file}, {events.NAME}")
    return stored.record


def _place(path: Path, data: Path) -> str:
    """How messages name a file: from the folder on in which the data directory lies."""
    inside = path.is_relative_to(data.parent)
    return (path.relative_to(data.parent) if inside else path).as_posix()


def read_records(study: str, data: Path, kind: type[Kind] = OWN) -> tuple[Filed[Kind], ...]:
    """Read all records of a study, oldest first; those of others in the order of their names.

    Raises ``RecordError`` for the first file that cannot be used.
    """
    records, refused = survey(study, data, kind)
    for why in refused.values():
        raise RecordError(why)
    return records


def survey(
    study: str, data: Path, kind: type[Kind] = OWN
) -> tuple[tuple[Filed[Kind], ...], dict[str, str]]:
    """Read the records of a study that can be used; returns them and why others cannot, by file."""
    folder = data / study / IMPORTED if kind is ImportedRecord else data / study
    records: list[Filed[Kind]] = []
    refused: dict[str, str] = {}
    for path in _visible(folder):
        if path.suffix != ENDING:
            continue
        try:
            stored = read_record(path, data, kind)
            if folder != data / stored.record.folder:
                right = f"found {stored.record.study!r}; move the file to {stored.record.folder}"
                raise RecordError(f"{_place(path, data)}: study: {right}.")
            records.append(stored)
        except RecordError as error:
            refused[path.relative_to(data).as_posix()] = str(error)
    return tuple(records), refused


def strays(study: str, data: Path) -> tuple[str, ...]:
    """Name each file and folder among the records of a study that belongs to none of them."""
    sentences: list[str] = []
    for path in (*_visible(data / study), *_visible(data / study / IMPORTED)):
        if why := _stray(path):
            sentences.append(f"{_place(path, data)}: {why}")
    return tuple(sentences)


def _stray(path: Path) -> str:
    """Why a file or folder belongs to no record; empty if it belongs to one, or has its name."""
    record = path.with_name(path.name + ENDING)
    if path.suffix == ENDING or path.name == IMPORTED:
        return ""
    if not path.is_dir():
        return f"is no record, since its name does not end in {ENDING}; move it elsewhere."
    if os.path.lexists(record):
        return ""
    return f"holds files of {record.name}, which is not there; restore that, or delete the folder."


def _visible(folder: Path) -> list[Path]:
    """What a folder contains, sorted, but for hidden files such as journals."""
    return sorted(path for path in folder.glob("*") if path.name[0] != ".")
