"""Which ceilings of a record stand for arithmetic and for memory."""

from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from report.core.missing import Missing
from report.core.records.record import Cache, Ceiling, Environment
from report.evidence.ceilings import in_binary
from report.evidence.runs import Run
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
#: What is reached in a working set (MiB), by whether it lies in a cache of ``HOST``.
RATES = {1: 2e11, 8: 1e11, 127: 5e10, 128: 3e10, 512: 2e10}


def machine(cores: int) -> Environment:
    cpu = msgspec.structs.replace(factory.environment().cpu, cores_available=cores)
    return factory.environment(host=HOST, cpu=cpu)


def moved(operation: Any, *sizes: int, factor: float = 1.0) -> list[Ceiling]:
    """What an instrument moves in working sets (MiB)."""
    name = {"copy": "torch.copy_", "read": "torch.dot"}[operation]
    return [
        msgspec.structs.replace(
            factory.ceiling(operation, "before", factor * RATES[size]),
            instrument=name,
            working_set=size * MIB,
        )
        for size in sizes
    ]


def computed(operation: Any, rate: float, dtype: str = "float32") -> Ceiling:
    plain = factory.ceiling("matrix_product", "before", rate)
    return msgspec.structs.replace(plain, operation=operation, dtype=dtype)


EVERY, READ = moved("copy", *RATES), moved("read", 128, 512, factor=1.5)
ARITHMETIC = [
    computed("matrix_product", 1e11),
    computed("convolution", 2e11),
    computed("matrix_product", 8e11, "bfloat16"),
]


@pytest.mark.parametrize(("ceilings", "at", "asked", "expected"), [
    (ARITHMETIC, machine(8), ("matrix_product",), 2e11),
    (ARITHMETIC, machine(8), ("convolution",), 2e11),
    (ARITHMETIC, machine(8), ("matrix_product", "bfloat16"), 8e11),
    (ARITHMETIC, machine(8), ("matrix_product", "tfloat32"), "no ceiling in tfloat32"),
    ([], machine(8), ("copy",), "no ceiling"),
    ([computed("page_mapping", 5e5)], machine(8), ("page_mapping",), 5e5),
    # Memory begins at four times the last cache.
    (EVERY, machine(8), ("copy",), 3e10),
    ([*EVERY, *READ], machine(8), ("copy",), 1.5 * 3e10),
    (moved("copy", 127), machine(8), ("copy",), "no working set beyond the caches"),
    # Two caches of 32 MiB: 128 MiB may lie in them, 512 MiB cannot.
    (EVERY, machine(16), ("copy",), 2e10),
    # Without known caches the largest working sets are memory.
    (EVERY, factory.environment(), ("copy",), 2e10),
    (EVERY, factory.environment(host=factory.host()), ("copy",), 2e10),
    (EVERY, factory.environment("gpu", factory.GPU, host=HOST), ("copy",), 2e10),
])  # fmt: skip
def test_the_best_of_what_stands_for_an_operation_is_its_ceiling(
    ceilings: Iterable[Ceiling], at: Environment, asked: tuple[str, ...], expected: float | str
) -> None:
    record = factory.record(machine=at, peaks=tuple(ceilings))
    found = Run(factory.stored(record), "here").peak_rate(*asked)
    if isinstance(expected, str):
        assert found.missing == Missing(f"{expected} was measured on here")
    else:
        assert value_of(found) == pytest.approx(expected, rel=0.02)


def test_a_size_is_printed_in_its_binary_unit() -> None:
    assert [in_binary(n * MIB) for n in (127, 128, 1024)] == ["127 MiB", "128 MiB", "1 GiB"]
