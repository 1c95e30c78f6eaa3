"""Records on disk: where they lie, how they are written once, and how they are read.

A record is one archive (zip): ``record.json``, which ``report.records.filed`` reads, and beside it
what counters and profilers printed.  What others measured lies in a folder of its own,
``data/<study>/imported``.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import secrets
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from report.errors import RecordError
from report.records import ENDING, IMPORTED
from report.records.filed import (
    IMPORT_AGAIN,
    encode,
    encode_import,
    parse,
    parse_head,
    parse_import,
)
from report.records.files import read_bounded, read_file
from report.records.imported import ImportedRecord
from report.records.record import Head, Record
from report.records.strict import no_cycles

#: ``data/<study>/<UTC time>-<device>-<short hash>.zip``
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9-]+-(?P<hash>[0-9a-f]{8})\.zip")
_REMEDY: Final = "restore the file with git, or give read permission"
_BESIDE: Final = "restore the file with git, or run the experiment again"
#: What is said of a record whose content was changed after it was measured.
EDITED: Final = "its content does not match the hash in its name"
#: What reading an archive that is none raises.
_BROKEN: Final = (
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, RuntimeError, ValueError,
)  # fmt: skip
#: The file of the archive that holds what was measured.
RECORD: Final = "record.json"

#: A record of one's own or its head, or one of others.
Kind_co = TypeVar("Kind_co", covariant=True)


@dataclass(frozen=True)
class Filed(Generic[Kind_co]):
    """A record with its file, relative to the data directory, and that file's SHA-256.

    ``edited`` says that its content is not what its experiment wrote.  ``others`` are further runs
    of the same measurement, which are pooled with it.  ``parts`` are the shards that are one run
    with it, itself among them, as their files hold them; none of a whole run.
    """

    record: Kind_co
    file: str
    sha256: str = ""
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


def record_name(record: Record) -> str:
    """The file name of a record: start time, device and short hash of what it says."""
    return name_of(encode(record), record.started, record.environment.key)


def name_of(text: bytes, moment: str, key: str) -> str:
    """The file name of a record of any kind, whose text is this."""
    return f"{re.sub('[-:]', '', moment)}-{key}-{digest(text)[:8]}{ENDING}"


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
    if isinstance(record, ImportedRecord):
        text, moment = encode_import(record), record.origin.imported
        folder = data / record.study / IMPORTED
    else:
        text, moment, folder = encode(record), record.started, data / record.study
    target = folder / name_of(text, moment, record.environment.key)
    return write_archive(target, packed(text, attachments))


def write_archive(target: Path, content: bytes) -> Path:
    """Write the archive of a record, as ``write_record`` does."""
    if target.exists():
        raise RecordError(
            f"{target}: a record of this name exists already and records are never replaced; "
            "nothing was written."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_whole(target, content)
    except OSError as error:
        raise RecordError(
            f"{target}: cannot be written ({error.strerror}); make room for it or give write "
            "permission, and try again."
        ) from error
    return target


def _write_whole(target: Path, content: bytes) -> None:
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with scratch.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # Who came first meanwhile wrote the same: the name holds the hash of the content.
        scratch.replace(target)
    finally:
        scratch.unlink(missing_ok=True)


def packed(text: bytes, attachments: Mapping[str, bytes] = {}) -> bytes:
    """The archive of a record whose ``text`` is this, the same bytes for the same content."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in {RECORD: text, **attachments}.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()


# -------------------------------------------------------------------------------------- reading


def read_attachments(stored: Filed[Any], patterns: Iterable[str], data: Path) -> dict[str, bytes]:
    """The files beside a record whose names fit one of ``patterns``, by their names.

    Raises ``RecordError`` if one of them is missing from the archive, or altered.
    """
    wanted = tuple(patterns)
    digests = {
        item.name: item.sha256
        for item in stored.record.attachments
        if any(fnmatchcase(item.name, each) for each in wanted)
    }
    if not digests:
        return {}
    archive = read_file(data / stored.file, stored.file, _BESIDE, data)
    files = unpacked_files(archive, digests, stored.file, _BESIDE)
    for name, content in files.items():
        if digest(content) != digests[name]:
            raise RecordError(
                f"{stored.file}: {name}: found other content than the record says; {_BESIDE}."
            )
    return files


