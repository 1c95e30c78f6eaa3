"""Folders of files, such as builds leave them: written, altered and compared."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from pathlib import Path


def write_files(folder: Path, files: Mapping[str, bytes]) -> Path:
    """Write every file, by its name relative to ``folder``."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def digests(folder: Path, but: Collection[str] = ()) -> dict[str, str]:
    """The hash of every file below ``folder``, without the files that are called ``but``."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in but
    }
