"""Write and read the files of records; an existing file is never replaced.

A record is one JSON file, which ``file_format`` parses.  Its attachments, such as the output of
profilers, are in a folder of the same name.  Own records (measured by this project) are in
``data/<study>``, imported ones (measured by others) in ``data/<study>/imported``.
"""

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from report.core.errors import RecordError, reason_of
from report.core.missing import Missing
from report.core.records import ENDING, IMPORTED, file_format
from report.core.records.file_format import EVENTS, OWN_RECORD, REMEDY, Kind
from report.core.records.files import TABLE, read_file
from report.core.records.record import ImportedRecord, Record, pack_samples

#: The name of a record's file: ``<UTC time>-<device>-<short hash>.json``.
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9-]+-(?P<hash>[0-9a-f]{8})\.json")
#: Message about a record with ``StoredRecord.edited``.
EDITED: Final = "its content does not match the hash in its name"
#: Limit on the attachments of a record that are read together (B).
LARGEST_ATTACHED: Final = 2**26

#: Number of records of a study above which their samples are packed, to save memory; packing takes
#: a third of the time of reading.
_FEW_RECORDS: Final = 50

#: ``Record`` (measured by this project) or ``ImportedRecord`` (measured by others).
Kind_co = TypeVar("Kind_co", covariant=True)


@dataclass(frozen=True)
class StoredRecord(Generic[Kind_co]):
    """A record and the path of its file, relative to the data directory.

    ``edited``: the content of the file does not match the hash in its name.  ``others``: further
    runs of the same measurement, pooled with the record.  ``parts``: if the record was merged from
    shards of a run, the shards; else empty.  ``sha256``: digest of the file.
    """

    record: Kind_co
    file: str
    edited: bool = False
    others: tuple["StoredRecord[Kind_co]", ...] = ()
    parts: tuple["StoredRecord[Kind_co]", ...] = ()
    sha256: str = field(default="", compare=False)

    @property
    def short_digest(self) -> str:
        """The part of the digest in the file's name, by which papers call a record."""
        return self.file[-13:-5]  # eight digits before «.json»

    @property
    def shards(self) -> tuple["StoredRecord[Kind_co]", ...]:
        """The shards of this run; for a run without shards the run itself."""
        return self.parts or (self,)

    @property
    def files(self) -> tuple[str, ...]:
        """The file of this run, or the files of its shards."""
        return tuple(part.file for part in self.shards)

    @property
    def runs(self) -> tuple["StoredRecord[Kind_co]", ...]:
        """The record and all records pooled with it."""
        return (self, *self.others)


Stored: TypeAlias = StoredRecord[Record]
StoredImport: TypeAlias = StoredRecord[ImportedRecord]


def start_and_file(stored: Stored) -> tuple[str, str]:
    """Return the sort key of a record: start of the run, then file."""
    return stored.record.started, stored.file


def record_name(record: Record | ImportedRecord, text: bytes = b"") -> str:
    """Return the file name of a record: time, device and a short hash of its ``text``.

    An empty ``text`` is replaced by the encoded record.
    """
    return _name_with_hash(record, digest(text or file_format.encode(record)))


def _name_with_hash(record: Record | ImportedRecord, sha256: str) -> str:
    """Return the file name of a record whose text has the digest ``sha256``."""
    moment = record.origin.imported if isinstance(record, ImportedRecord) else record.started
    compact_moment = re.sub("[-:]", "", moment)
    return f"{compact_moment}-{record.environment.key}-{sha256[:8]}{ENDING}"


def _folder_of_kind(study: str, kind: type[Record | ImportedRecord]) -> str:
    """Return the folder of a study's records of one kind, relative to the data directory."""
    return f"{study}/{IMPORTED}" if kind is ImportedRecord else study


def digest(content: bytes) -> str:
    """Return the SHA-256 of ``content`` in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def write_record(
    record: Record | ImportedRecord, data: Path, attachments: Mapping[str, bytes] = {}
) -> Path:
    """Write ``record`` completely or not at all; return the path of the file.

    ``attachments`` are the contents of ``record.attachments`` by name.  Raises ``RecordError`` if
    the file exists, since records are never replaced, or if the folder cannot be written.
    """
    text = file_format.encode(record)
    target = data / _folder_of_kind(record.study, type(record)) / record_name(record, text)
    return write_files(target, text, attachments)


def write_files(target: Path, text: bytes, attachments: Mapping[str, bytes]) -> Path:
    """Write the attachments of the record ``target``, then its ``text``, like ``write_record``.

    If the record cannot be written, its attachments are removed.
    """
    if target.exists():
        raise RecordError(
            f"{target}: a record of this name exists already and records are never replaced; "
            "nothing was written."
        )
    try:
        write_attachments(target, attachments)
        # If another process has just written this file, the content is equal: names contain a hash.
        _write_file(target, text)
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
    """Write attachments into the folder that belongs to the record ``target``.

    Creates the folder of the record too.  Raises ``OSError``.
    """
    folder = attachments_folder(target) if attachments else target.parent
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in attachments.items():
        _write_file(folder / name, content)


def _write_file(path: Path, content: bytes) -> None:
    """Write a file completely or not at all; raises ``OSError``."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    finally:
        with suppress(OSError):
            temporary.unlink()  # exists only if an operation failed


def attachments_folder(path: Path) -> Path:
    """Return the folder for the attachments of the record ``path``."""
    return path.with_name(path.name.removesuffix(ENDING))


