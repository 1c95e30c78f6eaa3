"""What follows from what a record says of a processor: its microarchitecture, and its caches."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from report.records.record import Cache

#: Family → microarchitecture → ranges of models, as Linux tells them (arch/x86/kernel/cpu/amd.c,
#: ``bsp_init_amd``, https://git.kernel.org).
_ZEN: Final[dict[int, dict[str, tuple[range, ...]]]] = {
    0x17: {
        "Zen": (range(0x30), range(0x50, 0x60)),
        "Zen 2": (range(0x30, 0x50), range(0x60, 0x80), range(0x90, 0x92), range(0xA0, 0xB0)),
    },
    0x19: {
        "Zen 3": (range(0x10), range(0x20, 0x60)),
        "Zen 4": (range(0x10, 0x20), range(0x60, 0xB0)),
    },
    0x1A: {"Zen 5": (range(0x10), range(0x20, 0x30), range(0x40, 0x50), range(0x70, 0x80))},
}


def with_microarchitecture(name: str, family: int | None, model: int | None) -> str:
    """The ``name`` of a processor, with its microarchitecture where it is a mere brand of AMD.

    A name with a number, such as AMD EPYC 7763, says as much by itself.
    """
    if not name.startswith("AMD ") or any(map(str.isdigit, name)):
        return name
    kinds = _ZEN.get(family or 0, {}).items()
    found = (kind for kind, ranges in kinds if any(model in each for each in ranges))
    kind = next(found, None)
    return f"{name} ({kind})" if kind else name


def capacities(caches: Iterable[Cache], cores: int) -> dict[int, int]:
    """Bytes of data that ``cores`` cores have in the caches of each level, first level first.

    Cores that may share a cache are taken to do so: the system does not say on which cores a
    thread will run, and a cache that is counted once too often would be a roof too wide.
    """
    return {
        cache.level: cache.size_bytes * -(-cores // cache.cores)
        for cache in sorted(caches, key=lambda cache: cache.level)
        if cache.kind != "instruction"
    }


def last_capacity(caches: Iterable[Cache], cores: int) -> int | None:
    """The same of the last level; None where no cache of data is known."""
    found = capacities(caches, cores)
    return found[max(found)] if found else None
