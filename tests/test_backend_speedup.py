"""backend_speedup on made-up records whose times are closed forms of work and calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from report.paper.findings import Findings
from report.quantity.evaluation import estimate
from report.records.editions import Role
from report.records.record import Case, Factor, Record
from report.statistics.estimates import Estimate
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.study import findings
from report.studies.backend_speedup.subject import SOURCE, Size
from tests import factory, papers
from tests.papers import inputs_of

STUDY = "backend_speedup"
SMALL, LARGE, WIDEST = Size(10, 1_000), Size(128, 60_000), Size(2_048, 16_000)
SHARED = Size(10, 1_438)
SIZES = [Size(h, m) for h in (10, 128, 2_048) for m in (1_000, 16_000, 60_000)][:-1]
SIZES += [SHARED, Size(512, 1_438), Size(2_048, 1_438)]
#: Of each library: what an iteration costs at least (s), the rate of its work (FLOP/s), a call (s).
LIBRARIES: Mapping[str, tuple[float, float, float]] = {
    "numpy": (2e-5, 2e11, 4e-7),
    "cupy": (6e-4, 2e13, 1.5e-5),
    "torch_cuda": (4e-4, 2e13, 1.3e-5),
}
#: The share of an iteration that each kind of operation takes.
SHARES = {
    "forward": 0.4, "backward": 0.5, "matrix_product": 0.5, "bias": 0.1, "relu": 0.01,
    "softmax": 0.1, "gradient": 0.2, "update": 0.09,
}  # fmt: skip
#: How much slower NumPy is on the other CPU, and all libraries are in the earlier session.
OTHER_CPU, EARLIER = 2.0, 1.5
#: A GPU that has a data sheet.
GPU = msgspec.structs.replace(factory.GPU, model="NVIDIA H100 80GB HBM3")


def time_of(library: str, size: Size) -> float:
    """On a GPU calls hide the work, on a CPU they add to it."""
    least, rate, _ = LIBRARIES[library]
    work = 2 * size.images * (2 * 784 * size.hidden + 30 * size.hidden) / rate
    return max(least, work) if library in ("cupy", "torch_cuda") else least + work


def timed(library: str, size: Size, slower: float) -> dict[str, Sequence[float]]:
    """What a process measures of a size; NumPy has page faults at much work."""
    whole, (_, rate, call) = time_of(library, size), LIBRARIES[library]
    found = {
        "time": whole,
        "call_time": call,
        "product_alone_time": 2 * 784 * size.hidden * size.images / rate,
        **{f"{kind}_time": share * whole for kind, share in SHARES.items()},
    }
    faults = 3_856 if library == "numpy" and size >= LARGE else 0
    return {
        **{name: factory.scattered(slower * centre, 1e-4) for name, centre in found.items()},
        "page_faults": [faults] * 3,
    }


def case(
    library: str, size: Size, rounds: Iterable[Any] = (), subject: str = "scaling",
    dtype: str = "float32", **series: Any,
) -> Case:  # fmt: skip
    factors: dict[str, Factor] = {
        "subject": subject, "dataset": "digits", "dtype": dtype, "backend": library,
        "hidden": size.hidden, "samples": size.images,
    }  # fmt: skip
    made = {"series": factory.measured(series), "rounds": tuple(rounds)}
    return Case(factors=factors, status="ok", reason=None, layers=(), **made)


def scaling(library: str, processes: int, apart: float, slower: float) -> Iterable[Case]:
    """Every size by processes that differ by ``apart`` from each other."""
    factors = {k: slower * (1 + apart * (k - (1 + processes) / 2)) for k in range(1, processes + 1)}
    for size in SIZES:
        rounds = (factory.round_(k, timed(library, size, each)) for k, each in factors.items())
        yield case(library, size, rounds)


def training(library: str, off: float = 0.0) -> Case:
    return case(
        library,
        SHARED,
        subject="training",
        train_loss=[2.3 * 0.9**k * (1 + off) for k in range(31)],
    )


def on_cpu() -> Record:
    double = {"time": [3 * OTHER_CPU * time_of("numpy", SOURCE)] * 9}
    wide = case("numpy", SOURCE, (factory.round_(k, double) for k in range(1, 10)), dtype="float64")
    made = [*scaling("numpy", 9, 1e-4, OTHER_CPU), wide]
    return factory.record(made, factory.environment("example-1t", threads=1), study=STUDY)


def on_gpu(
    apart: float = 1e-3,
    off: float = 1e-7,
    libraries: Iterable[str] = ("numpy", "cupy", "torch_cuda"),
    processes: int = 2,
    slower: float = 1.0,
    key: str = "example-gpu",
) -> Record:
    made = [c for library in libraries for c in scaling(library, processes, apart, slower)]
    made += [training("numpy"), training("cupy", off)]
    machine = factory.environment(key, gpu=GPU, threads=16)
    return factory.record(made, machine, study=STUDY, started="2026-11-03T10:00:00Z")


def found(*records: Record) -> Findings:
    """The paper of a CPU, a GPU and an earlier session on it, in this order, as far as they are."""
    names: tuple[Role, ...] = ("cpu", "gpu", "third")
    roles = {role: factory.stored(each).file for role, each in zip(names, records, strict=False)}
    return findings(replace(inputs_of(STUDY, *records), roles=roles))


def gain(size: Size) -> float:
    return time_of("numpy", size) / time_of("cupy", size)


W = {size: 2 * size.images * (1568 * size.hidden + 30 * size.hidden) for size in SIZES}
#: CuPy's products at the source's size, less a call of each of the five.
PRODUCTS = 0.5 * time_of("cupy", SOURCE) - 5 * 1.5e-5
VALUES: Mapping[str, float] = {
    # The source and theory.
    "source_speedup": 2.8, "audited": 21, "differing": 4, "hidden": 10, "parameters": 7_960,
    "weights": 7_940, "calls": 31, "source_work": 1.9e9, "source_held": 158.6 / 12.5,
    "kaggle_work": 1.3e9, "source_products": 42.3e-3, "source_total": 42.3,
    "source_slower": 30.2e-3 / time_of("cupy", SOURCE),
    "source_cpu_slower": 84.6e-3 / time_of("numpy", SOURCE),
    "byte_input": 47e6, "image_time": 2 * 4 * 784 * 60_000 / 3.35e12,
    # The GPU and its host.
    "small": gain(SMALL), "at_source": gain(SOURCE), "large": gain(LARGE), "widest": gain(WIDEST),
    "less_wide": gain(Size(512, 1_438)), "wide": gain(Size(2_048, 1_438)),
    "fewer_images": 16_000, "shared_images": 1_438,
    "floor": 6e-4, "flat": 9.4e9, "flat_growth": 9.4e9 / W[SMALL], "flat_sizes": 9,
    "sizes": len(SIZES), "product_share": 0.4,
    "cupy_calls": 31 * 1.5e-5 / 6e-4, "torch_calls": 31 * 1.3e-5 / 4e-4,
    "product_share_least": 0.4, "iterations": 30, "products": PRODUCTS,
    "narrow_gpu_rate": W[SOURCE] / PRODUCTS, "numpy_products": 0.5, "cupy_products": 0.5,
    "gpu_rate": 2e13, "without_faults": 100, "widest_without_faults": 100,
    "faults": 3_900, "faults_widest": 3_900,
    "spread": 1.0, "spread_gpu": 1.0, "spread_parts": 1.001, "pairs": 33, "scatter_of_gains": 1.002,
    "longer_on_cpu": time_of("numpy", SOURCE) / time_of("numpy", Size(512, 1_438)),
    "products_ahead": 1,
    "small_over_cpu": OTHER_CPU * gain(SMALL),
    # The other CPU and the earlier session.
    "measurements": 9 * 12, "disturbed": 0, "double": 3,
    "least_shift": OTHER_CPU, "most_shift": OTHER_CPU,
    "least_allowed": OTHER_CPU, "most_allowed": OTHER_CPU,
    "earlier_least": EARLIER, "earlier_most": EARLIER,
    "small_by_sessions": EARLIER * gain(SMALL),
    "neurons_by_sessions": gain(LARGE) / gain(SOURCE) / EARLIER**2,
}  # fmt: skip


def test_values_and_verdicts_of_full_records_are_those_of_closed_forms() -> None:
    full = found(on_cpu(), on_gpu(), on_gpu(slower=EARLIER, key="example-earlier"))
    papers.assert_values(full, VALUES, rel=6e-3)
    # The times follow the model of two numbers.
    papers.assert_values(full, {"floor_error": 0, "rate_error": 0}, abs=1e-3)
    papers.assert_verdicts(full, {"same-speedup", "parameter-bytes", "input-bytes"})


#: How a GPU is made up, and what becomes of a claim.
OTHER: papers.Other[Mapping[str, Any]] = {
    "processes that differ": ({"apart": 1.8}, "gap-grows-images", "undecided"),
    "one process": ({"processes": 1}, "floor", "not measured"),
    "no CuPy": ({"libraries": ("numpy", "torch_cuda")}, "small-slower", "not measured"),
    "other losses": ({"off": 0.1}, "alike", "refuted"),
    "the same CPU": ({"slower": OTHER_CPU}, "baseline-matters", "refuted"),
}


def test_the_model_bends_where_its_floor_meets_its_rate() -> None:
    time, _ = found(on_cpu(), on_gpu()).figures["fig-curve"].drawing.panels
    (line,) = time.curves
    # From the least work of wide layers to the most (GFLOP, ms).
    assert line.x == pytest.approx([W[Size(128, 1_000)] / 1e9, 12, W[WIDEST] / 1e9], rel=1e-3)
    assert line.y == pytest.approx([0.6, 0.6, W[WIDEST] / 2e10], rel=1e-3)


def test_verdicts_follow_the_data() -> None:
    papers.assert_changes(lambda how: found(on_cpu(), on_gpu(**how)), OTHER)


def test_few_processes_bound_a_ratio_by_all_pairs() -> None:
    run = Run(factory.stored(on_gpu(apart=0.1)), "here")
    apart = 1.05 / 0.95
    assert run.spread() == (pytest.approx(apart), 33)
    assert run.spread(libraries=["cupy"]) == (pytest.approx(apart), 11)
    found, middle = estimate(run.gain(SOURCE)), gain(SOURCE)
    assert isinstance(found, Estimate)
    bounds = found.low, found.value, found.high
    assert bounds == pytest.approx((middle / apart, middle, middle * apart), rel=0.01)
