"""Which ceilings of a record stand for arithmetic and for memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from report.evidence.ceilings import beyond_caches, in_binary
from report.evidence.runs import Run
from report.missing import Missing
from report.quantity.evaluation import point
from report.records.record import Cache, Ceiling
from tests import factory

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


def moved(operation: Any, size: int, rate: float, moment: Any = "before") -> Ceiling:
    name = {"copy": "torch.copy_", "read": "torch.dot", "triad": "torch.add"}[operation]
    plain = factory.ceiling(operation, moment, rate)
    return msgspec.structs.replace(
        plain, size=f"{size // 4} elements", instrument=name, working_set=size
    )


def computed(operation: Any, rate: float, dtype: str = "float32", name: str = "x") -> Ceiling:
    plain = factory.ceiling("matrix_product", "before", rate)
    return msgspec.structs.replace(plain, operation=operation, dtype=dtype, instrument=name)


def run_of(*ceilings: Ceiling, machine: Any = MACHINE) -> Run:
    return Run(factory.stored(factory.record(machine=machine, peaks=ceilings)), "here")


def every_size(operation: Any = "copy", factor: float = 1.0) -> tuple[Ceiling, ...]:
    return tuple(moved(operation, size, factor * rate) for size, rate in RATES.items())


def value(quantity: Any) -> float:
    found = point(quantity)
    assert not isinstance(found, Missing), found.reason
    return found


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
        (ARITHMETIC, MACHINE, ("matrix_product", "", "bfloat16"), 8e11),
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
    run = run_of(*ceilings, machine=machine)
    assert value(run.peak_rate(*asked)) == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize(
    ("ceilings", "asked", "reason"),
    [
        (ARITHMETIC, ("matrix_product", "", "tfloat32"), "no ceiling in tfloat32 was measured on"),
        (ARITHMETIC, ("matrix_product", "after"), "no ceiling was measured after the series on"),
        (
            (moved("copy", MIB, 1e11),),
            ("copy",),
            "no working set beyond the caches was measured on",
        ),
    ],
)
def test_a_ceiling_that_was_not_measured_is_missing_with_its_reason(
    ceilings: tuple[Ceiling, ...], asked: tuple[str, ...], reason: str
) -> None:
    assert run_of(*ceilings).peak_rate(*asked).missing == Missing(f"{reason} here")


@pytest.mark.parametrize(("size", "words"), [(127, "127 MiB"), (128, "128 MiB"), (1024, "1 GiB")])
def test_memory_begins_at_four_times_the_last_cache(size: int, words: str) -> None:
    known = [moved("copy", size * MIB, 1e10)]
    assert len(beyond_caches(known, MACHINE)) == (size >= 128)
    assert in_binary(size * MIB) == words


def test_the_price_of_a_page_is_a_ceiling_of_its_own() -> None:
    page = msgspec.structs.replace(
        factory.ceiling("copy", "before", 1.0),
        operation="page_mapping",
        work=16_384,
        work_unit="1",
        samples=(0.016, 0.017, 0.016),
    )
    assert value(run_of(page).peak_rate("page_mapping")) == pytest.approx(16_384 / 0.016, rel=0.02)
