"""Temporary folders that a killed command does not leave for ever.

A build works below ``out/.scratch-…``, which the lock of ``out/`` protects.  A command that writes
elsewhere has a folder with a lock of its own in the system's temporary folder: the next command
removes those that nobody holds.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_USED: Final = "ridgepoint-used-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """An empty folder that is removed afterwards, or by a later command; raises ``OSError``."""
    remove_abandoned()
    folder = Path(tempfile.mkdtemp(prefix=_USED)).resolve()
    with _locked(folder):
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def remove_abandoned() -> None:
    """Remove the folders of ``scratch_folder`` whose process was killed."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_USED}*"):
        with suppress(OSError), _locked(folder):
            shutil.rmtree(folder, ignore_errors=True)


def keep(folder: Path, name: str) -> Path:
    """Rename a folder of ``scratch_folder`` so that nobody removes it; raises ``OSError``."""
    return folder.rename(folder.with_name(f"ridgepoint-{name}-{folder.name.removeprefix(_USED)}"))


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of ``folder``; raises ``OSError`` if another process holds it."""
    descriptor = os.open(folder, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    try:
        with suppress(ImportError):
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def temporary_files_in(folder: Path) -> Iterator[None]:
    """Let this process and all that it starts make their temporary files below ``folder``."""
    folder.mkdir()
    before, chosen = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = chosen
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before
