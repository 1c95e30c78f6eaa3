"""How much of each kind of cache a number of cores has, by what a record says of the host."""

from __future__ import annotations

from collections.abc import Iterable

from report.records.record import Cache


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
