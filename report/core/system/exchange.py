"""Replacing a file or a folder in one step, without losing what else lies in the folder."""

from __future__ import annotations

import ctypes
import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from report.core.errors import in_the_way


def install(new: Path, target: Path) -> None:
    """Move a finished file or folder to ``target``, replacing what was there in one step.

    Where either is a folder, what was there is where ``new`` was afterwards, or beside it where
    the system cannot exchange the two.  A link is replaced, never what it leads to.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    replaced = target.is_dir() or (new.is_dir() and os.path.lexists(target))
    if replaced:
        if _exchange(new, target):
            return
        target.replace(new.with_name(new.name + ".old"))
    new.replace(target)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False where the system or the file system cannot.

    That is renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE), or renamex_np(a, b, RENAME_SWAP).
    """
    library, first, second = ctypes.CDLL(None), os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(first, second, 2) == 0)
    if hasattr(library, "renameat2"):
        return bool(library.renameat2(-100, first, -100, second, 2) == 0)
    return False


def keep_others(whole: str, out: Path, stage: Path, known: Collection[str]) -> None:
    """Link all that is not ``known`` in a folder of ``out`` into the folder that replaces it.

    A link in the place of a new file is dropped, since what it leads to stays.
    """
    top = out / whole
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
