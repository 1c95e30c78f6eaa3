"""Records on disk: where they lie, how they are written once, and how they are read.

A record is one archive (zip): ``record.json``, which ``report.records.filed`` reads, and beside it
what counters and profilers printed.
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
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

from report.errors import RecordError
from report.records import ENDING
from report.records.filed import encode, parse, parse_listing
from report.records.files import read_file
from report.records.once import kept
from report.records.record import Head, Outcome, Record
from report.records.strict import no_cycles
from report.records.unpacking import LARGEST_UNPACKED

#: ``data/<study>/<UTC time>-<device>-<short hash>.zip``
_NAME: Final = re.compile(
    r"(?P<time>[0-9]{8}T[0-9]{6}Z)-(?P<key>[a-z0-9-]+)-(?P<hash>[0-9a-f]{8})\.zip"
)
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


@dataclass(frozen=True)
class Stored:
    """A record together with the file it came from, relative to the data directory.

    ``others`` are further runs of the same measurement, which are pooled with it.  ``parts`` are
    the shards that ``record`` was merged from, as their files hold them; none of a whole run.
    """

    record: Record
    file: str
    #: In which ways the content is not what the file's name says, in words; none if it is.
    alterations: tuple[str, ...] = ()
    others: tuple[Stored, ...] = ()
    parts: tuple[Stored, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files of this run: its own, or those of its shards."""
        return tuple(part.file for part in parts_of(self))

    def with_parts(self, parts: tuple[Self, ...]) -> Self:
        """The same as a run of these shards."""
        return replace(self, parts=parts)

    @property
    def untouched(self) -> bool:
        """Whether the record is as its experiment wrote it."""
        return not self.alterations

    @property
    def runs(self) -> tuple[Stored, ...]:
        """The record and all that are pooled with it."""
        return (self, *self.others)


@dataclass(frozen=True)
class Listed:
    """The head of a record with its file; ``sha256`` is that of the file as it lies there.

    ``parts`` are the shards that are one run with it, itself among them.
    """

    record: Head
    file: str
    sha256: str
    alterations: tuple[str, ...] = ()
    #: How each of its cases ended.
    outcomes: tuple[Outcome, ...] = field(default=(), compare=False)
    parts: tuple[Listed, ...] = ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files of this run: its own, or those of its shards."""
        return tuple(part.file for part in parts_of(self))

    def with_parts(self, parts: tuple[Self, ...]) -> Self:
        """The same as a run of these shards."""
        return replace(self, parts=parts)


class Attaching(Protocol):
    """A record of any kind with its file; the record names the files beside it."""

    @property
    def record(self) -> Any: ...

    @property
    def file(self) -> str: ...


class Named(Protocol):
    """A record, or its head, with its file, or with those of the shards that it stands for."""

    @property
    def record(self) -> Record | Head: ...

    @property
    def file(self) -> str: ...

    @property
    def files(self) -> tuple[str, ...]: ...

    @property
    def parts(self) -> tuple[Self, ...]: ...

    def with_parts(self, parts: tuple[Self, ...]) -> Self: ...


Item = TypeVar("Item", bound=Named)


def parts_of(item: Item) -> tuple[Item, ...]:
    """The shards that make a run, or the run itself where it was measured whole."""
    return item.parts or (item,)


def record_name(record: Record) -> str:
    """The file name of a record: start time, device and short hash of what it says."""
    return name_of(encode(record), record.started, record.environment.key)


def name_of(text: bytes, moment: str, key: str) -> str:
    """The file name of a record of any kind, whose text is this."""
    digits = moment.replace("-", "").replace(":", "")
    return f"{digits}-{key}-{short_digest(text)}{ENDING}"


def short_digest(text: bytes) -> str:
    """The digits in a record's name, which change with any byte of what it says."""
    return digest(text)[:8]


def write_record(record: Record, data: Path, attachments: Mapping[str, bytes] = {}) -> Path:
    """Write ``record`` under ``data/<study>/`` atomically and without ever replacing a file.

    ``attachments`` are the files that ``record.attachments`` names.  Returns the record's path.
    Raises ``RecordError`` if a file of that name exists, or if the folder cannot be written.
    """
    text = encode(record)
    target = data / record.study / name_of(text, record.started, record.environment.key)
    return write_archive(target, packed(text, attachments))


def write_archive(target: Path, content: bytes) -> Path:
    """Write the archive of a record, as ``write_record`` does."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _write_new(target, content)
    except OSError as error:
        if isinstance(error, FileExistsError) and target.exists():
            raise RecordError(
                f"{target}: a record of this name exists already and records are never replaced; "
                "nothing was written."
            ) from None
        raise RecordError(
            f"{target}: cannot be written ({error.strerror}); make room for it or give write "
            "permission, and try again."
        ) from error
    return target


def packed(text: bytes, attachments: Mapping[str, bytes] = {}) -> bytes:
    """The archive of a record whose ``text`` is this, the same bytes for the same content."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in {RECORD: text, **attachments}.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal, as an ``Attachment`` names it."""
    return hashlib.sha256(content).hexdigest()


