"""Series, levels, ceilings and labels of runs.

Levels are the values of a case's factors, such as batch sizes.  Ceilings are measured peak rates.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from report.core.missing import Missing
from report.core.records.record import Ceiling, Environment, Round
from report.core.records.store import Stored
from report.evidence.ceilings import format_bytes
from report.evidence.runs import Run, device_labels
from report.quantity.intervals import Process
from tests import factory
from tests.papers import value_of

#: Factors of the case that the tests read.
CASE = {"subject": "layer", "batch": 4, "pass": "forward", "layout": "contiguous"}
with_fields = msgspec.structs.replace


def test_levels_are_sorted_and_keep_their_type() -> None:
    cases = [factory.case(8), factory.case(2), *factory.layer_cases((4,))]
    run = Run(factory.stored(factory.record(cases)), "a")
    assert run.levels("batch") == (2, 4, 8)
    assert run.levels("batch", **{"pass": "forward_backward"}) == (4,)
    assert run.levels("pass", batch=8) == ("forward",)
    assert run.levels("colour") == run.levels("batch", colour="blue") == ()


def test_series_of_two_subjects_with_the_same_levels_have_distinct_names() -> None:
    layer, net = factory.case(4, subject="layer"), factory.case(4, subject="net")
    for cases, name in (
        ([layer], "time(batch 4, forward, contiguous)"),
        ([layer, net, factory.case(8, subject="x")], "time(batch 4, forward, contiguous, layer)"),
    ):
        assert Run(factory.stored(factory.record(cases)), "a").series("time", CASE).name == name


def run_in_rounds(*rounds: Round) -> Run:
    """Return a run of the forward pass with these rounds."""
    case = with_fields(factory.case(4), rounds=rounds)
    return Run(factory.stored(factory.record([case])), "a")


def test_a_series_has_samples_by_process() -> None:
    run = run_in_rounds(
        factory.round_(2, {"time": [0.5, 0.25], "allocated_peak": [7]}),
        factory.round_(1, {"time": [0.75]}),
        factory.round_(3, {}, status="failed", reason="It broke."),
    )
    processes = run.by_process("time", CASE)
    assert not isinstance(processes, Missing)
    assert [(p.name, p.samples) for p in processes] == [("2", (0.5, 0.25)), ("1", (0.75,))]
    assert run.samples("time", CASE) == (0.5, 0.25, 0.75)
    assert isinstance(run.by_process("cpu_time", CASE), Missing)
    assert run.deterministic_value("allocated_peak", CASE) == 7, "only one process measured it"


def test_a_fixed_value_that_differs_between_processes_is_missing() -> None:
    run = run_in_rounds(*(factory.round_(n, {"allocated_peak": [n]}) for n in (1, 2)))
    value = run.deterministic_value("allocated_peak", CASE)
    assert isinstance(value, Missing) and "differed between repetitions" in value.reason


def run_of_day(day: int, *times: tuple[float, ...], **change: Any) -> Stored:
    """Return a run with the times of its processes; ``change`` are other fields."""
    started = f"2026-11-{day:02}T10:00:00Z"
    return factory.stored(factory.measurement(started, times, **change))


def pooled(newest: Stored, *others: Stored) -> Run:
    return Run(replace(newest, others=others), "a")


NEW = run_of_day(3, (1.0, 1.1), (1.2, 1.3))
OLD = run_of_day(2, (1.0, 1.2), (1.2, 1.4))
OLDEST, SLOW = run_of_day(1, (1.3,)), run_of_day(1, (2.0,))
FAILED_CASE = factory.case(4, status="failed", reason="It broke.")
FAILED = factory.stored(with_fields(OLD.record, cases=(FAILED_CASE,)))


def test_a_series_has_the_processes_of_all_runs() -> None:
    run = pooled(NEW, OLD, OLDEST)
    assert run.by_process("time", CASE) == (
        Process(NEW.file, "1", (1.0, 1.1)),
        Process(NEW.file, "2", (1.2, 1.3)),
        Process(OLD.file, "1", (1.0, 1.2)),
        Process(OLD.file, "2", (1.2, 1.4)),
        Process(OLDEST.file, "1", (1.3,)),
    )
    assert run.samples("time", CASE) == (1.0, 1.1, 1.2, 1.3)
    # Fixed values are read from the newest run.
    assert run.deterministic_quantity("allocated_after", CASE).sources == (NEW.file,)
    with_short_time = pooled(run_of_day(1, (0.0, 1e-8)), NEW)
    assert with_short_time.by_process("time", CASE) == Missing("below timer resolution on a")


def test_a_value_names_the_files_of_its_runs() -> None:
    """A run in which the case failed adds nothing.

    If runs disagree, the run with most processes is used.
    """
    for runs, sources in (
        ((NEW, OLD, OLDEST), (NEW, OLD, OLDEST)),
        ((NEW,), (NEW,)),
        ((NEW, FAILED, OLDEST), (NEW, OLDEST)),
        ((NEW, SLOW), (NEW,)),
        ((SLOW, NEW), (NEW,)),
    ):
        files = tuple(stored.file for stored in sources)
        assert pooled(*runs).series("time", CASE).files == files


def test_a_ceiling_is_the_best_of_all_runs() -> None:
    fast = factory.stored(with_fields(OLD.record, ceilings=factory.ceilings(3e11)))
    peak_of_one, peak_of_two = (
        r.peak_rate("matrix_product") for r in (pooled(NEW), pooled(NEW, fast))
    )
    assert (value_of(peak_of_one), value_of(peak_of_two)) == pytest.approx((2e11, 3e11))
    assert peak_of_two.sources == (NEW.file, fast.file)
    # Both runs copied at the same rate.
    assert value_of(pooled(NEW, fast).peak_rate("copy")) == pytest.approx(3e10)


def device(key: str = "a", **change: Any) -> Environment:
    """Return a CPU of two cores with 16 GiB of memory; ``change`` overrides fields."""
    return factory.environment(key, **change)


WITH_64_GIB = device("b", memory_bytes=64 * 2**30)
WITH_64_CORES = device("b", cpu=with_fields(device().cpu, cores_available=64))
GPU_OF_40_GIB = device("a", gpu=with_fields(factory.GPU, memory_bytes=40 * 2**30))
GPU_OF_80_GIB = device("b", gpu=with_fields(factory.GPU, memory_bytes=80 * 2**30))


@pytest.mark.parametrize(("machines", "ends"), [
    ([], []),
    ([device(), device("b", threads=1)], [", 2 threads", ", 1 thread"]),
    ([device(), WITH_64_GIB], [" (16 GiB of memory)", " (64 GiB of memory)"]),
    ([device(), WITH_64_GIB, device("c")], [" (a)", " (b)", " (c)"]),
    ([device(), WITH_64_CORES], [" (2 cores available)", " (64 cores available)"]),
    ([GPU_OF_40_GIB, GPU_OF_80_GIB], [" (40 GiB)", " (80 GiB)"]),
    # Records of one device have the same label.
    ([device(), device()], ["Example Processor, 2 threads (a)"] * 2),
])  # fmt: skip
def test_labels_end_with_a_fact_that_differs(machines: list[Environment], ends: list[str]) -> None:
    labels = device_labels([factory.stored(factory.record(machine=device)) for device in machines])
    assert all(label.endswith(end) for label, end in zip(labels, ends, strict=True)), labels


# Family and model of AMD's CPUs are at the ends of ranges, and outside of them.
@pytest.mark.parametrize(("brand", "family", "model", "label"), [
    ("AMD EPYC", 0x17, 0x2F, "AMD EPYC (Zen)"),
    *(("AMD EPYC", 0x17, model, "AMD EPYC (Zen 2)") for model in (0x30, 0x60, 0x91)),
    ("AMD EPYC", 0x19, 0x0F, "AMD EPYC (Zen 3)"),
    *(("AMD EPYC", 0x19, model, "AMD EPYC (Zen 4)") for model in (0x10, 0x60)),
    ("AMD EPYC", 0x1A, 0x7F, "AMD EPYC (Zen 5)"),
    *(("AMD EPYC", *numbers, "AMD EPYC") for numbers in ((0x17, 0x92), (0x1A, 0x30), (None, None))),
    *((brand, 25, 1, brand) for brand in ("AMD EPYC 7763 64-Core Processor", "Intel Xeon")),
])  # fmt: skip
def test_labels_of_amd_name_the_generation_if_the_brand_has_no_model(
    brand: str, family: int | None, model: int | None, label: str
) -> None:
    cpu = with_fields(device().cpu, model=brand)
    host = with_fields(factory.SERVER, family=family, model=model)
    assert device(host=host, cpu=cpu).label == f"{label}, 2 threads"
    assert device(cpu=cpu).label == f"{brand}, 2 threads", "a record without its host"
    assert device(cpu=cpu, name="mine", threads=1).label == "mine, 1 thread"


def test_a_gpu_is_named_without_its_memory() -> None:
    for model, label in (("NVIDIA H100 80GB HBM3", "NVIDIA H100"), ("80GB", "80GB")):
        assert device(gpu=with_fields(factory.GPU, model=model)).label == label


MIB = 2**20
#: Two threads on a CPU of eight cores can use 64 KiB of L1, 2 MiB of L2 and 32 MiB of L3.
HOST = factory.host(caches=factory.CACHES)
#: Working set (MiB) → rate (B/s): in caches of ``HOST``, and from 128 MiB on in memory.
RATES = {1: 2e11, 8: 1e11, 127: 5e10, 128: 3e10, 512: 2e10}


def machine(cores: int) -> Environment:
    """Return a machine with the caches of ``HOST``; eight cores share a last cache."""
    return device(host=HOST, cpu=with_fields(device().cpu, cores_available=cores))


def bandwidths(operation: Any, *sizes: int, factor: float = 1.0) -> list[Ceiling]:
    """Return ceilings of memory for working sets (MiB), at ``factor`` times ``RATES``."""
    name = {"copy": "torch.copy_", "read": "torch.dot"}[operation]
    ceilings = []
    for size in sizes:
        plain = factory.ceiling(operation, "before", factor * RATES[size])
        ceilings.append(with_fields(plain, instrument=name, working_set=size * MIB))
    return ceilings


def arithmetic(operation: Any, rate: float, dtype: str = "float32") -> Ceiling:
    """Return a ceiling of arithmetic (FLOP/s)."""
    plain = factory.ceiling("matrix_product", "before", rate)
    return with_fields(plain, operation=operation, dtype=dtype)


COPY, READ = bandwidths("copy", *RATES), bandwidths("read", 128, 512, factor=1.5)
ARITHMETIC = [
    arithmetic("matrix_product", 1e11),
    arithmetic("convolution", 2e11),
    arithmetic("matrix_product", 8e11, "bfloat16"),
]


# Ceilings, machine, operation and data type, and the rate; or the beginning of why it is missing.
@pytest.mark.parametrize(("ceilings", "on", "arguments", "expected"), [
    (ARITHMETIC, machine(8), ("matrix_product",), 2e11),
    (ARITHMETIC, machine(8), ("convolution",), 2e11),
    (ARITHMETIC, machine(8), ("matrix_product", "bfloat16"), 8e11),
    (ARITHMETIC, machine(8), ("matrix_product", "tfloat32"), "no ceiling in tfloat32"),
    ([], machine(8), ("copy",), "no ceiling"),
    ([arithmetic("page_mapping", 5e5)], machine(8), ("page_mapping",), 5e5),
    # Working sets of four times the last cache or more are memory.
    (COPY, machine(8), ("copy",), 3e10),
    ([*COPY, *READ], machine(8), ("copy",), 1.5 * 3e10),
    (bandwidths("copy", 127), machine(8), ("copy",), "no working set beyond the caches"),
    # With two caches of 32 MiB, 128 MiB may lie in caches, and 512 MiB cannot.
    (COPY, machine(16), ("copy",), 2e10),
    # Without known caches, the largest working set is memory.
    (COPY, device(), ("copy",), 2e10),
    (COPY, device(host=factory.host()), ("copy",), 2e10),
    (COPY, device("gpu", gpu=factory.GPU, host=HOST), ("copy",), 2e10),
])  # fmt: skip
def test_the_ceiling_is_the_best_of_several_operations(
    ceilings: Iterable[Ceiling], on: Environment, arguments: tuple[str, ...], expected: float | str
) -> None:
    record = factory.record(machine=on, peaks=tuple(ceilings))
    ceiling = Run(factory.stored(record), "here").peak_rate(*arguments)
    if isinstance(expected, str):
        assert ceiling.missing == Missing(f"{expected} was measured on here")
    else:
        assert value_of(ceiling) == pytest.approx(expected, rel=0.02)


def test_sizes_are_printed_in_binary_units() -> None:
    assert [format_bytes(n * MIB) for n in (127, 128, 1024)] == ["127 MiB", "128 MiB", "1 GiB"]
