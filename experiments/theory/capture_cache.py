"""Captures of named networks on disk, so that a second question about one runs none of its code.

An entry lies in the user's cache folder under the hash of everything that decides about it: the
request, this project's sources, the installed distributions, Python, the machine, and PyTorch's
variables.  Networks in files of users have no entries, since their code may read anything.
"""

import hashlib
import os
import platform
import sys
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from experiments.machine.code import ROOT
from experiments.machine.processor import host
from experiments.machine.runtime import cores_available
from experiments.theory.captures import Capture, CaptureAt

#: Number of entries that the folder may hold; the oldest go first.
_CAPACITY: Final = 200
#: Folders with the sources that decide about a capture.
_SOURCES: Final = ("experiments/theory", "experiments/networks", "report/core", "report/theory")
#: Prefixes of the environment variables that PyTorch reads.
_VARIABLES: Final = (
    "ATEN", "CUDA", "DNNL", "GOMP", "KMP", "MKL", "NVIDIA", "OMP", "ONEDNN", "PYTORCH", "TORCH",
)  # fmt: skip


def cached(capture_at: CaptureAt, request: Mapping[str, object]) -> CaptureAt:
    """Return ``capture_at`` with results on disk; ``request`` is all that decides about them."""

    def at(batch: int | None, probe: int | None) -> Capture:
        path = _folder() / _key({**request, "batches": [batch, probe]})
        with suppress(OSError, zlib.error, msgspec.MsgspecError):  # missing, or damaged
            return msgspec.msgpack.decode(zlib.decompress(path.read_bytes()), type=Capture)
        captured = capture_at(batch, probe)
        with suppress(OSError, OverflowError, TypeError, msgspec.MsgspecError):
            _write(path, captured)
        return captured

    return at


def _folder() -> Path:
    """Return the folder of entries; without a home of the user it cannot be written."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    with suppress(RuntimeError):  # no home
        cache = cache.expanduser()
    return (cache if cache.is_absolute() else Path(os.devnull)) / "ridgepoint" / "captures"


def _key(request: Mapping[str, object]) -> str:
    """Hash a request with everything else that decides about its result."""
    sources = hashlib.sha256()
    for folder in _SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            sources.update(path.read_bytes())
    distributions: list[str] = []
    for place in sys.path:
        distributions += [path.name for path in Path(place).glob("*.*-info")]
    facts = {
        "request": request,
        "sources": sources.hexdigest(),
        "distributions": sorted(distributions),
        "python": sys.version,
        "machine": [platform.node(), host().flags, cores_available()],
        "variables": [
            pair for pair in sorted(os.environ.items()) if pair[0].startswith(_VARIABLES)
        ],
    }
    return hashlib.sha256(msgspec.json.encode(facts)).hexdigest()


def _write(path: Path, captured: Capture) -> None:
    """Write an entry in one step, if it reads back the same, and delete the oldest ones."""
    content = msgspec.msgpack.encode(captured)
    if msgspec.msgpack.decode(content, type=Capture) != captured:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    scratch = path.with_name(f"{path.name}.{os.getpid()}")
    scratch.write_bytes(zlib.compress(content, 1))
    scratch.replace(path)
    entries = sorted(path.parent.iterdir(), key=lambda entry: entry.stat().st_mtime)
    for oldest in entries[:-_CAPACITY]:
        oldest.unlink()
