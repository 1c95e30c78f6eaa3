"""backend_speedup on made-up records whose times are closed forms of work and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import msgspec
import pytest

from report.core.records.editions import Role
from report.core.records.record import Case, Ceiling, Factor, Record
from report.core.statistics.estimates import Estimate
from report.paper.findings import Findings
from report.quantity.evaluation import estimate
from report.studies.backend_speedup import changes
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.study import findings
from report.studies.backend_speedup.subject import SOURCE, Size
from tests import factory, papers
from tests.papers import inputs_of, rows

STUDY = "backend_speedup"
SMALL, LARGE, WIDEST = Size(10, 1_000), Size(128, 60_000), Size(2_048, 16_000)
SHARED = Size(10, 1_438)
SIZES = [Size(h, m) for h in (10, 128, 2_048) for m in (1_000, 16_000, 60_000)][:-1]
SIZES += [SHARED, Size(512, 1_438), Size(2_048, 1_438)]
#: Of each library: what an iteration costs at least (s), the rate of its work (FLOP/s), a call (s).
LIBRARIES: Mapping[str, tuple[float, float, float]] = {
    "numpy": (2e-5, 2e11, 4e-7),
    "cupy": (6e-4, 2e13, 1.5e-5),
    "torch_cuda": (4e-4, 1.6e13, 1.1e-5),
}
#: The share of an iteration that each kind of operation takes, of NumPy and on a GPU.
SHARES = {
    "forward": (0.4, 0.45), "backward": (0.5, 0.52), "matrix_product": (0.7, 0.6),
    "bias": (0.09, 0.1), "relu": (0.01, 0.02), "softmax": (0.1, 0.11), "gradient": (0.15, 0.18),
    "update": (0.05, 0.09),
}  # fmt: skip
#: How many times the rate of an iteration a product alone reaches.
ALONE = {"numpy": 1.2, "cupy": 1.5, "torch_cuda": 1.4}
#: How much slower all libraries are in the earlier session, and NumPy where memory is mapped anew.
EARLIER = 1.5
FAULTS = {LARGE: 3_856, WIDEST: 9_120}
MAPPING = {LARGE: 1.3, WIDEST: 1.6, Size(2_048, 1_438): 2.2}
#: The step between processes of a library, which is half as large again for parts.
APART = {"numpy": 0.02, "cupy": 0.01, "torch_cuda": 0.015}
#: A GPU that has a data sheet.
GPU = msgspec.structs.replace(factory.GPU, model="NVIDIA H100 80GB HBM3")


def time_of(library: str, size: Size) -> float:
    """On a GPU calls hide the work, on a CPU they add to it."""
    least, rate, _ = LIBRARIES[library]
    work = 2 * size.images * (2 * 784 * size.hidden + 30 * size.hidden) / rate
    if library == "numpy":
        return least + work * MAPPING.get(size, 1)
    return max(least * (1.1 if size == SHARED else 1), work)


def other_cpu(size: Size) -> float:
    """How much slower NumPy is on the other CPU."""
    return 2.1 + size.hidden / 1024


def timed(library: str, size: Size, slower: float, step: float) -> dict[str, Sequence[float]]:
    """What a process measures of a size; its times are longer by ``step``, its parts by more."""
    whole, (_, rate, call) = time_of(library, size), LIBRARIES[library]
    alone = 2 * 784 * size.hidden * size.images / rate / ALONE[library]
    found = {"time": whole, "call_time": call, "product_alone_time": alone}
    centres = {name: (1 + step) * time for name, time in found.items()}
    for kind, shares in SHARES.items():
        centres[f"{kind}_time"] = (1 + 1.5 * step) * shares[library != "numpy"] * whole
    faults = {"page_faults": [FAULTS.get(size, 0) if library == "numpy" else 0] * 3}
    times = {name: factory.scattered(slower * each, 1e-4) for name, each in centres.items()}
    return {**times, **faults}


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


def scaling(
    library: str, processes: int, apart: float, slower: Callable[[Size], float]
) -> Iterable[Case]:
    """Every size by processes that are ``apart``; of an odd number, later ones twice as far."""
    steps = {k: apart * (k - (1 + processes) / 2) for k in range(1, processes + 1)}
    if processes % 2:
        steps = {k: step * (2 if step > 0 else 1) for k, step in steps.items()}
    for size in SIZES:
        made = ((k, timed(library, size, slower(size), step)) for k, step in steps.items())
        yield case(library, size, (factory.round_(*each) for each in made))


def training(library: str, off: float = 0.0) -> Case:
    losses = [2.3 * 0.9**k * (1 + off) for k in range(31)]
    return case(library, SHARED, subject="training", train_loss=losses)


def on_cpu() -> Record:
    """Nine processes, four of which were disturbed in double precision."""
    double = factory.scattered(2.6 * other_cpu(SOURCE) * time_of("numpy", SOURCE), 2e-3, 9)
    rounds = [*factory.rounds(factory.scattered(each, 1e-4) for each in double)]
    rounds[5:] = [msgspec.structs.replace(each, disturbance="another") for each in rounds[5:]]
    wide = case("numpy", SOURCE, rounds, dtype="float64")
    made = [*scaling("numpy", 9, 1e-4, other_cpu), wide]
    return factory.record(made, factory.environment("example-1t", threads=1), study=STUDY)


def on_gpu(
    apart: float | None = None,
    off: float = 1e-7,
    libraries: Iterable[str] = ("numpy", "cupy", "torch_cuda"),
    processes: int = 3,
    slower: float = 1.0,
    key: str = "example-gpu",
    cupy: Mapping[Size, float] = {},
) -> Record:
    """A GPU and its host; ``cupy`` is how much slower CuPy is at some sizes."""

    def slow(library: str, size: Size) -> float:
        return slower * (cupy.get(size, 1) if library == "cupy" else 1)

    made = [
        case
        for library in libraries
        for case in scaling(library, processes, apart or APART[library], partial(slow, library))
    ]
    made += [training("numpy"), training("cupy", off)]
    machine = factory.environment(key, gpu=GPU, threads=12)
    return factory.record(made, machine, study=STUDY, started="2026-11-03T10:00:00Z")


#: Times (s) of the unchanged baseline on one image and at both sizes with work.
UNCHANGED: Mapping[Size, Mapping[str, float]] = {
    Size(10, 1): {
        "time": 6e-5, "matrix_product_time": 2e-5, "bias_time": 1e-6, "relu_time": 2e-6,
    },
    SOURCE: {
        "time": 6e-2, "matrix_product_time": 5e-2, "bias_time": 2e-3, "relu_time": 1e-3,
    },
    Size(512, 1_438): {
        "time": 3e-2, "matrix_product_time": 2e-2, "bias_time": 3e-3, "relu_time": 2e-3,
    },
}  # fmt: skip
PAGE_PRICE = 2.5e-6
#: How much slower than predicted an iteration with a change is.
OFF = 1.02
#: What each change makes of a time, by hand; pages were counted on a machine (6,711 and 5,352).
PREDICTED: Mapping[str, tuple[float, float]] = {
    changes.THREAD: (1 - (5e-2 - 2e-5) / 2 / 6e-2, 1 - (2e-2 - 2e-5) / 2 / 3e-2),
    changes.RETURNED: (1 + 6_711 * PAGE_PRICE / 6e-2, 1 + 5_352 * PAGE_PRICE / 3e-2),
    changes.DOUBLE: (2 - 6e-5 / 6e-2, 2 - 6e-5 / 3e-2),
    changes.FUSED: (
        1 - ((2e-3 - 1e-6) / 2 + 1e-3 - 2e-6) / 2 / 6e-2,
        1 - ((3e-3 - 1e-6) * 512 / 522 + 2e-3 - 2e-6) / 2 / 3e-2,
    ),
}  # fmt: skip


def on_changed(**off: float) -> Record:
    """The changes on a CPU; ``off`` is how much slower than predicted one is, by first word."""
    cases = []
    for place, (size, times) in enumerate(UNCHANGED.items()):
        for change in (changes.NONE, *changes.CHANGES):
            slower = PREDICTED[change][place - 1] if place and change != changes.NONE else 1.0
            if change != changes.NONE:
                slower *= off.get(change.split()[0], OFF)
            whole = {"time": slower * times["time"]} if change != changes.NONE else times
            made = []
            for process in range(1, 10):
                step = process - 5
                drift = 1 + 0.01 * step
                if change != changes.NONE:
                    drift *= 1 + 0.001 * step * (2 if step > 0 else 1)
                series = {n: factory.scattered(drift * t, 1e-4) for n, t in whole.items()}
                made.append(factory.round_(process, series))
            dtype = "float64" if change == changes.DOUBLE else "float32"
            cases.append(case("numpy", size, made, "change", dtype))
            cases[-1].factors["change"] = change
    price = Ceiling("page_mapping", "before", "uint8", "16384 pages", 16_384, "1", (
        *factory.scattered(16_384 * PAGE_PRICE),
    ))  # fmt: skip
    machine = factory.environment("example-changed-2t", threads=2)
    return factory.record(cases, machine, (price,), study=STUDY, started="2026-11-04T10:00:00Z")


def found(*records: Record) -> Findings:
    """The paper of a CPU, a GPU, an earlier session on it, and changes, as far as they are."""
    names: tuple[Role, ...] = ("cpu", "gpu", "third", "second")
    roles = {role: factory.stored(each).file for role, each in zip(names, records, strict=False)}
    return findings(replace(inputs_of(STUDY, *records), roles=roles))


@cache
def full() -> Findings:
    earlier = on_gpu(slower=EARLIER, key="example-earlier")
    return found(on_cpu(), on_gpu(), earlier, on_changed())


def gain(size: Size) -> float:
    return time_of("numpy", size) / time_of("cupy", size)


W = {size: 2 * size.images * (1568 * size.hidden + 30 * size.hidden) for size in SIZES}
#: CuPy's products at the source's size, less a call of each of the five.
PRODUCTS = 0.6 * time_of("cupy", SOURCE) - 5 * 1.5e-5
#: The largest ratios of two processes: of NumPy, of CuPy, and of NumPy's parts.
SPREAD, SPREAD_GPU, SPREAD_PARTS = 1.04 / 0.98, 1.02 / 0.99, 1.06 / 0.97
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
    "sizes": len(SIZES), "product_share": 0.5,
    "cupy_calls": 31 * 1.5e-5 / 6e-4, "torch_calls": 31 * 1.1e-5 / 4e-4,
    "product_share_least": 0.4, "iterations": 30, "products": PRODUCTS,
    "narrow_gpu_rate": W[SOURCE] / PRODUCTS, "numpy_products": 0.7, "cupy_products": 0.6,
    "gpu_rate": 2e13, "without_faults": 100, "widest_without_faults": 200,
    "faults": 3_900, "faults_widest": 9_100, "spread": round(SPREAD, 2),
    "spread_gpu": round(SPREAD_GPU, 2), "spread_parts": SPREAD_PARTS, "pairs": 33,
    "scatter_of_gains": SPREAD_PARTS**2, "threads": 12,
    "longer_on_cpu": time_of("numpy", SOURCE) / time_of("numpy", Size(512, 1_438)),
    "products_ahead": (0.7 / 0.6) / (0.1 / 0.11),
    "small_over_cpu": other_cpu(SMALL) * gain(SMALL),
    # The other CPU and the earlier session.
    "measurements": 9 * 12, "disturbed": 4, "double": 2.6,
    "least_shift": other_cpu(SMALL), "most_shift": other_cpu(WIDEST),
    "least_allowed": other_cpu(SMALL) / SPREAD, "most_allowed": other_cpu(WIDEST) * SPREAD,
    "earlier_least": EARLIER / SPREAD_PARTS, "earlier_most": EARLIER * SPREAD_PARTS,
    "small_by_sessions": EARLIER * SPREAD_PARTS * gain(SMALL),
    "neurons_by_sessions": gain(LARGE) / gain(SOURCE) / (EARLIER * SPREAD_PARTS) ** 2,
}  # fmt: skip


def test_values_and_verdicts_of_full_records_are_those_of_closed_forms() -> None:
    papers.assert_values(full(), VALUES, rel=6e-3)
    # The times follow the model of two numbers.
    papers.assert_values(full(), {"floor_error": 0.1, "rate_error": 0}, abs=1e-3)


def two(number: float) -> float:
    """Rounded to two digits."""
    return float(f"{number:.1e}")


def test_tables_and_figures_have_their_rows_and_points() -> None:
    assert rows(full(), "tbl-marks")[-1] == {
        "Library": "CuPy", "A call": 1.5e-5, "Smallest iteration": 6e-4, "Product": 3e13,
        "Iteration": 2e13,
    }  # fmt: skip
    assert rows(full(), "tbl-sizes")[-1] == {
        "Neurons": 2_048, "Images": 16_000, "Work": two(W[WIDEST]),
        "Host": two(time_of("numpy", WIDEST)), "CuPy": two(time_of("cupy", WIDEST)),
        "Speed-up": two(gain(WIDEST)),
        "Other CPU": two(other_cpu(WIDEST) * time_of("numpy", WIDEST)), "Page faults": 9_100,
    }  # fmt: skip
    assert rows(full(), "tbl-times")[0] == {
        "Part": "Iteration", "Source: CPU": 0.0846, "Source: GPU": 0.0302, "Source: gain": 2.8,
        "Ours: CPU": two(time_of("numpy", SOURCE)), "Ours: GPU": 6e-4, "Ours: gain": 16,
    }  # fmt: skip
    time, gains = full().figures["fig-curve"].drawing.panels
    assert time.x_ticks == (0.1, 1.0, 10.0, 100.0)
    assert [points.joined for points in time.points] == [*(True,) * 4, False]
    widths = [f"{width:,} neurons" for width in (10, 128, 512, 2_048)]
    for panel, others, at_most_work in (
        (time, ["CuPy", "Model"], 1e3 * time_of("numpy", WIDEST)),
        (gains, ["Source", "Parity"], gain(WIDEST)),
    ):
        values = {label: y for label, _, _, _, _, y, *_ in panel.rows()}
        assert [*values] == [*widths, *others]
        assert values["2,048 neurons"] == pytest.approx(at_most_work, rel=1e-3)


def test_the_model_bends_where_its_floor_meets_its_rate() -> None:
    time, _ = found(on_cpu(), on_gpu()).figures["fig-curve"].drawing.panels
    (line,) = time.curves
    # From the least work of wide layers to the most (GFLOP, ms).
    assert line.x == pytest.approx([W[Size(128, 1_000)] / 1e9, 12, W[WIDEST] / 1e9], rel=1e-3)
    assert line.y == pytest.approx([0.6, 0.6, W[WIDEST] / 2e10], rel=1e-3)


def middle(cell: Any) -> float:
    """The number of a cell, with or without an interval."""
    return float(cell.value if isinstance(cell, Estimate) else cell)


def test_the_effect_of_a_change_is_predicted_from_rates_of_the_unchanged_baseline() -> None:
    found_rows = rows(full(), "tbl-changes")
    for row, (change, predicted) in zip(found_rows, PREDICTED.items(), strict=True):
        assert row["Change"] == change
        for name, effect in zip(("Source's size", "Wide"), predicted, strict=True):
            for kind in ("predicted", "measured"):
                off = OFF if kind == "measured" else 1
                assert middle(row[f"{name}: {kind}"]) == pytest.approx(off * effect, rel=2e-3)
        assert middle(row["One image: measured"]) == pytest.approx(OFF)
    for row in rows(found(on_cpu(), on_gpu()), "tbl-changes"):
        assert row["Wide: measured"].reason == "no machine has measured the changes"


def other() -> dict[str, dict[str, Findings]]:
    """Papers by a verdict that is not that of ``full``, and the claim that has it."""

    def on(**how: Any) -> Findings:
        return found(on_cpu(), on_gpu(**how))

    printed = findings(inputs_of(STUDY, source=papers.printing(STUDY, **MEGABYTES)))
    off = found(
        on_cpu(), on_gpu(), on_gpu(key="example-earlier"),
        on_changed(second=1.3, returned=1.3, double=1.3, fused=1.3),
    )  # fmt: skip
    return {
        "supported": {
            "same-speedup": on(cupy={SOURCE: gain(SOURCE) / 2.8}),
            "parameter-bytes": printed,
            "input-bytes": printed,
        },
        "refuted": {
            "small-slower": on(cupy={SMALL: gain(SMALL) / 0.97}),
            "large-faster": on(cupy={size: gain(size) / 1.03 for size in (LARGE, WIDEST)}),
            "gpu-faster": on(cupy={SOURCE: gain(SOURCE) / 1.03}),
            "baseline-matters": on(slower=other_cpu(WIDEST) / 1.03),
            "gap-grows-images": on(cupy={SOURCE: gain(SOURCE) / gain(SMALL) / 0.97}),
            "gap-grows-neurons": on(cupy={LARGE: gain(LARGE) / gain(SOURCE) / 0.97}),
            "alike": on(off=1.1e-3),
            "thread-as-predicted": off,
            "returned-as-predicted": off,
            "double-as-predicted": off,
            "fused-as-predicted": off,
            "calls-shield": off,
        },
    }


#: What 7,960 parameters and 60,000 images of 28² pixels take in single precision, in MB.
MEGABYTES = {"7.9": 4 * 7_960 / 1e6, "47.1": 4 * 784 * 60_000 / 1e6}


def test_each_claim_has_two_sides() -> None:
    papers.assert_both_sides(full(), other(), {"floor"})
    for how, claim, verdict in (
        ({"apart": 1.2, "processes": 2}, "floor", "undecided"),
        ({"apart": 1.8, "processes": 2}, "gap-grows-images", "undecided"),
        ({"processes": 1}, "floor", "not measured"),
        ({"libraries": ("numpy", "torch_cuda")}, "small-slower", "not measured"),
        ({"off": 0.9e-3}, "alike", "supported"),
        ({"cupy": {SMALL: gain(SMALL) / 0.83}}, "small-slower", "supported"),
        ({"cupy": {SOURCE: gain(SOURCE) / 1.2}}, "gpu-faster", "supported"),
    ):
        assert found(on_cpu(), on_gpu(**how)).claims[claim].verdict == verdict, how


def test_few_processes_bound_a_ratio_by_all_pairs() -> None:
    run = Run(factory.stored(on_gpu(apart=0.1, processes=2)), "here")
    apart = 1.05 / 0.95
    assert run.spread() == (pytest.approx(apart), 33)
    assert run.spread(libraries=["cupy"]) == (pytest.approx(apart), 11)
    found, middle = estimate(run.gain(SOURCE)), gain(SOURCE)
    assert isinstance(found, Estimate)
    bounds = found.low, found.value, found.high
    assert bounds == pytest.approx((middle / apart, middle, middle * apart), rel=0.01)
