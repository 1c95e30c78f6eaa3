"""Putting finished files into ``out/``: one build at a time, and nothing half done is ever seen."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from report.engine.cache import SCRATCH, behind_links
from report.engine.steps import ARTIFACTS, paper_files
from report.errors import unwritable
from report.system.outputs import install
from report.system.processes import leave_on_signals, remove

_LOCK: Final = ".lock"
#: What each study has of its own, and what all share: these are replaced as a whole.
_OF_A_STUDY: Final = (ARTIFACTS, "qmd", "tex", "html")
_OF_ALL: Final = ("quarto",)


@contextmanager
def only_build(out: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Be the only build that writes to ``out``; calls ``waiting`` once if another one is at it.

    The system frees the lock when a build ends in whatever way.  What a build that was killed has
    left behind is removed.  A signal ends this process with its own removed too.  Raises
    ``OutputError`` if ``out`` cannot be written.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = _open_lock(out)
    except OSError as error:
        raise unwritable(error) from error
    try:
        _take(lock, waiting)
        with leave_on_signals(lambda: out.glob(f"{SCRATCH}*")):
            _tidy(out)
            try:
                yield
            finally:
                _tidy(out)
    finally:
        os.close(lock)


def _open_lock(out: Path) -> int:
    """The lock file of ``out``; what is no file, such as a pipe or a link, is taken away first."""
    path = out / _LOCK
    if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
        path.replace(Path(tempfile.mkdtemp(prefix=SCRATCH, dir=out)) / _LOCK)
    return os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


def _tidy(out: Path) -> None:
    for left in out.glob(f"{SCRATCH}*"):
        remove(left)


def _take(lock: int, waiting: Callable[[], None]) -> None:
    """Lock the open file; where the system has no such locks, builds must not meet."""
    with suppress(ImportError, OSError):
        import fcntl

        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(lock, fcntl.LOCK_EX)


@contextmanager
def stage_in(out: Path) -> Iterator[Path]:
    """A folder on the file system of ``out``; raises ``OutputError``.

    It is empty but for the temporary files of this process and all that it starts meanwhile.
    """
    try:
        folder = Path(tempfile.mkdtemp(prefix=SCRATCH, dir=out))
        (folder / ".tmp").mkdir()
    except OSError as error:
        raise unwritable(error) from error
    before, chosen = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder / ".tmp")
    try:
        yield folder
    finally:
        tempfile.tempdir = chosen
        del os.environ["TMPDIR"]
        if before is not None:
            os.environ["TMPDIR"] = before
        shutil.rmtree(folder, ignore_errors=True)


def lay_out(names: Iterable[str], out: Path, stage: Path) -> None:
    """Put the outputs ``names`` on the stage as they are in ``out``; raises ``OutputError``.

    They are linked, not copied, since nobody writes into a finished file.
    """
    try:
        for name in names:
            target = stage / name
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(out / name, target)
    except OSError as error:
        raise unwritable(error) from error


def _link(source: Path, target: Path) -> None:
    if source.is_symlink():
        shutil.copyfile(source, target)
        return
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)


def put(stage: Path, out: Path, changed: set[str]) -> list[Path]:
    """Replace what has changed in ``out``, each folder or file in one step.

    ``changed`` names what is not in ``out`` as it is on the stage, or is there and should be no
    more.  Returns the folders and files that were replaced; raises ``OutputError``.
    """
    wholes = {_whole(name) for name in changed}
    # The PDF beside a page travels with the folder, where that is replaced too.
    wholes -= {whole for whole in wholes if whole.rpartition("/")[0] in wholes}
    made: list[Path] = []
    try:
        for whole in sorted(wholes):
            _take_paper(whole, stage, out)
            if (stage / whole).exists():
                _make_folders((out / whole).parent, out, stage)
                install(stage / whole, out / whole)
                made.append(out / whole)
            elif not behind_links([whole], str(out)):
                _discard(out / whole, stage)
    except OSError as error:
        raise unwritable(error) from error
    return made


def _take_paper(whole: str, stage: Path, out: Path) -> None:
    """Let the folder of a page on the stage hold the PDF that lies beside the page in ``out``."""
    if whole.startswith("html/"):
        paper = paper_files(whole.removeprefix("html/"))[1]
        if (stage / whole).is_dir() and (out / paper).exists():
            lay_out([paper], out, stage)


def _whole(name: str) -> str:
    """The folder that an output is replaced with, or the file itself."""
    parts = name.split("/")
    if parts[0] == "html" and name == paper_files(parts[1])[1]:
        return name
    if parts[0] in _OF_A_STUDY and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in _OF_ALL else name


def _make_folders(folder: Path, out: Path, stage: Path) -> None:
    """Make ``folder`` and those above it, up to ``out``; links and files in the way are discarded.

    So nothing is ever written behind a link that leads elsewhere.
    """
    if folder == out:
        return
    _make_folders(folder.parent, out, stage)
    if folder.is_symlink() or not folder.is_dir():
        _discard(folder, stage)
    folder.mkdir(exist_ok=True)


def _discard(path: Path, stage: Path) -> None:
    """Take away what no step makes any more, or what is in the way."""
    if os.path.lexists(path):
        path.replace(Path(tempfile.mkdtemp(dir=stage)) / path.name)
