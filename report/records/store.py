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
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Generic, TypeAlias, TypeVar

from report.errors import RecordError
from report.records import ENDING, IMPORTED
from report.records.filed import OWN, REMEDY, Kind, encode, parse
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


def record_name(record: Record | ImportedRecord, text: bytes = b"") -> str:
    """The file name of a record: its time, its device and a short hash of its ``text``."""
    moment = re.sub("[-:]", "", record.moment)
    return f"{moment}-{record.environment.key}-{digest(text or encode(record))[:8]}{ENDING}"


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
    target = data / record.folder / record_name(record, text)
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
    files = unpacked_files(archive, digests, stored.file)
    for name, content in files.items():
        if digest(content) != digests[name]:
            raise RecordError(
                f"{stored.file}: {name}: found other content than the record says; {REMEDY}."
            )
    return files


def unpacked_files(content: bytes, names: Iterable[str], place: str) -> dict[str, bytes]:
    """These files of the archive that a record is, which messages call ``place``.

    Raises ``RecordError``, also for a file that is too large.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: _member(archive, name) for name in names}
    except KeyError as error:
        raise RecordError(f"{place}: {str(error.args[0]).rstrip('.')}; {REMEDY}.") from error
    except _BROKEN as error:
        why = str(error).rstrip(".")
        raise RecordError(f"{place}: found no whole zip archive ({why}); {REMEDY}.") from error


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is neither stored nor deflated")
    with archive.open(name) as stream:
        return read_bounded(stream.read)


def text_of(content: bytes, place: str) -> bytes:
    """What a record of any kind says, of the ``content`` of its file; raises ``RecordError``."""
    return unpacked_files(content, (RECORD,), place)[RECORD]


# --------------------------------------------------------------------------------------- reading


def read_record(path: Path, data: Path, kind: type[Kind] = OWN) -> Filed[Kind]:
    """Read and check one record in any folder of ``data``; raises ``RecordError``."""
    place, name = _place(path, data), _NAME.fullmatch(path.name)
    if name is None:
        raise RecordError(
            f"{place}: found a name that is not <UTC time>-<device>-<hash>.zip; give the file its "
            "name back, or move what is not a record elsewhere."
        )
    content = read_file(path, place, REMEDY, data)
    text = text_of(content, place)
    edited = digest(text)[:8] != name["hash"]
    file = path.relative_to(data).as_posix()
    return Filed(parse(text, place, kind), file, digest(content), edited)


def _place(path: Path, data: Path) -> str:
    """How messages name a file: from the folder on in which the data directory lies."""
    inside = path.is_relative_to(data.parent)
    return (path.relative_to(data.parent) if inside else path).as_posix()


def read_records(study: str, data: Path, kind: type[Kind] = OWN) -> tuple[Filed[Kind], ...]:
    """All records of a study, or their heads, oldest first, or those of others by their names.

    None is not an error.  Raises ``RecordError`` for the first file that cannot be used.
    """
    found, refused = survey(study, data, kind)
    for why in refused.values():
        raise RecordError(why)
    return found


def survey(
    study: str, data: Path, kind: type[Kind] = OWN
) -> tuple[tuple[Filed[Kind], ...], dict[str, str]]:
    """The same records, and why each other file is none, by their names."""
    folder = data / study / IMPORTED if kind is ImportedRecord else data / study
    found: list[Filed[Kind]] = []
    refused: dict[str, str] = {}
    for path in sorted(path for path in folder.glob(f"*{ENDING}") if path.name[0] != "."):
        try:
            filed = read_record(path, data, kind)
            if folder != data / filed.record.folder:
                right = f"found {filed.record.study!r}; move the file to {filed.record.folder}"
                raise RecordError(f"{_place(path, data)}: study: {right}.")
            found.append(filed)
        except RecordError as error:
            refused[path.relative_to(data).as_posix()] = str(error)
    return tuple(found), refused
