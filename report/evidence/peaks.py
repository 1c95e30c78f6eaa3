"""Which of a record's ceilings stand for what: arithmetic, and bandwidth of memory.

A ceiling is the best of several instruments, since none is best on every processor.  Bandwidth is
that of memory only over a working set that no cache holds.  Records of the first edition name
neither instruments nor working sets; each of their products and copies stands for arithmetic and
memory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from report.instruments.gates import BEYOND_CACHES
from report.records.record import Ceiling, Environment, Peak, Record, last_capacity

FLOAT32: Final = "float32"

_ARITHMETIC: Final[tuple[Peak, ...]] = ("matrix_product", "convolution")
_BANDWIDTH: Final[tuple[Peak, ...]] = ("copy", "read", "triad")
#: What a reader asks for, and the operations whose best rate is meant.
_MEANT: Final[dict[str, tuple[Peak, ...]]] = {"matrix_product": _ARITHMETIC, "copy": _BANDWIDTH}


def meant(record: Record, operation: str, dtype: str = FLOAT32) -> tuple[Ceiling, ...]:
    """The ceilings of which the best is that of ``operation``.

    A matrix product stands for all arithmetic in ``dtype``, a copy for all ways to move bytes from
    or to memory; every other operation stands for itself.  On a GPU products alone stand for
    arithmetic: its libraries compute convolutions with fewer multiplications than their direct form
    has, so that their rate can exceed what the device can multiply.
    """
    operations = _MEANT.get(operation, (operation,))
    if record.environment.device == "cuda" and operation in _ARITHMETIC:
        operations = (operation,)
    found = [c for c in record.ceilings if c.operation in operations and c.samples]
    if operation in _ARITHMETIC:
        return tuple(ceiling for ceiling in found if ceiling.dtype == dtype)
    return beyond_caches(found, record.environment) if operation in _BANDWIDTH else tuple(found)


def beyond_caches(found: Iterable[Ceiling], environment: Environment) -> tuple[Ceiling, ...]:
    """The ceilings of bandwidth whose working set lies in memory.

    Where the caches are not known (an old record, a GPU) these are the largest ones, down to half
    of the largest; where no working set is known it is all.
    """
    every = tuple(found)
    sizes = [ceiling.working_set for ceiling in every if ceiling.working_set is not None]
    if not sizes:
        return every
    last = _last_cache(environment)
    least = max(sizes) / 2 if last is None else BEYOND_CACHES * last
    return tuple(c for c in every if c.working_set is not None and c.working_set >= least)


def _last_cache(environment: Environment) -> int | None:
    """Bytes of the last cache, all of them that the cores which may be used have."""
    if environment.device == "cuda" or environment.host is None:
        return None
    return last_capacity(environment.host.caches, environment.cpu.cores_available)


def name_of(operation: str, found: Iterable[Ceiling]) -> str:
    """What a ceiling is one of: an operation, or what all of several operations do."""
    if {ceiling.operation for ceiling in found} <= {operation}:
        return operation.replace("_", " ")
    return {"matrix_product": "arithmetic", "copy": "memory bandwidth"}[operation]


def described(ceiling: Ceiling) -> str:
    """A ceiling as a formula names it, told from all others of its record."""
    plain = f"{ceiling.operation.replace('_', ' ')} {ceiling.size}"
    if ceiling.instrument is None:
        return f"{plain}, {ceiling.moment}"
    return f"{plain} by {ceiling.instrument} in {ceiling.dtype}, {ceiling.moment}"


def in_binary(number: int) -> str:
    """Bytes of a working set: ``512 MiB``."""
    power = min((number.bit_length() - 1) // 10, 3) if number else 0
    return f"{number / 2 ** (10 * power):.3g} {('B', 'KiB', 'MiB', 'GiB')[power]}"
