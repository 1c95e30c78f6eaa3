"""Putting finished files in place: old output stays until the new one is whole."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


@contextmanager
def scratch_folder(out: Path) -> Iterator[Path]:
    """An empty folder on the same file system as ``out``, removed afterwards in any event."""
    out.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".scratch-", dir=out))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def install(new: Path, target: Path) -> None:
    """Move a finished file or folder to ``target``, replacing what was there in one step.

    A folder cannot be replaced by one rename, so the old one is moved beside the new one first.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    if new.is_dir() and target.exists():
        target.replace(new.with_name(new.name + ".old"))
    new.replace(target)


def write_json(content: Any, path: Path) -> None:
    """Write sorted, indented JSON; NaN and infinity are refused."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")
