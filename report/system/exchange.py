"""Replacing a file or a folder in one step."""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path


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
