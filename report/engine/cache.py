"""What a build remembers: digests of files, and in ``out/manifest.json`` what steps made of what.

The manifest is the cache, the check of what is stale, and the provenance.  It depends on the data
and the code alone, so that two builds write the same one.  What only this machine can know, such as
the times of files, is kept in ``out/.index.json``; without it a build reads every file once more
and is right all the same.  Both begin with a checksum: one that is damaged anywhere counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

MANIFEST: Final = "manifest.json"
INDEX: Final = ".index.json"
#: How all begins that a build leaves in ``out/`` only when it is killed.
SCRATCH: Final = ".scratch-"
#: Raised when the meaning of the manifest changes; another one is as good as none.
VERSION: Final = 4

#: A file touched so shortly before it was read may be changed once more without a new time stamp,
#: since systems round their clocks: to some milliseconds, or on old file systems to two seconds.
_UNSURE_NS: Final = 30_000_000
_COARSE_NS: Final = 2_000_000_000
_CHECKSUM: Final = '"checksum": "'
_DIGITS: Final = 64
#: What reading damaged content raises.
_DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, AttributeError)


class Entry(NamedTuple):
    """What a step is made from, each by its digest or version, and what it made.

    ``files`` are data, templates and code, named as in the project; ``upstream`` the steps that it
    reads; ``outputs`` are relative to ``out/``.
    """

    files: dict[str, str]
    versions: dict[str, str]
    upstream: dict[str, str]
    parameters: dict[str, str]
    outputs: Mapping[str, str] = MappingProxyType({})
    notices: tuple[str, ...] = ()


class Contents:
    """The digests of files; a file is read again only when the system says that it was touched.

    ``known`` is ``memory`` after an earlier build: path → size, times, inode, digest.
    """

    def __init__(self, known: Mapping[str, list[Any]] | None = None) -> None:
        self._known = known or {}
        self._digests: dict[str, str | None] = {}
        self.memory: dict[str, list[Any]] = {}
        #: Whether ``memory`` says more than was known.
        self.learned = False

    def digest(self, path: str) -> str | None:
        """SHA-256 of the file at the absolute ``path`` in hexadecimal; None where there is none."""
        if path not in self._digests:
            self._digests[path] = self._look(path)
        return self._digests[path]

    def forget(self, path: str) -> None:
        """Look again when ``path`` is asked for next, because it was written."""
        self._digests.pop(path, None)

    def _look(self, path: str) -> str | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        seen = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
        known = self._known.get(path)
        if known and known[:4] == seen:
            self.memory[path] = known
            return str(known[4])
        now, digest = time.time_ns(), file_digest(path)
        self.learned = True
        unsure = _UNSURE_NS if status.st_mtime_ns % 1_000_000_000 else _COARSE_NS
        if digest is not None and now - max(seen[1:3]) > unsure:
            self.memory[path] = [*seen, digest]
        return digest


def file_digest(path: str) -> str | None:
    """SHA-256 of a file in hexadecimal; None if it cannot be read, or is no file."""
    try:
        if not os.path.isfile(path):
            return None  # to open a pipe would wait for ever
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def text_digest(*parts: str) -> str:
    """SHA-256 of texts that hold no line feed, one a line."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def files_below(folder: str) -> list[str]:
    """The files below ``folder``, relative to it and sorted.

    Hidden files and folders, and Python's own caches, are none of a project's inputs.
    """
    found: list[str] = []
    folders = [""]
    while folders:
        prefix = folders.pop()
        try:
            entries = list(os.scandir(os.path.join(folder, prefix)))
        except OSError:
            continue
        for entry in entries:
            if entry.name.startswith((".", "__pycache__")):
                continue
            if entry.is_dir():
                folders.append(f"{prefix}{entry.name}/")
            else:
                found.append(prefix + entry.name)
    return sorted(found)


def read_manifest(out: str) -> dict[str, Entry]:
    """The steps in the manifest of ``out``; none if there is none that can be believed.

    None is believed that names an output behind a symbolic link.
    """
    try:
        content = json.loads(_read(MANIFEST, out))
        if content["version"] != VERSION:
            return {}
        steps = {
            id: Entry(**{**entry, "notices": tuple(entry["notices"])})
            for id, entry in content["steps"].items()
        }
        linked = behind_links((name for entry in steps.values() for name in entry.outputs), out)
        return {} if linked else steps
    except _DAMAGE:
        return {}


def behind_links(names: Iterable[str], out: str) -> set[str]:
    """Those of the outputs ``names`` whose folders, as far down as ``out``, include a link."""
    linked: dict[str, bool] = {"": False}

    def is_linked(folder: str) -> bool:
        if folder not in linked:
            above = folder.rpartition("/")[0]
            linked[folder] = is_linked(above) or os.path.islink(os.path.join(out, folder))
        return linked[folder]

    return {name for name in names if is_linked(name.rpartition("/")[0])}


def write_manifest(steps: Mapping[str, Entry], out: str) -> None:
    """Replace the manifest in ``out`` in one step; raises ``OSError``."""
    entries = {id: entry._asdict() for id, entry in steps.items()}
    _write(MANIFEST, {"version": VERSION, "steps": entries}, out)


def read_index(out: str) -> dict[str, Any]:
    """What an earlier build remembered of this machine; nothing if it cannot be believed."""
    try:
        content: dict[str, Any] = json.loads(_read(INDEX, out))
        return {key: content[key] for key in ("files", "tex")}
    except _DAMAGE:
        return {}


def write_index(contents: Contents, known: Mapping[str, Any], tex: object, out: str) -> None:
    """Remember what was learnt of this machine, where that can be written.

    Of other files that exist it stays as it was ``known``.
    """
    others = {p: s for p, s in known.get("files", {}).items() if os.path.exists(p)}
    try:
        _write(INDEX, {"files": {**others, **contents.memory}, "tex": tex}, out)
    except OSError:
        return


def _read(name: str, out: str) -> bytes:
    """What ``_write`` wrote; raises ``OSError``, or ``ValueError`` if it was altered."""
    path = os.path.join(out, name)
    if not os.path.isfile(path):
        raise ValueError("no file: to open a pipe would wait for ever")
    with open(path, "rb") as stream:
        text = stream.read()
    rest = text.partition(_CHECKSUM.encode())[2]
    if hashlib.sha256(rest[_DIGITS:]).hexdigest().encode() != rest[:_DIGITS]:
        raise ValueError("the checksum is another one")
    return text


def _write(name: str, content: Mapping[str, Any], out: str) -> None:
    """Replace ``out/<name>`` by JSON with a checksum in one step, also where a folder is.

    In one line, since Python writes indented JSON ten times as slowly.
    """
    text = json.dumps({"checksum": "", **content}, sort_keys=True) + "\n"
    head, mark, rest = text.partition(_CHECKSUM)
    path = os.path.join(out, name)
    scratch = os.path.join(out, f"{SCRATCH}{os.getpid()}-{name}")
    with open(scratch, "w", encoding="utf-8") as stream:
        stream.write(f"{head}{mark}{hashlib.sha256(rest.encode()).hexdigest()}{rest}")
    if os.path.isdir(path) and not os.path.islink(path):
        os.replace(path, f"{scratch}-old")
    os.replace(scratch, path)
