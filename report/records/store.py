"""Records on disk: where they lie, how they are written once, and how they are read."""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Protocol, Self, TypeVar

from report.errors import RecordError
from report.records.filed import content_hash, encode, file_hash, parse
from report.records.files import read_file
from report.records.header import Head, Outcome, parse_listing
from report.records.once import kept
from report.records.record import Attachment, Record
from report.records.strict import no_cycles

#: ``data/<study>/<UTC time>-<device>-<short hash>.json``
_NAME: Final = re.compile(
    r"(?P<time>[0-9]{8}T[0-9]{6}Z)-(?P<key>[a-z0-9-]+)-(?P<hash>[0-9a-f]{8})\.json"
)
_REMEDY: Final = "restore the file with git, or give read permission"
#: What is said of a record whose content was changed after it was measured.
EDITED: Final = "its content does not match the hash in its name"
#: No run writes as much; reading more could take all memory.
_LARGEST_BYTES: Final = 2**29


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


class _WithAttachments(Protocol):
    """What a record of any kind says of the files beside it."""

    @property
    def attachments(self) -> tuple[Attachment, ...]: ...


class Attaching(Protocol):
    """A record of any kind with its file."""

    @property
    def record(self) -> _WithAttachments: ...

    @property
    def file(self) -> str: ...


Item = TypeVar("Item", bound=Named)


def parts_of(item: Item) -> tuple[Item, ...]:
    """The shards that make a run, or the run itself where it was measured whole."""
    return item.parts or (item,)


def record_name(record: Record) -> str:
    """The file name of a record: start time, device and short hash of the content."""
    return f"{_moment(record)}-{record.environment.key}-{content_hash(record)}.json"


def _moment(record: Record | Head) -> str:
    return record.started.replace("-", "").replace(":", "")


def write_record(record: Record, data: Path, attachments: Mapping[str, bytes] = {}) -> Path:
    """Write ``record`` under ``data/<study>/`` atomically and without ever replacing a file.

    ``attachments`` are the files that ``record.attachments`` names; their folder is whole before
    the record appears.  Returns the record's path.  Raises ``RecordError`` if the files are not
    those that the record names, if one of that name exists, or if the folder cannot be written.
    """
    target = data / record.study / record_name(record)
    return write_once(target, encode(record) + b"\n", record.attachments, attachments)


def write_once(
    target: Path, text: bytes, named: Sequence[Attachment], attachments: Mapping[str, bytes]
) -> Path:
    """Write a record and the ``attachments`` that it has ``named``, as ``write_record`` does."""
    _check_attachments(named, attachments, target)
    folder = target.with_suffix("")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if attachments:
            _write_folder(folder, attachments)
    except OSError as error:
        raise _unwritable(folder if attachments else target.parent, error) from error
    try:
        _write_new(target, text)
    except FileExistsError:
        raise _exists(target) from None
    except OSError as error:
        if attachments:
            shutil.rmtree(folder, ignore_errors=True)  # ours, and of no use without the record
        raise _unwritable(target, error) from error
    return target


def _check_attachments(
    items: Sequence[Attachment], attachments: Mapping[str, bytes], target: Path
) -> None:
    """Refuse files that are not exactly the ``items`` that a record names."""
    named = {item.name: item.sha256 for item in items}
    given = {name: digest(content) for name, content in attachments.items()}
    for name in sorted(named.keys() | given.keys()):
        if named.get(name) != given.get(name):
            raise RecordError(
                f"{target}: the attachment {name} is not the one that the record names; give the "
                "files whose digests stand in the record."
            )


