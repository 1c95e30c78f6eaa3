"""Which ceilings of a record stand for arithmetic, for memory and for each cache."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.evidence import peaks
from report.evidence.runs import Run
from report.missing import Missing
from report.quantity.evaluation import point
from report.records.record import Cache, Ceiling, Record
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


# --------------------------------------------------------------------------------- arithmetic


def test_the_best_instrument_is_the_ceiling_of_arithmetic() -> None:
    run = run_of(
        computed("matrix_product", 1e11, name="torch.mm"),
        computed("convolution", 2e11, name="torch.nn.Conv2d"),
    )
    assert value(run.peak_rate("matrix_product")) == pytest.approx(2e11, rel=0.02)
    assert value(run.peak_rate("convolution")) == pytest.approx(2e11, rel=0.02)


def test_another_precision_is_another_ceiling() -> None:
    run = run_of(computed("matrix_product", 1e11), computed("matrix_product", 8e11, "bfloat16"))
    assert value(run.peak_rate("matrix_product")) == pytest.approx(1e11, rel=0.02)
    short = run.peak_rate("matrix_product", dtype="bfloat16")
    assert value(short) == pytest.approx(8e11, rel=0.02)
    none = run.peak_rate("matrix_product", dtype="tfloat32").missing
    assert none == Missing("no ceiling in tfloat32 was measured on here")


@given(st.lists(st.floats(1e9, 1e13), min_size=1, max_size=6))
def test_no_instrument_lies_above_the_ceiling(rates: list[float]) -> None:
    run = run_of(*(computed("matrix_product", r, name=f"n{i}") for i, r in enumerate(rates)))
    assert value(run.peak_rate("matrix_product")) == pytest.approx(max(rates), rel=0.05)


# ---------------------------------------------------------------------------------- bandwidth


def test_memory_is_what_no_cache_holds_by_the_best_operation() -> None:
    run = run_of(*every_size(), *every_size("read", 1.5))
    assert value(run.peak_rate("copy")) == pytest.approx(1.5 * 3e10, rel=0.02)


def test_the_last_cache_is_that_of_all_cores_that_may_be_used() -> None:
    more = msgspec.structs.replace(MACHINE.cpu, cores_available=16)
    machine = msgspec.structs.replace(MACHINE, cpu=more)
    # Two caches of 32 MiB: 128 MiB may lie in them, 512 MiB cannot.
    assert value(run_of(*every_size(), machine=machine).peak_rate("copy")) == pytest.approx(
        2e10, rel=0.02
    )


def test_without_known_caches_the_largest_working_sets_are_memory() -> None:
    for machine in (factory.environment(), factory.environment(host=factory.host())):
        run = run_of(*every_size(), machine=machine)
        assert value(run.peak_rate("copy")) == pytest.approx(2e10, rel=0.02)


def test_where_all_working_sets_fit_in_a_cache_no_bandwidth_of_memory_is_known() -> None:
    run = run_of(moved("copy", MIB, 1e11))
    reason = Missing("no working set beyond the caches was measured on here")
    assert run.peak_rate("copy").missing == reason


def test_each_level_has_the_best_rate_of_what_fits_in_it_alone() -> None:
    found = run_of(*every_size(), *every_size("triad", 0.5)).cache_rates()
    expected = {"L1": 4e11, "L2": 2e11, "L3": 1e11, "memory": 3e10}
    assert {name: value(rate) for name, rate in found.items()} == pytest.approx(expected, rel=0.02)


def test_a_level_that_was_not_measured_is_missing_with_its_reason() -> None:
    found = run_of(*every_size()[2:]).cache_rates()
    assert found["L1"].missing == Missing("no working set that only L1 holds was measured on here")
    assert found["L3"].missing is None


def test_a_cache_that_seems_slower_than_memory_is_no_roof() -> None:
    run = run_of(moved("copy", 8 * MIB, 1e9), moved("read", 128 * MIB, 3e10))
    missing = run.cache_rates()["L3"].missing
    assert missing is not None
    assert "L3 seemed no faster than memory" in missing.reason


@given(st.integers(1, 2**31))
def test_a_working_set_belongs_to_one_level_at_most(size: int) -> None:
    ceiling = moved("copy", size, 1e10)
    holding = [level for level in peaks.levels(MACHINE) if level.holds(ceiling)]
    record = factory.record(machine=MACHINE, peaks=(ceiling,))
    assert len(holding) + len(peaks.meant(record, "copy")) <= 1


# --------------------------------------------------------------------------------- old records


def test_a_record_that_names_no_instruments_has_the_ceilings_that_it_always_had() -> None:
    run = run_of(*factory.ceilings(2e11, 3e10), machine=factory.environment())
    product, copy = run.peak_rate("matrix_product"), run.peak_rate("copy")
    assert value(product) == pytest.approx(2e11, rel=0.02)
    assert value(copy) == pytest.approx(3e10, rel=0.02)
    assert [leaf.name for leaf in copy.leaves] == [
        f"{what} of the copy 16777216 elements, {moment}"
        for moment in ("before", "after")
        for what in ("work", "time")
    ]
    assert product.symbol == "ceiling of the matrix product"
    found = run.cache_rates()
    assert value(found.pop("memory")) == value(copy)
    assert {rate.missing for rate in found.values()} == {
        Missing("the caches are not in the record of here")
    }


def test_the_caches_of_a_host_are_not_those_of_its_gpu() -> None:
    record: Record = factory.record(
        machine=factory.environment("gpu", factory.GPU, host=HOST), peaks=every_size()
    )
    found = Run(factory.stored(record), "there").cache_rates()
    assert found["L2"].missing == Missing("the caches of a GPU are not in the record of there")
    assert value(found["memory"]) == pytest.approx(2e10, rel=0.02)


# -------------------------------------------------------------------------------------- words


@pytest.mark.parametrize(
    ("size", "words"),
    [(512, "512 B"), (16 * KIB, "16 KiB"), (210 * MIB, "210 MiB"), (2**30, "1 GiB")],
)
def test_working_sets_are_told_in_binary_units(size: int, words: str) -> None:
    assert peaks.in_binary(size) == words


def test_the_price_of_a_page_is_a_ceiling_of_its_own() -> None:
    page = msgspec.structs.replace(
        factory.ceiling("copy", "before", 1.0),
        operation="page_mapping",
        work=16_384,
        work_unit="1",
        samples=(0.016, 0.017, 0.016),
    )
    assert value(run_of(page).peak_rate("page_mapping")) == pytest.approx(16_384 / 0.016, rel=0.02)
