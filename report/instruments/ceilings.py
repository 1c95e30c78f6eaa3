"""Ceilings of a record that bound an operation, and their best rate."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final

from report.core.records.record import Ceiling, Environment, PeakOperation, Record, last_capacity
from report.instruments.gates import BEYOND_CACHES

FLOAT32: Final = "float32"

_ARITHMETIC: Final[tuple[PeakOperation, ...]] = ("matrix_product", "convolution")
_BANDWIDTH: Final[tuple[PeakOperation, ...]] = ("copy", "read", "triad")
#: Operation -> the operations whose best rate bounds it.
_MEANT: Final[dict[str, tuple[PeakOperation, ...]]] = {
    "matrix_product": _ARITHMETIC,
    "copy": _BANDWIDTH,
}
CEILING_UNITS: Final[dict[str, str]] = {
    **dict.fromkeys(_ARITHMETIC, "FLOP/s"),
    **dict.fromkeys(_BANDWIDTH, "B/s"),
    "page_mapping": "1/s",
}


def bounding(record: Record, operation: str, dtype: str) -> tuple[Ceiling, ...]:
    """Return the ceilings whose best rate bounds ``operation``.

    A matrix product stands for all arithmetic in ``dtype``, a copy for all ways to move bytes from
    or to memory; every other operation stands for itself.  On a GPU products alone stand for
    arithmetic: its libraries compute convolutions with fewer multiplications than their direct form
    has, so that their rate can exceed what the device can multiply.
    """
    operations = _MEANT.get(operation, (operation,))
    if record.environment.device == "cuda" and operation in _ARITHMETIC:
        operations = (operation,)
    ceilings = [c for c in record.ceilings if c.operation in operations and c.samples]
    if operation in _ARITHMETIC:
        return tuple(ceiling for ceiling in ceilings if ceiling.dtype == dtype)
    if operation in _BANDWIDTH:
        return beyond_caches(ceilings, record.environment)
    return tuple(ceilings)


def beyond_caches(ceilings: Iterable[Ceiling], environment: Environment) -> tuple[Ceiling, ...]:
    """Return the ceilings of bandwidth whose working set lies in memory.

    Where the caches are not known (an old record, a GPU) these are the largest ones, down to half
    of the largest; where no working set is known it is all.
    """
    every = tuple(ceilings)
    host = environment.host if environment.device == "cpu" else None
    sizes = [ceiling.working_set for ceiling in every if ceiling.working_set is not None]
    if not sizes:
        return every
    last = last_capacity(host.caches, environment.cpu.cores_available) if host else None
    least = max(sizes) / 2 if last is None else BEYOND_CACHES * last
    return tuple(c for c in every if c.working_set is not None and c.working_set >= least)


def rate(ceiling: Ceiling) -> float:
    """Divide work by time (FLOP/s, B/s or pages a second).

    The shortest time counts where an instrument is named, as STREAM reports it (McCalpin 1995),
    else the median.
    """
    times = map(float, ceiling.samples)
    return ceiling.work / (median(times) if ceiling.instrument is None else min(times))


def best_rate(record: Record, operation: str, dtype: str = FLOAT32) -> float | None:
    """Return the best rate of the ceilings that bound ``operation``; None if none was measured."""
    return max(map(rate, bounding(record, operation, dtype)), default=None)
