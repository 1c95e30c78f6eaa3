"""Put finished files into ``out/``, one build at a time, so that no paper is half written."""

import ctypes
import fcntl
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

from report.core.errors import in_the_way, unwritable
from report.core.system.programs import leave_on_signals, remove
from report.engine.cache import MANIFEST, SCRATCH, StepEntry, read_manifest, write_manifest
from report.engine.steps import ARTIFACTS, Announce

_LOCK: Final = ".lock"
#: Folders in which the folder of each study is replaced as a whole.
_STUDY_FOLDERS: Final = (ARTIFACTS, "qmd", "tex", "html", "artifact")
#: Folders with outputs about all studies, which are replaced as a whole.
_SHARED_FOLDERS: Final = ("quarto", "diff", "verify")
#: All folders that a build writes into.
_FOLDERS: Final = (*_STUDY_FOLDERS, *_SHARED_FOLDERS, "pdf", "docx", "values")


@contextmanager
def only_build(out: Path, announce: Announce) -> Iterator[Path]:
    """Lock ``out`` for this build, and provide an empty temporary folder on its file system.

    While another build holds the lock, this build waits and announces it.  The system frees the
    lock however a build ends.  Temporary files of killed builds are removed, and so are links in
    the place of output folders, through which a build would write elsewhere.  On a signal this
    process removes its own temporary files and ends.  Raises ``OutputError`` if a file cannot be
    written, also within the context.
    """
    path = out / _LOCK
    try:
        out.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or path.is_fifo():
            remove(path)  # opening a pipe would wait for ever
        elif path.is_dir():
            raise in_the_way(path)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise unwritable(error) from error
    try:
        _acquire(lock, announce)
        with leave_on_signals(partial(out.glob, f"{SCRATCH}*")):
            _remove_scratch(out)
            for folder in _FOLDERS:
                if (out / folder).is_symlink():
                    (out / folder).unlink()
            try:
                yield Path(tempfile.mkdtemp(prefix=SCRATCH, dir=out))
            except OSError as error:
                raise unwritable(error) from error
            finally:
                _remove_scratch(out)
    finally:
        os.close(lock)


def _remove_scratch(out: Path) -> None:
    """Remove all temporary files of ``out``."""
    for path in out.glob(f"{SCRATCH}*"):
        remove(path)


def _acquire(lock: int, announce: Announce) -> None:
    """Lock the open file; on a file system without locks, return without a lock."""
    with suppress(OSError):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            announce("waiting for another build to end", 0.0, "")
            fcntl.flock(lock, fcntl.LOCK_EX)


def link_outputs(names: Iterable[str], out: Path, stage: Path) -> None:
    """Link the outputs ``names`` of ``out`` into ``stage``; raise ``OutputError`` if this fails.

    Links suffice, because no step writes into a finished file.
    """
    try:
        for name in names:
            source, target = out / name, stage / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(OSError):  # on file systems without links, the file is copied below
                if not source.is_symlink():
                    os.link(source, target)
                    continue
            if not target.exists():
                shutil.copyfile(source, target)
    except OSError as error:
        raise unwritable(error) from error


def put(stage: Path, out: Path, changed: Iterable[str], known: Collection[str]) -> list[Path]:
    """Replace changed folders and files in ``out``, each in one step; return the written paths.

    ``changed`` names outputs that differ between ``stage`` and ``out``, or exist in ``out`` alone.
    ``known`` names the files that builds wrote; all other files stay.  Raises ``OutputError`` if
    writing fails, or if a user's file has the name of a new file.
    """
    replaced: list[Path] = []
    try:
        stage.mkdir(parents=True, exist_ok=True)
        for replaced_name in sorted({_replaced_name(name) for name in changed}):
            target = out / replaced_name
            _keep_other_files(replaced_name, out, stage, known)
            if (stage / replaced_name).exists():
                install(stage / replaced_name, target)
                replaced.append(target)
            elif os.path.lexists(target):  # no step makes the output any more
                target.replace(Path(tempfile.mkdtemp(dir=stage)) / "gone")
    except OSError as error:
        raise unwritable(error) from error
    return replaced


def put_folder(name: str, out: Path, stage: Path) -> None:
    """Replace a folder of ``out``, with a manifest; raise ``OSError`` or ``OutputError``."""
    files = dict.fromkeys([f"{name}/{MANIFEST}"], "")
    for path in (stage / name).rglob("*"):
        if path.is_file():
            files[path.relative_to(stage).as_posix()] = ""
    known: list[str] = []
    for entry in read_manifest(str(out / name)).values():
        known += entry.outputs
    write_manifest({name: StepEntry({}, files)}, str(stage / name))
    put(stage, out, [*files, *known], known)


def _replaced_name(name: str) -> str:
    """Return the folder that is replaced as a whole with an output, or the output itself."""
    parts = name.split("/")
    if parts[0] in _STUDY_FOLDERS and len(parts) > 2:
        return "/".join(parts[:2])
    return parts[0] if parts[0] in _SHARED_FOLDERS else name


def install(new: Path, target: Path) -> None:
    """Move the finished file or folder ``new`` to ``target``, if possible in one step.

    If one of the two paths is a folder, the paths are exchanged.  On a system that cannot exchange
    paths, ``target`` is first moved to ``new`` + ``.old``.  A link is replaced, never its
    destination.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir() or (new.is_dir() and os.path.lexists(target)):
        if _exchange(new, target):
            return
        target.replace(new.with_name(new.name + ".old"))
    new.replace(target)


def _exchange(new: Path, target: Path) -> bool:
    """Exchange two paths in one step; return False if the system does not support it."""
    library, first, second = ctypes.CDLL(None), os.fsencode(new), os.fsencode(target)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(first, second, 2) == 0)  # 2 is RENAME_SWAP
    if hasattr(library, "renameat2"):  # -100 is AT_FDCWD, 2 is RENAME_EXCHANGE
        return bool(library.renameat2(-100, first, -100, second, 2) == 0)
    return False


def _keep_other_files(output: str, out: Path, stage: Path, known: Collection[str]) -> None:
    """Link all files below ``out / output`` that are not ``known`` into ``stage``.

    ``stage / output`` will replace ``out / output``.  A symbolic link with the name of a new file
    is dropped.  Raises ``OutputError`` if another file has the name of a new file.
    """
    top = out / output
    for source in top.rglob("*") if top.is_dir() and not top.is_symlink() else [top]:
        name, is_link = source.relative_to(out).as_posix(), source.is_symlink()
        if name in known or not (is_link or source.is_file()):
            continue
        try:
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            os.link(source, stage / name, follow_symlinks=False)
        except (FileExistsError, NotADirectoryError) as error:
            if not is_link:
                raise in_the_way(source) from error
        except OSError:
            shutil.copy2(source, stage / name, follow_symlinks=False)
