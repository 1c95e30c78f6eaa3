"""Replace a file or a folder in one step, and keep the user's other files in the folder."""

import ctypes
import os
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from report.core.errors import in_the_way


def install(new: Path, target: Path) -> None:
    """Move the finished file or folder ``new`` to ``target`` in one step.

    If either is a folder, the old content of ``target`` ends up at ``new``, or at ``new`` +
    ``.old`` if the system cannot exchange two paths.  A link is replaced, never its destination.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    replaced = target.is_dir() or (new.is_dir() and os.path.lexists(target))
    if replaced:
        if _exchange(new, target):
            return
        target.replace(new.with_name(new.name + ".old"))
    new.replace(target)


def _exchange(one: Path, other: Path) -> bool:
    """Exchange two paths in one step; return False if the system or file system cannot.

    Calls renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE) or renamex_np(a, b, RENAME_SWAP).
    """
    library, first, second = ctypes.CDLL(None), os.fsencode(one), os.fsencode(other)
    if sys.platform == "darwin" and hasattr(library, "renamex_np"):
        return bool(library.renamex_np(first, second, 2) == 0)
    if hasattr(library, "renameat2"):
        return bool(library.renameat2(-100, first, -100, second, 2) == 0)
    return False


def keep_others(whole: str, out: Path, stage: Path, known: Collection[str]) -> None:
    """Link the files of the folder ``out / whole`` that are not ``known`` into ``stage``.

    ``stage`` will replace ``out``.  A link that has the name of a new file is dropped, since its
    destination stays.
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
