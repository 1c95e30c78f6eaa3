"""Disk cache of captured networks, so that a repeated command does not run the network's code.

An entry is a file in the user's cache folder.  The file's name is a hash of the request, the
installed distributions and the machine.  The entry lists the files outside site-packages that the
program had imported or read, with hashes.  An entry with a changed file is invalid.
"""

import hashlib
import importlib.util
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
from typing import Final, TypeAlias

import msgspec

from experiments.machine.processor import host
from experiments.machine.runtime import cores_available
from report.theory.network import Theory

#: Captures a network at a batch (None: the inputs' own), and checks that its operators scale by a
#: call at a second batch, the probe (None: no check).
CaptureAt: TypeAlias = Callable[[int | None, int | None], Theory]

#: Most entries in the folder; the oldest entries are deleted first.
_CAPACITY: Final = 200
#: Start of this program; a file changed later may differ from the code that was imported.
_STARTED: Final = time.time()
#: Path prefixes of files that cannot change a capture.
_IGNORED: Final = ("/proc/", "/sys/", "/dev/", sysconfig.get_path("stdlib") + os.sep)
#: Prefixes of the environment variables that PyTorch reads.
_VARIABLES: Final = (
    "ATEN", "CUDA", "DNNL", "GOMP", "KMP", "MKL", "NVIDIA", "OMP", "ONEDNN", "PYTORCH", "TORCH",
)  # fmt: skip
#: Files read since the first capture.
_read_files: Final = set[str]()


class _Entry(msgspec.Struct, frozen=True):
    """Theory of a captured network, and the hashes of the ``files`` on which it depends."""

    files: dict[str, str]
    theory: Theory


def cached(capture_at: CaptureAt, request: Mapping[str, object]) -> CaptureAt:
    """Return ``capture_at`` with a disk cache; ``request`` has all arguments of the capture."""

    def theory_at(batch: int | None = None, probe: int | None = None) -> Theory:
        path = _folder() / _key({**request, "batches": [batch, probe]})
        theory = _read(path)
        if theory is not None:
            return theory
        _watch_files()
        theory = capture_at(batch, probe)
        with suppress(OSError, OverflowError, TypeError, msgspec.MsgspecError):
            _write(path, replace(theory, captured=None))
        return theory

    return theory_at


def _folder() -> Path:
    """Return the folder of entries, or an unwritable path for a user without a home folder."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with suppress(RuntimeError):  # no home
        folder = folder.expanduser()
    return (folder if folder.is_absolute() else Path(os.devnull)) / "ridgepoint" / "captures"


def _key(request: Mapping[str, object]) -> str:
    """Hash a request with everything but files on which the result depends."""
    distributions: list[str] = []
    for folder in sys.path:
        distributions += [path.name for path in Path(folder).glob("*.*-info")]
    variables = sorted(os.environ.items())
    facts = {
        "request": request,
        "distributions": sorted(distributions),
        "python": [sys.version, sys.path, str(Path.cwd())],
        "machine": [platform.node(), host().flags, cores_available()],
        "variables": [[name, value] for name, value in variables if name.startswith(_VARIABLES)],
    }
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def _read(path: Path) -> Theory | None:
    """Read a theory; None if the entry is missing or damaged, or a file has changed."""
    try:
        entry = msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=_Entry)
    except (OSError, zlib.error, msgspec.MsgspecError):
        return None
    unchanged = all(_hash(file) == digest for file, digest in entry.files.items())
    return entry.theory if unchanged else None


def _write(path: Path, theory: Theory) -> None:
    """Write an entry atomically, unless a file changed or decoding fails; delete old entries."""
    files = {file: _hash(file) for file in _files()}
    if any(digest and Path(file).stat().st_mtime > _STARTED for file, digest in files.items()):
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


# ----------------------------------------------------------------------------------------- files


@cache
def _watch_files() -> None:
    """Record every file that is opened for reading from now on."""
    sys.addaudithook(_note_opened)


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if event != "open":
        return
    path, _, flags = arguments
    if isinstance(path, str | bytes) and isinstance(flags, int) and not flags & os.O_ACCMODE:
        _read_files.add(str(Path(os.fsdecode(path)).absolute()))


def _files() -> set[str]:
    """Return the sources of imported modules and other files read, without Python's libraries."""
    paths = set(_read_files)
    for module in tuple(sys.modules.values()):
        path = getattr(module, "__dict__", {}).get("__file__")
        if isinstance(path, str):
            paths.add(str(Path(path).absolute()))
    return {_source(path) for path in paths if _affects_captures(path)}


def _affects_captures(path: str) -> bool:
    """Return whether captures can depend on a file; installed distributions are in the key."""
    installed = "/site-packages/" in path or "/dist-packages/" in path
    is_entry = Path(path).parent == _folder()
    return not (installed or is_entry or path.startswith(_IGNORED))


def _source(path: str) -> str:
    """Return the source file of a compiled Python file, and any other path unchanged."""
    is_compiled = path.endswith(".pyc") and Path(path).parent.name == "__pycache__"
    return importlib.util.source_from_cache(path) if is_compiled else path


def _hash(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest() if Path(path).is_file() else ""
    except OSError:
        return ""
