"""Putting finished files in place: old output stays until the new one is whole."""

from __future__ import annotations

import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Any, Final

from figures.characters import visible_in


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


#: The function of the C library that exchanges two names, with the numbers before and after the
#: paths: renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) and renamex_np(a, b, RENAME_SWAP).
_HERE: Final = -100
_SWAP: Final = 2


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; False where the system or the file system cannot."""
    library = ctypes.CDLL(None, use_errno=True) if os.name == "posix" else None
    first, second = os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(first, second, _SWAP) == 0)
    if library is not None and hasattr(library, "renameat2"):
        return bool(library.renameat2(_HERE, first, _HERE, second, _SWAP) == 0)
    return False


def write_json(content: Any, path: Path) -> None:
    """Write sorted, indented JSON in visible characters; NaN and infinity are refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(
        visible_in(content), indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False
    )
    path.write_text(text + "\n", encoding="utf-8")