def read_attachments(stored: Attaching, patterns: Iterable[str], data: Path) -> dict[str, bytes]:
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
    """One file of an archive; a small one may hold any number of bytes."""
    if archive.getinfo(name).compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is neither stored nor deflated")
    with archive.open(name) as stream:
        content = stream.read(LARGEST_UNPACKED + 1)
    if len(content) > LARGEST_UNPACKED:
        raise ValueError(f"{name} holds more than {LARGEST_UNPACKED:,} B")
    return content


def _write_new(target: Path, content: bytes) -> None:
    """Create ``target`` whole or not at all; raises ``FileExistsError`` if it is there."""
    scratch = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with scratch.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        _place(scratch, target)
    finally:
        scratch.unlink(missing_ok=True)


def _place(scratch: Path, target: Path) -> None:
    """Give a finished file its name, unless a file has that name already."""
    try:
        # link() fails if the target exists, where rename() would replace it without a word.
        os.link(scratch, target)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: take the name first, which only one writer can do,
        # then put the content in its place.  A crash in between leaves an empty file, which
        # reading refuses.
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        scratch.replace(target)


def read_record(path: Path, data: Path) -> Stored:
    """Read and check one record, which lies in the folder of its study; raises ``RecordError``."""
    stored = read_anywhere(path, data)
    _check_folder(stored.record.study, path, place_in(path, data))
    return stored


@kept
def read_anywhere(path: Path, data: Path) -> Stored:
    """As ``read_record``, of a file in any folder of ``data``, such as one that was handed in."""
    _, text, place, name = _read(path, data)
    record = parse(text, place)
    return Stored(record, path.relative_to(data).as_posix(), _alterations(name, text))


def _alterations(name: Mapping[str, str], text: bytes) -> tuple[str, ...]:
    """How a record's ``text`` differs from what the file's ``name`` says."""
    return () if short_digest(text) == name["hash"] else (EDITED,)


def _read(path: Path, data: Path) -> tuple[bytes, bytes, str, dict[str, str]]:
    """A record's file, its text, how messages name it, and the parts of its name."""
    place = place_in(path, data)
    name = parts_of_name(path, place)
    content = read_file(path, place, _REMEDY, data)
    return content, text_of(content, place, _REMEDY), place, name


def text_of(content: bytes, place: str, remedy: str) -> bytes:
    """What a record of any kind says, of the ``content`` of its file; raises ``RecordError``."""
    return unpacked_files(content, (RECORD,), place, remedy)[RECORD]


def parts_of_name(path: Path, place: str) -> dict[str, str]:
    """The parts of the name of a record of any kind; raises ``RecordError`` for another name."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise RecordError(
            f"{place}: found a name that is not <UTC time>-<device>-<hash>.zip; give the file its "
            "name back, or move what is not a record elsewhere."
        )
    return match.groupdict()


def place_in(path: Path, data: Path) -> str:
    """How messages name a file: from the folder on in which the data directory lies."""
    inside = path.is_relative_to(data.parent)
    return (path.relative_to(data.parent) if inside else path).as_posix()


def _check_folder(study: str, path: Path, place: str) -> None:
    if study != path.parent.name:
        raise RecordError(
            f"{place}: study: found {study!r} in the folder {path.parent.name!r}; "
            "move the file to the folder of its study."
        )


@no_cycles()
def read_study(study: str, data: Path) -> tuple[Stored, ...]:
    """All records of a study in the order of their names, oldest first; none is not an error."""
    return tuple(read_record(path, data) for path in _paths(study, data))


def list_records(study: str, data: Path) -> tuple[Listed, ...]:
    """All records of a study by their heads, oldest first; each file is read once.

    Raises ``RecordError`` for the first file that is no record, or whose head is wrong.
    """
    return tuple(_listed(path, data) for path in _paths(study, data))


def survey_records(study: str, data: Path) -> tuple[tuple[Listed, ...], dict[str, str]]:
    """As ``list_records``, and why each of the other files is no record, by their names."""
    found: list[Listed] = []
    refused: dict[str, str] = {}
    for path in _paths(study, data):
        try:
            found.append(_listed(path, data))
        except RecordError as error:
            refused[path.relative_to(data).as_posix()] = str(error)
    return tuple(found), refused


def _paths(study: str, data: Path) -> list[Path]:
    return sorted(p for p in (data / study).glob(f"*{ENDING}") if not p.name.startswith("."))


def _listed(path: Path, data: Path) -> Listed:
    content, text, place, name = _read(path, data)
    head, outcomes = parse_listing(text, place)
    _check_folder(head.study, path, place)
    file = path.relative_to(data).as_posix()
    return Listed(head, file, digest(content), _alterations(name, text), outcomes)
