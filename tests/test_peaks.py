"""Which ceilings of a record stand for arithmetic and for memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from report.evidence.ceilings import beyond_caches, in_binary
from report.evidence.runs import Run
from report.missing import Missing
from report.quantity.expression import Quantity
from report.records.record import Cache, Ceiling, Environment
from tests import factory
from tests.papers import value_of

KIB, MIB = 2**10, 2**20
#: Two threads on a processor of eight cores: 64 KiB of L1, 2 MiB of L2, 32 MiB of L3 are theirs.
HOST = factory.host(
    caches=(
        Cache(level=1, kind="data", size_bytes=32 * KIB, cores=1),
        Cache(level=1, kind="instruction", size_bytes=32 * KIB, cores=1),
        Cache(level=2, kind="unified", size_bytes=MIB, cores=1),
        Cache(level=3, kind="unified", size_bytes=32 * MIB, cores=8),
    )
)
MACHINE = factory.environment(
    host=HOST, cpu=msgspec.structs.replace(factory.environment().cpu, cores_available=8)
)
#: Where a working set lies: from the first size on.
RATES = {16 * KIB: 4e11, 256 * KIB: 2e11, 8 * MIB: 1e11, 128 * MIB: 3e10, 512 * MIB: 2e10}


def moved(operation: Any, rate: float, size: int) -> Ceiling:
    """What an instrument moves in a working set."""
    name = {"copy": "torch.copy_", "read": "torch.dot"}[operation]
    plain = factory.ceiling(operation, "before", rate)
    return msgspec.structs.replace(plain, instrument=name, working_set=size)


def computed(operation: Any, rate: float, dtype: str = "float32") -> Ceiling:
    plain = factory.ceiling("matrix_product", "before", rate)
    return msgspec.structs.replace(plain, operation=operation, dtype=dtype)


def every_size(operation: Any = "copy", factor: float = 1.0) -> tuple[Ceiling, ...]:
    return tuple(moved(operation, factor * rate, size) for size, rate in RATES.items())


def peak(ceilings: Iterable[Ceiling], machine: Environment, *asked: str) -> Quantity:
    run = Run(factory.stored(factory.record(machine=machine, peaks=tuple(ceilings))), "here")
    return run.peak_rate(*asked)


#: Two caches of 32 MiB: 128 MiB may lie in them, 512 MiB cannot.
WIDE = msgspec.structs.replace(
    MACHINE, cpu=msgspec.structs.replace(MACHINE.cpu, cores_available=16)
)
ARITHMETIC = (
    computed("matrix_product", 1e11),
    computed("convolution", 2e11),
    computed("matrix_product", 8e11, "bfloat16"),
)


@pytest.mark.parametrize(
    ("ceilings", "machine", "asked", "expected"),
    [
        (ARITHMETIC, MACHINE, ("matrix_product",), 2e11),
        (ARITHMETIC, MACHINE, ("convolution",), 2e11),
        (ARITHMETIC, MACHINE, ("matrix_product", "bfloat16"), 8e11),
        ((*every_size(), *every_size("read", 1.5)), MACHINE, ("copy",), 1.5 * 3e10),
        (every_size(), WIDE, ("copy",), 2e10),
        # Without known caches the largest working sets are memory.
        (every_size(), factory.environment(), ("copy",), 2e10),
        (every_size(), factory.environment(host=factory.host()), ("copy",), 2e10),
        (every_size(), factory.environment("gpu", factory.GPU, host=HOST), ("copy",), 2e10),
        (factory.ceilings(2e11, 3e10), factory.environment(), ("matrix_product",), 2e11),
        (factory.ceilings(2e11, 3e10), factory.environment(), ("copy",), 3e10),
    ],
)
def test_the_best_of_what_stands_for_an_operation_is_its_ceiling(
    ceilings: tuple[Ceiling, ...], machine: Any, asked: tuple[str, ...], expected: float
) -> None:
    assert value_of(peak(ceilings, machine, *asked)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("ceilings", "asked", "reason"),
    [
        (ARITHMETIC, ("matrix_product", "tfloat32"), "no ceiling in tfloat32 was measured on"),
        ((), ("copy",), "no ceiling was measured on"),
        ([moved("copy", 1e11, MIB)], ("copy",), "no working set beyond the caches was measured on"),
    ],
)
def test_a_ceiling_that_was_not_measured_is_missing_with_its_reason(
    ceilings: tuple[Ceiling, ...], asked: tuple[str, ...], reason: str
) -> None:
    assert peak(ceilings, MACHINE, *asked).missing == Missing(f"{reason} here")


@pytest.mark.parametrize(("size", "words"), [(127, "127 MiB"), (128, "128 MiB"), (1024, "1 GiB")])
def test_memory_begins_at_four_times_the_last_cache(size: int, words: str) -> None:
    known = [moved("copy", 1e10, size * MIB)]
    assert len(beyond_caches(known, MACHINE)) == (size >= 128)
    assert in_binary(size * MIB) == words