def unpacked_files(
    content: bytes, names: Iterable[str], place: str, remedy: str
) -> dict[str, bytes]:
    """These files of the archive that a record is, which messages call ``place``.

    Raises ``RecordError`` that ends with ``remedy``, also for a file that is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: _member(archive, name) for name in names}
    except KeyError as error:
        raise RecordError(f"{place}: {str(error.args[0]).rstrip('.')}; {remedy}.") from error
    except _BROKEN as error:
        why = str(error).rstrip(".")
        raise RecordError(f"{place}: found no whole zip archive ({why}); {remedy}.") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is neither stored nor deflated")
    with archive.open(name) as stream:
        return read_bounded(stream)


def text_of(content: bytes, place: str, remedy: str) -> bytes:
    """What a record of any kind says, of the ``content`` of its file; raises ``RecordError``."""
    return unpacked_files(content, (RECORD,), place, remedy)[RECORD]


def read_anywhere(path: Path, data: Path) -> Stored:
    """As ``read_record``, of a file in any folder of ``data``, such as one that was handed in."""
    return _read(path, data, parse)


def read_record(path: Path, data: Path) -> Stored:
    """Read and check one record, which lies in the folder of its study; raises ``RecordError``."""
    return _once(path, data, lambda: _in_folder(read_anywhere(path, data), path, data))


def read_import(path: Path, data: Path) -> StoredImport:
    """The same for a record of others."""
    return _once(
        path, data, lambda: _in_folder(_read(path, data, parse_import, IMPORT_AGAIN), path, data)
    )


def _listed(path: Path, data: Path) -> Listed:
    return _in_folder(_read(path, data, parse_head), path, data)


def _read(
    path: Path, data: Path, parse: Callable[[bytes, str], Kind_co], remedy: str = _REMEDY
) -> Filed[Kind_co]:
    place = _place(path, data)
    name = _NAME.fullmatch(path.name)
    if name is None:
        raise RecordError(
            f"{place}: found a name that is not <UTC time>-<device>-<hash>.zip; give the file its "
            "name back, or move what is not a record elsewhere."
        )
    content = read_file(path, place, remedy, data)
    text = text_of(content, place, remedy)
    edited = digest(text)[:8] != name["hash"]
    return Filed(parse(text, place), _file(path, data), digest(content), edited)


def _place(path: Path, data: Path) -> str:
    """How messages name a file: from the folder on in which the data directory lies."""
    inside = path.is_relative_to(data.parent)
    return (path.relative_to(data.parent) if inside else path).as_posix()


def _file(path: Path, data: Path) -> str:
    return path.relative_to(data).as_posix()


def _in_folder(filed: Filed[Any], path: Path, data: Path) -> Filed[Any]:
    """The record, which must lie in the folder of its study."""
    study, imported = filed.record.study, isinstance(filed.record, ImportedRecord)
    folder = f"{study}/{IMPORTED}" if imported else study
    if path.parent != data / folder:
        raise RecordError(
            f"{_place(path, data)}: study: found {study!r}; move the file to {folder}."
        )
    return filed


#: What was read in the ``each_read_once`` that has not ended.
_KEPT: Final[list[dict[Path, Filed[Any]]]] = []


@contextmanager
def each_read_once() -> Iterator[None]:
    """Keep whole records that were read until the block ends; no file may change in it.

    A study that is computed looks at many of them several times.
    """
    _KEPT.append({})
    try:
        yield
    finally:
        _KEPT.pop()


def _once(path: Path, data: Path, read: Callable[[], Filed[Any]]) -> Filed[Any]:
    if not _KEPT:
        return read()
    key, known = data / path, _KEPT[-1]
    if key not in known:
        known[key] = read()
    return known[key]


@no_cycles()
def read_study(study: str, data: Path) -> tuple[Stored, ...]:
    """All records of a study in the order of their names, oldest first; none is not an error."""
    return tuple(read_record(path, data) for path in _paths(data / study))


def list_records(study: str, data: Path) -> tuple[Listed, ...]:
    """All records of a study by their heads, oldest first; each file is read once.

    Raises ``RecordError`` for the first file that is no record, or whose head is wrong.
    """
    return tuple(_listed(path, data) for path in _paths(data / study))


def survey_records(study: str, data: Path) -> tuple[tuple[Listed, ...], dict[str, str]]:
    """As ``list_records``, and why each of the other files is no record, by their names."""
    found: list[Listed] = []
    refused: dict[str, str] = {}
    for path in _paths(data / study):
        try:
            found.append(_listed(path, data))
        except RecordError as error:
            refused[_file(path, data)] = str(error)
    return tuple(found), refused


def list_imports(study: str, data: Path) -> tuple[StoredImport, ...]:
    """All imported records of a study in the order of their names; none is not an error.

    Raises ``RecordError`` for the first one that cannot be used.
    """
    return tuple(read_import(path, data) for path in import_paths(study, data))


def import_paths(study: str, data: Path) -> list[Path]:
    """The files of imported records of a study in the order of their names."""
    return _paths(data / study / IMPORTED)


def _paths(folder: Path) -> list[Path]:
    return sorted(path for path in folder.glob(f"*{ENDING}") if not path.name.startswith("."))
