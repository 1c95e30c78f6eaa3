"""Putting finished files into ``out/``: one build at a time, and nothing half done is ever seen."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from report.core.errors import unwritable
from report.core.system.exchange import install, keep_others
from report.core.system.processes import leave_on_signals, remove
from report.engine.cache import MANIFEST, SCRATCH, Entry, read_manifest, write_manifest
from report.engine.steps import ARTIFACTS

_LOCK: Final = ".lock"
#: What each study has of its own, and what all share: these are replaced as a whole.
_OF_A_STUDY: Final = (ARTIFACTS, "qmd", "tex", "html")
_OF_ALL: Final = ("quarto", "diff", "verify")
#: All folders that a build writes into.
_ROOMS: Final = (*_OF_A_STUDY, *_OF_ALL, "pdf", "docx", "values")


@contextmanager
def only_build(out: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Be the only build that writes to ``out``; calls ``waiting`` once if another one is at it.

    The system frees the lock when a build ends in whatever way.  What a build that was killed has
    left behind is removed, and so is a link in place of a folder that a build writes into, so that
    nothing is written elsewhere.  A signal ends this process with its own removed too.  Raises
    ``OutputError`` if ``out`` cannot be written.
    """
    path = out / _LOCK
    try:
        out.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or (path.exists() and not path.is_file()):
            remove(path)  # such as a pipe, which would wait for ever
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise unwritable(error) from error
    try:
        _take(lock, waiting)
        with leave_on_signals(lambda: out.glob(f"{SCRATCH}*")):
            _tidy(out)
            for room in (out / room for room in _ROOMS if (out / room).is_symlink()):
                room.unlink()
            try:
                yield
            finally:
                _tidy(out)
    finally:
        os.close(lock)


def _tidy(out: Path) -> None:
    for left in out.glob(f"{SCRATCH}*"):
        remove(left)


def _take(lock: int, waiting: Callable[[], None]) -> None:
    """Lock the open file; where the file system has no such locks, builds must not meet."""
    with suppress(OSError):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)


@contextmanager
def stage_in(out: Path) -> Iterator[Path]:
    """An empty folder on the file system of ``out`` for as long as needed; ``OutputError``."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=out))
    except OSError as error:
        raise unwritable(error) from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def lay_out(names: Iterable[str], out: Path, stage: Path) -> None:
    """Put the outputs ``names`` on the stage as they are in ``out``; raises ``OutputError``.

    They are linked, not copied, since nobody writes into a finished file.
    """
    try:
        for source, target in ((out / name, stage / name) for name in names):
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):
                if not source.is_symlink():
                    os.link(source, target)
            if not target.exists():
                shutil.copyfile(source, target)
    except OSError as error:
        raise unwritable(error) from error


def put(stage: Path, out: Path, changed: Iterable[str], known: Collection[str]) -> list[Path]:
    """Replace what has changed in ``out``, each folder or file in one step.

    ``changed`` names what is not in ``out`` as it is on the stage, or is there and should be no
    more; ``known`` are files of builds, and all others stay.  Returns the folders and files that
    were replaced; raises ``OutputError``, also for another file in the place of a new one.
    """
    made: list[Path] = []
    try:
        stage.mkdir(parents=True, exist_ok=True)
        for whole in sorted({_whole(name) for name in changed}):
            keep_others(whole, out, stage, known)
            if (stage / whole).exists():
                install(stage / whole, out / whole)
                made.append(out / whole)
            elif os.path.lexists(out / whole):
                (out / whole).replace(Path(tempfile.mkdtemp(dir=stage)) / "gone")
    except OSError as error:
        raise unwritable(error) from error
    return made


def put_folder(name: str, out: Path, stage: Path) -> None:
    """Replace a folder that lists its files in a manifest of its own; raises ``OSError``, too."""
    files = [path for path in (stage / name).rglob("*") if path.is_file()]
    made = {path.relative_to(stage).as_posix(): "" for path in files}
    known = [file for entry in read_manifest(str(out / name)).values() for file in entry.outputs]
    write_manifest({name: Entry({}, {f"{name}/{MANIFEST}": "", **made})}, str(stage / name))
    put(stage, out, [*made, *known], known)


def _whole(name: str) -> str:
    """The folder that an output is replaced with, or the file itself."""
    parts = name.split("/")
    if parts[0] in _OF_A_STUDY and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in _OF_ALL else name
