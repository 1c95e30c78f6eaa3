"""Captures on disk, so that a second question about a network runs none of its code.

An entry lies in the user's cache folder under the hash of the request, the installed distributions
and the machine.  The entry lists all files outside site-packages that the program had imported or
read when it captured, with the hashes of their contents, and holds while these are the same.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import platform
import sys
import sysconfig
import time
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from experiments.machine.processor import host
from experiments.machine.runtime import cores_available
from experiments.theory.captures import Capture, CaptureAt

#: Number of entries that the folder may hold; the oldest go first.
_CAPACITY: Final = 200
#: A file that was changed later may differ from the code that this program imported.
_STARTED: Final = time.time()
_NOT_SOURCES: Final = ("/proc/", "/sys/", "/dev/", sysconfig.get_path("stdlib") + os.sep)
#: Prefixes of the environment variables that PyTorch reads.
_VARIABLES: Final = (
    "ATEN", "CUDA", "DNNL", "GOMP", "KMP", "MKL", "NVIDIA", "OMP", "ONEDNN", "PYTORCH", "TORCH",
)  # fmt: skip
_opened: Final = set[str]()


class _Entry(msgspec.Struct, frozen=True):
    files: dict[str, str]
    captured: Capture


def cached(capture_at: CaptureAt, request: Mapping[str, object]) -> CaptureAt:
    """Return ``capture_at`` with results on disk; ``request`` is all that decides about them."""

    def at(batch: int | None, probe: int | None) -> Capture:
        folder = _folder()
        if folder is None:
            return capture_at(batch, probe)
        path = folder / _key({**request, "batches": [batch, probe]})
        entry = _read(path)
        if entry is not None:
            return entry.captured
        _watch_files()
        captured = capture_at(batch, probe)
        _write(path, captured)
        return captured

    return at


def _folder() -> Path | None:
    """Return the folder of entries; None where the user has no cache folder."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "ridgepoint", "captures")
    with suppress(RuntimeError):  # a user without a home
        folder = folder.expanduser()
    return folder if folder.is_absolute() else None


def _key(request: Mapping[str, object]) -> str:
    """Hash a request with everything outside of files that decides about its result."""
    facts = {
        "request": request,
        "distributions": _distributions(),
        "python": [sys.version, sys.path],
        "machine": [platform.node(), host().flags, cores_available()],
        "variables": [
            pair for pair in sorted(os.environ.items()) if pair[0].startswith(_VARIABLES)
        ],
    }
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def _distributions() -> list[str]:
    """List the installed distributions with their versions, as their folders are named."""
    names: list[str] = []
    for folder in sys.path:
        names += [path.name for path in Path(folder).glob("*.*-info")]
    return sorted(names)


def _read(path: Path) -> _Entry | None:
    """Read an entry; None where it is missing, damaged, or a file of it has changed."""
    try:
        entry = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=_Entry)
    except (OSError, zlib.error, msgspec.MsgspecError):
        return None
    holds = all(_hash(file) == known for file, known in entry.files.items())
    return entry if holds else None


def _write(path: Path, captured: Capture) -> None:
    """Write an entry in one step, if it reads back the same and no file of it may be newer."""
    files = {file: _hash(file) for file in _files()}
    try:
        if any(digest and Path(file).stat().st_mtime > _STARTED for file, digest in files.items()):
            return
        content = msgspec.msgpack.encode(_Entry(files, captured))
        if msgspec.msgpack.decode(content, type=_Entry).captured != captured:
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        scratch = path.with_name(f"{path.name}.{os.getpid()}")
        scratch.write_bytes(zlib.compress(content, 1))
        scratch.replace(path)
        entries = sorted(path.parent.iterdir(), key=lambda entry: entry.stat().st_mtime)
        for oldest in entries[:-_CAPACITY]:
            oldest.unlink()
    except (OSError, OverflowError, TypeError, msgspec.MsgspecError):
        return  # the cache only saves time


# ----------------------------------------------------------------------------------------- files


@cache
def _watch_files() -> None:
    """Note every file that is opened for reading from now on."""
    sys.addaudithook(_note_opened)


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open":
        return
    path, _, flags = arguments
    if isinstance(path, str | bytes) and isinstance(flags, int) and not flags & os.O_ACCMODE:
        _opened.add(str(Path(os.fsdecode(path)).absolute()))


def _files() -> set[str]:
    """List sources of imported modules, and other files read, outside of Python's libraries."""
    paths = set(_opened)
    for module in tuple(sys.modules.values()):
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str):
            paths.add(str(Path(path).absolute()))
    return {_source(path) for path in paths if _decides(path)}


def _decides(path: str) -> bool:
    """Return whether a file can decide about a capture that the distributions do not tell."""
    installed = "/site-packages/" in path or "/dist-packages/" in path
    is_entry = Path(path).parent == _folder()
    return not (installed or is_entry or path.startswith(_NOT_SOURCES))


def _source(path: str) -> str:
    """Return the source of compiled Python code, and any other file itself."""
    is_compiled = path.endswith(".pyc") and Path(path).parent.name == "__pycache__"
    return importlib.util.source_from_cache(path) if is_compiled else path


def _hash(path: str) -> str:
    """Hash the content of a file; empty where it cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).is_file() else ""
    except OSError:
        return ""