def _write_folder(folder: Path, files: Mapping[str, bytes]) -> None:
    """Create ``folder`` with ``files``, whole or not at all; ``RecordError`` if it is there."""
    scratch = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    scratch.mkdir()
    try:
        for name, content in files.items():
            _write_new(scratch / name, content)
        if folder.exists():
            raise _exists(folder)
        scratch.rename(folder)  # fails if somebody else has made it and filled it by now
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal, as an ``Attachment`` names it."""
    return hashlib.sha256(content).hexdigest()


def read_attachment(stored: Attaching, name: str, data: Path) -> bytes:
    """The file ``name`` beside a record, as it lies on disk.

    Raises ``RecordError`` if the record names no such file, or if it is missing or altered.
    """
    found = next((item for item in stored.record.attachments if item.name == name), None)
    if found is None:
        raise RecordError(f"{stored.file}: the record has no attachment {name}; mend the name.")
    path = (data / stored.file).with_suffix("") / name
    place = path.relative_to(data).as_posix()
    remedy = "restore the file with git, or run the experiment again"
    content = read_file(path, place, remedy, data)
    if digest(content) != found.sha256:
        raise RecordError(f"{place}: found other content than the record's digest says; {remedy}.")
    return content


def read_attachments(stored: Attaching, patterns: Iterable[str], data: Path) -> dict[str, bytes]:
    """The files beside a record whose names fit one of ``patterns``; raises ``RecordError``."""
    names = (attachment.name for attachment in stored.record.attachments)
    wanted = [name for name in names if any(fnmatchcase(name, each) for each in patterns)]
    return {name: read_attachment(stored, name, data) for name in wanted}


def _exists(path: Path) -> RecordError:
    return RecordError(
        f"{path}: a record of this name exists already and records are never replaced; "
        "nothing was written."
    )


def _unwritable(path: Path, error: OSError) -> RecordError:
    return RecordError(
        f"{path}: cannot be written ({error.strerror}); make room for it or give write "
        "permission, and try again."
    )


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
    text, place, name = _read(path, data)
    # First, since it needs room beside the text, as the record does afterwards.
    as_written = file_hash(text) == name["hash"]
    record = parse(text, place)
    # Another layout of the same content is no edit.
    same = as_written or content_hash(record) == name["hash"]
    return Stored(record, path.relative_to(data).as_posix(), _alterations(record, name, same))


def _alterations(record: Record | Head, name: Mapping[str, str], same: bool) -> tuple[str, ...]:
    """How a record differs from what its file's ``name`` says; ``same`` if its hash does not."""
    known = (
        ("start", _moment(record), name["time"]),
        ("device", record.environment.key, name["key"]),
    )
    others = tuple(
        f"its {what} is {content} and its name says {said}"
        for what, content, said in known
        if content != said
    )
    return others if same else (EDITED, *others)


def _read(path: Path, data: Path) -> tuple[bytes, str, dict[str, str]]:
    """The text of a record, how messages name it, and the parts of its name."""
    place = place_in(path, data)
    name = parts_of_name(path, place)
    _check_size(path, place)
    return read_file(path, place, _REMEDY, data), place, name


def parts_of_name(path: Path, place: str) -> dict[str, str]:
    """The parts of the name of a record of any kind; raises ``RecordError`` for another name."""
    match = _NAME.fullmatch(path.name)
    if match is None:
        raise RecordError(
            f"{place}: found a name that is not <UTC time>-<device>-<hash>.json; give the file its "
            "name back, or move what is not a record elsewhere."
        )
    return match.groupdict()


def place_in(path: Path, data: Path) -> str:
    """How messages name a file: from the folder on in which the data directory lies."""
    inside = path.is_relative_to(data.parent)
    return (path.relative_to(data.parent) if inside else path).as_posix()


def _check_size(path: Path, place: str) -> None:
    size = path.stat().st_size if path.is_file() else 0
    if size > _LARGEST_BYTES:
        raise RecordError(
            f"{place}: found {size / 2**20:,.0f} MiB, more than any run writes; move what is not a "
            "record elsewhere."
        )


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
    return sorted(p for p in (data / study).glob("*.json") if not p.name.startswith("."))


def _listed(path: Path, data: Path) -> Listed:
    text, place, name = _read(path, data)
    as_written = file_hash(text) == name["hash"]
    head, outcomes, whole = parse_listing(text, place)
    _check_folder(head.study, path, place)
    same = as_written or _hash_of(whole, text, place) == name["hash"]
    file = path.relative_to(data).as_posix()
    return Listed(head, file, digest(text), _alterations(head, name, same), outcomes)


def _hash_of(whole: Record | None, text: bytes, place: str) -> str | None:
    """The hash of a record in another layout; None for cases that no experiment wrote."""
    try:
        return content_hash(whole or parse(text, place))
    except RecordError:
        return None