def read_attachments(
    stored: StoredRecord[Any], patterns: Iterable[str], data: Path
) -> dict[str, bytes | Missing]:
    """Read the attachments of a record whose names match a pattern; return name → content.

    ``patterns`` are those of ``fnmatch``.  A file that does not exist is ``Missing``.  Raises
    ``RecordError`` for an unreadable file, for a SHA-256 that differs from that in the record, and
    for more than ``LARGEST_ATTACHED`` bytes in all.
    """
    patterns = tuple(patterns)
    total_bytes = 0
    contents: dict[str, bytes | Missing] = {}
    for attachment in stored.record.attachments:
        name = attachment.name
        if not any(fnmatchcase(name, pattern) for pattern in patterns):
            continue
        path = attachments_folder(data / stored.file) / name
        place = _place_of(path, data)
        if not os.path.lexists(path):
            contents[name] = Missing(f"{name} is not beside the record")
            continue
        if path.is_file():
            total_bytes += path.stat().st_size
        if total_bytes > LARGEST_ATTACHED:
            raise RecordError(
                f"{place}: this attachment and those before it exceed the {LARGEST_ATTACHED:,} B "
                "that are read per record; remove this file."
            )
        content = read_file(path, place, REMEDY, data)
        if digest(content) != attachment.sha256:
            raise RecordError(f"{place}: the SHA-256 is not that in the record; {REMEDY}.")
        contents[name] = content
    return contents


def read_record(path: Path, data: Path, kind: type[Kind] = OWN_RECORD) -> StoredRecord[Kind]:
    """Read and check one record in any folder of ``data``; raises ``RecordError``.

    ``kind``: ``Record`` for an own record, or ``ImportedRecord``.  The events of PyTorch's
    allocator are read from their attachment.
    """
    place = _place_of(path, data)
    name = _NAME.fullmatch(path.name)
    if not os.path.lexists(path):
        raise RecordError(f"{place}: there is no such file; correct the name.")
    if name is None:
        raise RecordError(
            f"{place}: found a name that is not <UTC time>-<device>-<hash>.json; restore the "
            "file's name, or move the file elsewhere if it is no record."
        )
    text = read_file(path, place, REMEDY, data)
    sha256 = digest(text)
    edited = sha256[:8] != name["hash"]
    try:
        record = file_format.parse(text, place, kind, unaltered=not edited)
    except RecordError:
        raise
    except Exception as error:
        raise RecordError(f"{place}: {reason_of(error)}") from error
    expected_name = _name_with_hash(record, sha256)
    if not edited and path.name != expected_name:
        raise RecordError(
            f"{place}: the name does not fit the time and machine in the record; "
            f"rename it to {expected_name}."
        )
    file = path.relative_to(data).as_posix()
    stored: StoredRecord[Any] = StoredRecord(record, file, edited, sha256=sha256)
    if not isinstance(record, Record):
        return stored
    events = read_attachments(stored, (EVENTS,), data).get(EVENTS)
    if events is None:
        return stored
    place_of_events = f"{stored.file}, {EVENTS}"
    return replace(stored, record=file_format.join_events(record, events, place_of_events))


def _place_of(path: Path, data: Path) -> str:
    """Return a path for messages: relative to the parent of ``data`` if it is in that parent."""
    if path.is_relative_to(data.parent):
        path = path.relative_to(data.parent)
    return path.as_posix()


def read_records(
    study: str, data: Path, kind: type[Kind] = OWN_RECORD
) -> tuple[StoredRecord[Kind], ...]:
    """Read all records of a study, sorted by file name and thus by time.

    Raises ``RecordError`` for the first unusable record.
    """
    records, refused = read_usable_records(study, data, kind)
    for reason in refused.values():
        raise RecordError(reason)
    return records


def read_usable_records(
    study: str, data: Path, kind: type[Kind] = OWN_RECORD
) -> tuple[tuple[StoredRecord[Kind], ...], dict[str, str]]:
    """Read the records of a study; return usable records, and file → reason for the others."""
    folder = data / _folder_of_kind(study, kind)
    paths = [path for path in _visible_paths(folder) if path.suffix == ENDING]
    records: list[StoredRecord[Kind]] = []
    refused: dict[str, str] = {}
    for path in paths:
        try:
            stored = read_record(path, data, kind)
            if len(paths) > _FEW_RECORDS:
                pack_samples(stored.record.cases)
            stated_study = stored.record.study
            if stated_study != study:
                raise RecordError(
                    f"{_place_of(path, data)}: study: found {stated_study!r}; move the file to "
                    f"{_folder_of_kind(stated_study, kind)}."
                )
            records.append(stored)
        except RecordError as error:
            refused[path.relative_to(data).as_posix()] = str(error)
    return tuple(records), refused


def stray_files(study: str, data: Path) -> tuple[str, ...]:
    """Return one sentence for each file and folder that belongs to no record of the study."""
    sentences: list[str] = []
    for path in (*_visible_paths(data / study), *_visible_paths(data / study / IMPORTED)):
        if path.suffix in (ENDING, TABLE) or path.name == IMPORTED:
            continue
        fault = f"is no record, since its name does not end in {ENDING}; move it elsewhere."
        if path.is_dir():
            record = path.with_name(path.name + ENDING)
            if os.path.lexists(record):
                continue  # the folder with the attachments of this record
            fault = f"holds files of {record.name}, which does not exist; "
            fault += f"restore {record.name}, or delete the folder."
        sentences.append(f"{_place_of(path, data)}: {fault}")
    return tuple(sentences)


def _visible_paths(folder: Path) -> list[Path]:
    """List the paths in a folder, sorted, without hidden ones such as journals of running runs."""
    return sorted(path for path in folder.glob("*") if not path.name.startswith("."))
