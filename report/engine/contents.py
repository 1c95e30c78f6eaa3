"""Digests of files; a file is read again only when the system says that it was touched."""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any, Final, NamedTuple

#: A file touched so shortly before it was read may be changed once more without a new time stamp,
#: since systems round their clocks: to some milliseconds, or on old file systems to two seconds.
_UNSURE_NS: Final = 30_000_000
_COARSE_NS: Final = 2_000_000_000


class Seen(NamedTuple):
    """A file as it was when its digest was taken; a change of content changes ``changed_ns``."""

    size: int
    modified_ns: int
    changed_ns: int
    inode: int
    digest: str


class Contents:
    """The digests of files, remembered from build to build by what the system says of them.

    ``remembered`` is what ``memory()`` gave after an earlier build.
    """

    def __init__(self, remembered: dict[str, list[Any]] | None = None) -> None:
        self._old = remembered or {}
        self._now: dict[str, str | None] = {}
        self._memory: dict[str, Seen] = {}
        #: Whether ``memory()`` differs from what was remembered.
        self.learned = False

    def digest(self, path: str) -> str | None:
        """SHA-256 of the file at the absolute ``path`` in hexadecimal; None where there is none."""
        if path not in self._now:
            self._now[path] = self._look(path)
        return self._now[path]

    def forget(self, path: str) -> None:
        """Look again when ``path`` is asked for next, because it was written."""
        self._now.pop(path, None)

    def memory(self) -> dict[str, Seen]:
        """What to remember of the files that were asked for."""
        return self._memory

    def _look(self, path: str) -> str | None:
        try:
            status = os.stat(path)
        except OSError:
            return None
        found = (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)
        old = self._old.get(path)
        if old is not None and (old[0], old[1], old[2], old[3]) == found:
            self._memory[path] = Seen(*found, old[4])
            return str(old[4])
        before = time.time_ns()
        digest = file_digest(path)
        self.learned = True
        unsure = _UNSURE_NS if found[1] % 1_000_000_000 else _COARSE_NS
        if digest is not None and before - max(found[1], found[2]) > unsure:
            self._memory[path] = Seen(*found, digest)
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


def files_below(folder: str, endings: tuple[str, ...] = ("",)) -> list[str]:
    """The files below ``folder`` with one of ``endings``, relative to it and sorted.

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
            elif entry.name.endswith(endings):
                found.append(prefix + entry.name)
    return sorted(found)
