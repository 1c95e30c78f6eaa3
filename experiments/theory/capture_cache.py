"""Disk cache of captured networks, so that a repeated command does not run the network's code.

An entry is a file in the user's cache folder.  The file's name is a hash of the request, the
installed distributions and the machine.  The entry lists, with hashes, the files outside
site-packages that the program had imported or read.  If one of them changes, the entry is invalid.
"""

import hashlib
import os
import platform
import sys
import sysconfig
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from experiments.machine.processor import host
from experiments.machine.runtime import cores_available
from report.theory.network import Theory

#: Function that captures a network at a batch size (None: the batch size of the inputs).  The
#: second argument, the probe, is another batch size.  The network is also called at this size to
#: check that its operators scale with the batch (None: no check).
CaptureAt: TypeAlias = Callable[[int | None, int | None], Theory]

#: Largest number of entries in the folder; the oldest entries are deleted first.
_CAPACITY: Final = 200
#: Start of this program (s since 1970); a file that changes later may differ from imported code.
_START_TIME: Final = time.time()
#: Path prefixes of files that cannot change a capture.
_IGNORED_PATHS: Final = ("/proc/", "/sys/", "/dev/", sysconfig.get_path("stdlib") + os.sep)
#: Prefixes of the environment variables that PyTorch reads.
_VARIABLE_PREFIXES: Final = (
    "ATEN", "CUDA", "DNNL", "GOMP", "KMP", "MKL", "NVIDIA", "OMP", "ONEDNN", "PYTORCH", "TORCH",
)  # fmt: skip


class _Entry(msgspec.Struct, frozen=True):
    """Theory of a captured network, and the hashes of the ``files`` on which it depends."""

    files: dict[str, str]
    theory: Theory


def with_disk_cache(capture_at: CaptureAt, request: Mapping[str, object]) -> CaptureAt:
    """Return ``capture_at`` with a disk cache; ``request`` has all options of a capture."""

    def theory_at(batch: int | None, probe: int | None) -> Theory:
        path = _cache_folder() / _key({**request, "batches": [batch, probe]})
        theory = _read_entry(path)
        if theory is not None:
            return theory
        _opened_files()  # starts the list of opened files
        theory = capture_at(batch, probe)
        # If the entry cannot be written, the next command captures again.
        with suppress(OSError, OverflowError, TypeError, msgspec.MsgspecError):
            _write_entry(path, replace(theory, captured=None))
        return theory

    return theory_at


def _cache_folder() -> Path:
    """Return the folder of entries, or an unwritable path for a user without a home folder."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with suppress(RuntimeError):  # raised by expanduser without a home folder
        folder = folder.expanduser()
    return (folder if folder.is_absolute() else Path(os.devnull)) / "ridgepoint" / "captures"


def _key(request: Mapping[str, object]) -> str:
    """Hash a request with everything on which its theory depends, apart from files."""
    distributions: list[str] = []
    for folder in sys.path:
        distributions += [path.name for path in Path(folder).glob("*.*-info")]
    variables = sorted(os.environ.items())
    facts = {
        "request": request,
        "distributions": sorted(distributions),
        "python": [sys.version, sys.path, str(Path.cwd())],
        "machine": [platform.node(), host().flags, cores_available()],
        "variables": [pair for pair in variables if pair[0].startswith(_VARIABLE_PREFIXES)],
    }
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def _read_entry(path: Path) -> Theory | None:
    """Read a theory; None if the entry is missing or damaged, or one of its files has changed."""
    try:
        entry = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=_Entry)
    except (OSError, zlib.error, msgspec.MsgspecError):
        return None
    is_valid = all(_hash(file) == digest for file, digest in entry.files.items())
    return entry.theory if is_valid else None


def _write_entry(path: Path, theory: Theory) -> None:
    """Write an entry atomically, and delete the oldest entries above the capacity.

    Writes nothing if one of its files changed since the program's start, or if the entry cannot be
    decoded to an equal theory.
    """
    files = {file: _hash(file) for file in _files_read()}
    for file, digest in files.items():
        if digest and Path(file).stat().st_mtime > _START_TIME:
            return
    content = msgspec.msgpack.encode(_Entry(files, theory))
    if msgspec.msgpack.decode(content, type=_Entry).theory != theory:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_bytes(zlib.compress(content, 1))
    scratch.replace(path)
    entries = sorted(path.parent.iterdir(), key=lambda entry: entry.stat().st_mtime)
    for oldest in entries[:-_CAPACITY]:
        oldest.unlink()


@cache
def _opened_files() -> set[str]:
    """Return the files that were opened only for reading since the first call; the set grows."""
    files = set[str]()

    def note_opened(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            is_read_only = isinstance(flags, int) and flags & os.O_ACCMODE == os.O_RDONLY
            if isinstance(path, str | bytes) and is_read_only:
                files.add(str(Path(os.fsdecode(path)).absolute()))

    sys.addaudithook(note_opened)
    return files


def _files_read() -> set[str]:
    """Return the imported modules' sources, and further files read, that affect captures."""
    paths = set(_opened_files())
    for module in tuple(sys.modules.values()):
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str):
            paths.add(str(Path(path).absolute()))
    # Installed distributions are part of the key, and a compiled file's source is among the files.
    ignored = ("/site-packages/", "/dist-packages/", "/__pycache__/", f"{_cache_folder()}{os.sep}")
    files = set()
    for path in paths:
        if not path.startswith(_IGNORED_PATHS) and not any(part in path for part in ignored):
            files.add(path)
    return files


def _hash(path: str) -> str:
    """Return a file's SHA-256, or an empty text if the file cannot be read."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).is_file() else ""
    except OSError:
        return ""
