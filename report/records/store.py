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
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from report.errors import RecordError
from report.records import ENDING, IMPORTED
from report.records.filed import (
    IMPORT_AGAIN,
    REMEDY,
    encode,
    parse,
    parse_head,
    parse_import,
)
from report.records.files import read_bounded, read_file
from report.records.imported import ImportedRecord
from report.records.record import Head, Record

#: ``data/<study>/<UTC time>-<device>-<short hash>.zip``
_NAME: Final = re.compile(r"[0-9]{8}T[0-9]{6}Z-[a-z0-9-]+-(?P<hash>[0-9a-f]{8})\.zip")
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


def record_name(record: Record | ImportedRecord) -> str:
    """The file name of a record: its time, its device and a short hash of what it says."""
    return name_of(encode(record), record)


def name_of(text: bytes, record: Record | ImportedRecord) -> str:
    """The same of a record whose text is this."""
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
    target = data / record.folder / name_of(text, record)
    return write_archive(target, packed(text, attachments))


def write_archive(target: Path, content: bytes) -> Path:
    """Write the archive of a record, as ``write_record`` does."""
    if target.exists():
        raise RecordError(
            f"{target}: a record of this name exists already and records are never replaced; "
            "nothing was written."
        )
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with scratch.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        # Who came first meanwhile wrote the same: the name holds the hash of the content.
        scratch.replace(target)
    except OSError as error:
        raise RecordError(
            f"{target}: cannot be written ({error.strerror}); make room for it or give write "
            "permission, and try again."
        ) from error
    finally:
        with suppress(OSError):
            scratch.unlink()
    return target


def packed(text: bytes, attachments: Mapping[str, bytes] = {}) -> bytes:
    """The archive of a record whose ``text`` is this, the same bytes for the same content."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in {RECORD: text, **attachments}.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()


# -------------------------------------------------------------------------------------- archives


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
    archive = read_file(data / stored.file, stored.file, REMEDY, data)
    files = unpacked_files(archive, digests, stored.file, REMEDY)
    for name, content in files.items():
        if digest(content) != digests[name]:
            raise RecordError(
                f"{stored.file}: {name}: found other content than the record says; {REMEDY}."
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


# --------------------------------------------------------------------------------------- reading


def read_record(path: Path, data: Path) -> Stored:
    """Read and check one record in any folder of ``data``; raises ``RecordError``."""
    return _read(path, data, parse)


def read_import(path: Path, data: Path) -> StoredImport:
    """The same for a record of others."""
    return _read(path, data, parse_import, IMPORT_AGAIN)


def _read_head(path: Path, data: Path) -> Listed:
    return _read(path, data, parse_head)


#: What was read in the ``each_read_once`` that has not ended.
_KEPT: Final[list[dict[Any, Filed[Any]]]] = []


@contextmanager
def each_read_once() -> Iterator[None]:
    """Keep records that were read until the block ends; no file may change in it.

    A study that is computed looks at many of them several times.
    """
    _KEPT.append({})
    try:
        yield
    finally:
        _KEPT.pop()


def _read(
    path: Path, data: Path, parse: Callable[[bytes, str], Kind_co], remedy: str = REMEDY
) -> Filed[Kind_co]:
    known = _KEPT[-1] if _KEPT else {}
    if (path, parse) in known:
        return known[path, parse]
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
    file = path.relative_to(data).as_posix()
    known[path, parse] = Filed(parse(text, place), file, digest(content), edited)
    return known[path, parse]


def _place(path: Path, data: Path) -> str:
    """How messages name a file: from the folder on in which the data directory lies."""
    inside = path.is_relative_to(data.parent)
    return (path.relative_to(data.parent) if inside else path).as_posix()


def read_study(study: str, data: Path) -> tuple[Stored, ...]:
    """All records of a study, oldest first; none is not an error.

    Raises ``RecordError`` for the first file that cannot be used.
    """
    return _all(*_survey(data / study, data, read_record))


def list_records(study: str, data: Path) -> tuple[Listed, ...]:
    """The same by their heads."""
    return _all(*survey_records(study, data))


def list_imports(study: str, data: Path) -> tuple[StoredImport, ...]:
    """All imported records of a study in the order of their names, as ``read_study`` does."""
    return _all(*survey_imports(study, data))


def survey_records(study: str, data: Path) -> tuple[tuple[Listed, ...], dict[str, str]]:
    """The records of a study by their heads, and why each other file is none, by their names."""
    return _survey(data / study, data, _read_head)


def survey_imports(study: str, data: Path) -> tuple[tuple[StoredImport, ...], dict[str, str]]:
    """The same for records of others, which are read whole."""
    return _survey(data / study / IMPORTED, data, read_import)


def _survey(
    folder: Path, data: Path, read: Callable[[Path, Path], Filed[Kind_co]]
) -> tuple[tuple[Filed[Kind_co], ...], dict[str, str]]:
    found: list[Filed[Any]] = []
    refused: dict[str, str] = {}
    for path in sorted(path for path in folder.glob(f"*{ENDING}") if path.name[0] != "."):
        try:
            filed: Filed[Any] = read(path, data)
            if folder != data / filed.record.folder:
                right = f"found {filed.record.study!r}; move the file to {filed.record.folder}"
                raise RecordError(f"{_place(path, data)}: study: {right}.")
            found.append(filed)
        except RecordError as error:
            refused[path.relative_to(data).as_posix()] = str(error)
    return tuple(found), refused


def _all(found: tuple[Kind_co, ...], refused: Mapping[str, str]) -> tuple[Kind_co, ...]:
    for why in refused.values():
        raise RecordError(why)
    return found
