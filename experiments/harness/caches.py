"""The caches of the first core, as Linux tells of them."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

from report.records.record import Cache

_FOLDER: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 2**10, "M": 2**20, "G": 2**30}
_KINDS: Final[dict[str, Literal["data", "instruction", "unified"]]] = {
    "Data": "data",
    "Instruction": "instruction",
    "Unified": "unified",
}


def read(folder: Path = _FOLDER) -> tuple[Cache, ...]:
    """All caches that can be read, first level first; none where the system shows none."""
    found = (_cache(index) for index in sorted(folder.glob("index*")))
    return tuple(sorted((c for c in found if c is not None), key=lambda c: (c.level, c.kind)))


def _cache(folder: Path) -> Cache | None:
    try:
        words = {
            name: (folder / name).read_text().strip()
            for name in ("level", "type", "size", "shared_cpu_list")
        }
        return Cache(
            level=int(words["level"]),
            kind=_KINDS[words["type"]],
            size_bytes=size(words["size"]),
            cores=count(words["shared_cpu_list"]),
        )
    except (OSError, KeyError, ValueError):  # a system that tells less, or in other words
        return None


def size(text: str) -> int:
    """Bytes of ``48K``; raises ``ValueError`` for what is no size above 0."""
    factor = _UNITS.get(text[-1:], 1)
    found = int(text.rstrip("KMG")) * factor
    if found <= 0:
        raise ValueError(text)
    return found


def count(text: str) -> int:
    """How many cores ``0-3,8`` names; raises ``ValueError`` for what is no such list."""
    ends = ([int(end) for end in part.split("-")] for part in text.split(","))
    return sum(end[-1] - end[0] + 1 for end in ends)
