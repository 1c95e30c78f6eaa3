"""backend_speedup on made-up records whose times are closed forms of work and calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import msgspec
import pytest

from report.core.records.editions import Role
from report.core.records.record import Case, Ceiling, Level, Record
from report.core.statistics.estimates import Estimate
from report.paper.findings import Findings, Inputs
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
#: The work of an iteration (FLOP).
W = {size: 2 * size.images * (1568 * size.hidden + 30 * size.hidden) for size in SIZES}
#: Of each library: what an iteration costs at least (s), the rate of its work (FLOP/s), a call (s).
LIBRARIES: Mapping[str, tuple[float, float, float]] = {
    "numpy": (2e-5, 2e11, 4e-7),
    "cupy": (6e-4, 2e13, 1.5e-5),
    "torch_cuda": (4e-4, 1.6e13, 1.1e-5),
}
#: The share of an iteration that each kind of operation takes, of NumPy and on a GPU.
SHARES = {
    "forward": (0.4, 0.45), "backward": (0.5, 0.52), "matrix_product": (0.7, 0.6),
    "bias": (0.09, 0.1), "relu": (0.01, 0.025), "softmax": (0.1, 0.11), "gradient": (0.15, 0.18),
    "update": (0.05, 0.09),
}  # fmt: skip
#: How many times the rate of an iteration a product alone reaches.
ALONE = {"numpy": 1.2, "cupy": 1.5, "torch_cuda": 1.4}
#: How much slower NumPy and CuPy are in the earlier session, and NumPy in the later one.
EARLIER, EARLIER_CUPY, LATER = 1.5, 2.3, 1.7
#: How much slower still CuPy's ReLU is in the earlier session.
EARLIER_RELU = 15.0
#: How much slower still NumPy's update is there.
EARLIER_UPDATE = 1.3
#: Time of copying the images of a training (s).
COPY = 5e-4
#: How much slower a GPU is with much work than at the rate of the most.
SLOWER = {"cupy": 1.25, "torch_cuda": 1.15}
#: How much longer than the floor a GPU takes at two sizes.
LONGER = {("cupy", SOURCE): 1.05, ("torch_cuda", SOURCE): 1.12}
#: Time of a GPU's products for each image, beyond their work (s).
PACE = 5.2e-9
#: Bytes of components at the source's size, a few less in NumPy, and the host memory around them.
MEMORY = {
    "allocated_parameters": 33_000, "allocated_input": 190_000_000,
    "allocated_activations": 9_600_000, "allocated_gradients": 34_000,
    "allocated_peak": 209_000_000, "resident_start": 30_000_000,
    "resident_first_use": 437_000_000,
}  # fmt: skip
#: How much slower NumPy is where memory is mapped anew.
FAULTS = {SOURCE: 2_100, LARGE: 3_856, WIDEST: 9_120}
MAPPING = {LARGE: 1.3, WIDEST: 1.6, Size(2_048, 1_438): 2.2}
#: The step between processes of a library, which is half as large again for parts.
APART = {"numpy": 0.02, "cupy": 0.01, "torch_cuda": 0.015}
#: Measured rates of the GPU.
PEAK, BANDWIDTH = 5e13, 3e12
#: A GPU that has a data sheet.
GPU = msgspec.structs.replace(factory.GPU, model="NVIDIA H100 80GB HBM3")


def time_of(library: str, size: Size) -> float:
    """On a GPU calls hide the work, on a CPU they add to it."""
    least, rate, _ = LIBRARIES[library]
    work = 2 * size.images * (2 * 784 * size.hidden + 30 * size.hidden) / rate
    if library == "numpy":
        return least + work * MAPPING.get(size, 1)
    slower = SLOWER[library] if size == LARGE else 1.0
    longer = 1.1 if size == SHARED else LONGER.get((library, size), 1.0)
    return max(least * longer, work * slower)


def products_of(library: str, size: Size, pace: float = PACE) -> float:
    """Time of a GPU's products, each waited for, equal in all processes."""
    return 2e-4 + pace * size.images + 0.6 * W[size] / LIBRARIES[library][1]


def other_cpu(size: Size) -> float:
    """How much slower NumPy is on the other CPU."""
    return 3.1 + size.hidden / 1024


def timed(
    library: str, size: Size, slower: float, step: float, pace: float = PACE
) -> dict[str, Sequence[float]]:
    """What a process measures of a size; its times are longer by ``step``, its parts by more."""
    whole, (_, rate, call) = time_of(library, size), LIBRARIES[library]
    alone = 2 * 784 * size.hidden * size.images / rate / ALONE[library]
    found = {"time": whole, "call_time": call, "product_alone_time": alone}
    centres = {name: (1 + step) * time for name, time in found.items()}
    for kind, shares in SHARES.items():
        centres[f"{kind}_time"] = (1 + 1.5 * step) * shares[library != "numpy"] * whole
    if library != "numpy":
        centres["matrix_product_time"] = products_of(library, size, pace)
    faults = {"page_faults": [FAULTS.get(size, 0) if library == "numpy" else 0] * 3}
    times = {name: factory.scattered(slower * each, 1e-4) for name, each in centres.items()}
    return {**times, **faults}


def case(
    library: str, size: Size, rounds: Iterable[Any] = (), subject: str = "scaling",
    dtype: str = "float32", **series: Any,
) -> Case:  # fmt: skip
    factors: dict[str, Level] = {
        "subject": subject, "dataset": "digits", "dtype": dtype, "backend": library,
        "hidden": size.hidden, "samples": size.images,
    }  # fmt: skip
    made = {"series": factory.measured(series), "rounds": tuple(rounds)}
    return Case(factors=factors, status="ok", reason=None, layers=(), **made)


def scaling(
    library: str, processes: int, apart: float, slower: Callable[[Size], float],
    pace: float = PACE, memory: bool = False,
) -> Iterable[Case]:  # fmt: skip
    """Every size by processes that are ``apart``; of an odd number, later ones twice as far."""
    steps = {k: apart * (k - (1 + processes) / 2) for k in range(1, processes + 1)}
    if processes % 2:
        steps = {k: step * (2 if step > 0 else 1) for k, step in steps.items()}
    for size in SIZES:
        made = ((k, timed(library, size, slower(size), step, pace)) for k, step in steps.items())
        held: dict[str, Any] = {}
        if memory and size == SOURCE:
            held = {n: [b - 1_000 * (library == "numpy")] * 2 for n, b in MEMORY.items()}
        yield case(library, size, (factory.round_(*each) for each in made), **held)


def training(library: str, off: float = 0.0, more: int = 0) -> Case:
    """Losses that are ``off`` by a share, and accuracies with ``more`` of a thousand images."""
    losses = [2.3 * 0.9**k * (1 + off) for k in range(31)]
    right = [(20 * k + 100 + more) / 1_000 for k in range(31)]
    series = {
        "train_loss": losses,
        "test_loss": [1.1 * loss for loss in losses],
        "train_accuracy": right,
        "test_accuracy": [0.95 * share for share in right],
        "to_device_time": [COPY] * 3,
    }
    return case(library, SHARED, subject="training", **series)


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
    more: int = 0,
    pace: float = PACE,
    memory: bool = False,
) -> Record:
    """A GPU and its host; ``slower`` is NumPy's factor, ``cupy`` CuPy's at some sizes."""

    def slow(library: str, size: Size) -> float:
        if library == "cupy":
            return cupy.get(size, 1)
        return slower if library == "numpy" else 1

    made = [
        case
        for library in libraries
        for case in scaling(
            library, processes, apart or APART[library], partial(slow, library), pace, memory
        )
    ]
    made += [training("numpy"), training("cupy", off, more)]
    machine = factory.environment(key, gpu=GPU, threads=12)
    peaks = factory.ceilings(PEAK, BANDWIDTH)
    return factory.record(made, machine, peaks, study=STUDY, started="2026-11-03T10:00:00Z")


def earlier(
    numpy: float = EARLIER, cupy: float = EARLIER_CUPY, relu: float = EARLIER_RELU
) -> Record:
    """An earlier session, slower by more in CuPy than in NumPy and not in PyTorch."""
    slow = dict.fromkeys(SIZES, cupy)
    record = on_gpu(slower=numpy, cupy=slow, key="example-earlier", memory=True)
    slower = {"cupy": ("relu_time", relu), "numpy": ("update_time", EARLIER_UPDATE)}
    for case in record.cases:
        name, factor = slower.get(str(case.factors["backend"]), ("time", 1.0))
        for each in case.rounds:
            each.series[name] = tuple(factor * float(time) for time in each.series[name])
    return record


def later() -> Record:
    """A later session, which timed NumPy alone."""
    return on_gpu(slower=LATER, libraries=("numpy",), key="example-later")


def on_changed(**off: float) -> Record:
    """The changes on a CPU; ``off`` is how much slower than predicted one is, by first word."""
    cases = []
    for place, (size, times) in enumerate(UNCHANGED.items()):
        for change in (changes.NONE, *changes.CHANGES):
            slower = PREDICTED[change][place - 1] if place and change != changes.NONE else 1.0
            if change != changes.NONE:
                slower *= off.get(change.split()[0], OFF)
            whole = {"time": slower * times["time"]} if change != changes.NONE else dict(times)
            if place:
                whole["product_alone_time"] = PRODUCT[change][place - 1]
            made = []
            for process in range(1, 10):
                step = process - 5
                drift = 1 + 0.01 * step
                if change != changes.NONE:
                    drift *= 1 + 0.001 * step * (2 if step > 0 else 1)
                series = {n: factory.scattered(drift * t, 1e-4) for n, t in whole.items()}
                if place and change == changes.RETURNED:
                    series["page_faults"] = [COUNTED[place - 1]] * 3
                made.append(factory.round_(process, series))
            dtype = "float64" if change == changes.DOUBLE else "float32"
            cases.append(case("numpy", size, made, "change", dtype))
            cases[-1].factors["change"] = change
    price = Ceiling("page_mapping", "before", "uint8", "16384 pages", 16_384, "1", (
        *factory.scattered(16_384 * PAGE_PRICE),
    ))  # fmt: skip
    machine = factory.environment("example-changed-2t", threads=2)
    return factory.record(cases, machine, (price,), study=STUDY, started="2026-11-04T10:00:00Z")


def on(*records: Record) -> Inputs:
    """Inputs with a CPU, a GPU, two other sessions on it, and changes, as far as they are."""
    names: tuple[Role, ...] = ("cpu", "gpu", "third", "fourth", "second")
    roles = {role: factory.stored(each).file for role, each in zip(names, records, strict=False)}
    return replace(inputs_of(STUDY, *records), roles=roles)


@cache
def full() -> Findings:
    return findings(on(on_cpu(), on_gpu(), earlier(), later(), on_changed()))


def gain(size: Size, library: str = "cupy") -> float:
    return time_of("numpy", size) / time_of(library, size)


#: Times (s) of the unchanged baseline on one image and at both sizes with work.
UNCHANGED: Mapping[Size, Mapping[str, float]] = {
    Size(10, 1): {
        "time": 6e-5, "matrix_product_time": 2e-5, "bias_time": 1e-6, "relu_time": 2e-6,
    },
    SOURCE: {
        "time": 6e-2, "matrix_product_time": 5e-2, "bias_time": 2e-3, "relu_time": 1e-3,
    },
    Size(512, 1_438): {
        "time": 3e-2, "matrix_product_time": 2e-2, "bias_time": 1e-3, "relu_time": 5e-4,
    },
}  # fmt: skip
PAGE_PRICE = 2.5e-6
#: Times (s) of the first product alone by change, and pages that returned memory needs.
PRODUCT: Mapping[str, tuple[float, float]] = {
    changes.NONE: (1.3e-2, 1.1e-2), changes.THREAD: (0.57 * 1.3e-2, 0.53 * 1.1e-2),
    changes.RETURNED: (1.4e-2, 1.2e-2), changes.DOUBLE: (1.45 * 1.3e-2, 1.93 * 1.1e-2),
    changes.FUSED: (1.3e-2, 1.1e-2),
}  # fmt: skip
COUNTED = 6_800, 5_450
#: How much slower than predicted an iteration with a change is.
OFF = 1.02
#: What each change makes of a time, by hand; pages were counted on a machine (6,711 and 5,352).
PREDICTED: Mapping[str, tuple[float, float]] = {
    changes.THREAD: (1 - (5e-2 - 2e-5) / 2 / 6e-2, 1 - (2e-2 - 2e-5) / 2 / 3e-2),
    changes.RETURNED: (1 + 6_711 * PAGE_PRICE / 6e-2, 1 + 5_352 * PAGE_PRICE / 3e-2),
    changes.DOUBLE: (2 - 6e-5 / 6e-2, 2 - 6e-5 / 3e-2),
    changes.FUSED: (
        1 - ((2e-3 - 1e-6) / 2 + 1e-3 - 2e-6) / 2 / 6e-2,
        1 - ((1e-3 - 1e-6) * 512 / 522 + 5e-4 - 2e-6) / 2 / 3e-2,
    ),
}  # fmt: skip


#: The largest ratios of two processes, and of two speed-ups of a session.
SPREAD, SPREAD_CUPY = LATER * 1.04 / 0.98, EARLIER_CUPY * 1.02 / 0.99
GAINS = (0.98 / 1.02, 1.04 / 0.99)
#: CuPy's speed-up in the earlier session over that in ours.
DAY = EARLIER * 1 / EARLIER_CUPY


#: What products take of an iteration at the source's size.
PRODUCTS, PRODUCTS_TORCH = (products_of(name, SOURCE) for name in ("cupy", "torch_cuda"))


def two(number: float) -> float:
    """Rounded to two digits."""
    return float(f"{number:.1e}")


VALUES: Mapping[str, float] = {
    # The source and theory.
    "source_speedup": 2.8, "audited": 21, "differing": 4, "hidden": 10, "parameters": 7_960,
    "weights": 7_940, "calls": 31, "source_work": 1.9e9, "source_held": 158.6 / 12.5,
    "other_calls": 26, "wider_neurons": 4_096,
    "kaggle_work": 1.3e9, "source_products": 42.3e-3, "source_total": 42.3,
    "source_slower": 30.2e-3 / time_of("cupy", SOURCE),
    "source_cpu_slower": 84.6e-3 / time_of("numpy", SOURCE),
    "byte_input": 47e6,
    # The GPU and its host.
    "small": gain(SMALL), "at_source": gain(SOURCE), "large": gain(LARGE), "widest": gain(WIDEST),
    "here": gain(SOURCE), "here_torch": gain(SOURCE, "torch_cuda"), "there": DAY * gain(SOURCE),
    "there_torch": EARLIER * gain(SOURCE, "torch_cuda"),
    "between_libraries": 6.3e-4 / 4.48e-4, "over_earlier": DAY, "over_earlier_torch": EARLIER,
    "update_longer": EARLIER_CUPY, "update_longer_torch": 1,
    "update_longer_host": EARLIER * EARLIER_UPDATE,
    "relu_share": 0.025 * (EARLIER_CUPY * EARLIER_RELU - 1) / (EARLIER_CUPY - 1),
    "busy": (PRODUCTS - products_of("cupy", SMALL)) / 6.3e-4,
    "busy_torch": (PRODUCTS_TORCH - products_of("torch_cuda", SMALL)) / 4.48e-4,
    "busy_most": (PRODUCTS - 5 * 1.5e-5) / 6.3e-4,
    "busy_most_torch": (PRODUCTS_TORCH - 5 * 1.1e-5) / 4.48e-4,
    "copied": COPY * 60_000 / 1_438, "copied_double": 2 * COPY * 60_000 / 1_438,
    "less_wide": gain(Size(512, 1_438)), "shared_images": 1_438,
    "floor": 6e-4, "floor_torch": 4e-4, "time_cupy": 6.3e-4,
    "flat_growth": W[Size(2_048, 1_438)] / W[SMALL],
    "flat_sizes": 9, "sizes": len(SIZES),
    "products_growth": products_of("cupy", SOURCE) - products_of("cupy", SMALL),
    "growth": 0.05 * 6e-4, "growth_torch": 0.12 * 4e-4,
    "idle": (products_of("cupy", SOURCE) - products_of("cupy", SMALL)) / 6e-4 - 0.05,
    "idle_torch": (products_of("torch_cuda", SOURCE) - products_of("torch_cuda", SMALL)) / 4e-4
    - 0.12,
    "without_faults": 80, "faults": 3_900, "earlier_faults": 2_100,
    "iterations": 30, "threads": 12,
    "spread": SPREAD, "spread_gpu": SPREAD_CUPY,
    "spread_of_gains": GAINS[1] / GAINS[0] / DAY,
    "longer_on_cpu": time_of("numpy", SOURCE) / time_of("numpy", Size(512, 1_438)),
    "small_over_cpu": other_cpu(SMALL) * gain(SMALL),
    "train_accuracy": 0.7, "test_accuracy": 0.95 * 0.7,
    # The other CPU and the other sessions.
    "measurements": 9 * 12, "disturbed": 4, "double": 2.6,
    "least_shift": other_cpu(SMALL), "most_shift": other_cpu(WIDEST),
    "earlier_shift": other_cpu(SOURCE) / EARLIER, "later_shift": other_cpu(WIDEST) / LATER,
    "earlier_least": 0.99 * EARLIER_CUPY * 6.3e-4,
    "earlier_most": 1.02 * EARLIER_CUPY * 6.3e-4,
    "relu_here": 1.03 * 0.025 * 6.3e-4,
    "earlier_relu": 0.985 * EARLIER_CUPY * EARLIER_RELU * 0.025 * 6.3e-4,
    "host_time": time_of("numpy", SOURCE), "earlier_host": EARLIER * time_of("numpy", SOURCE),
    "time_torch": time_of("torch_cuda", SOURCE),
    "thread_source": OFF * PREDICTED[changes.THREAD][0],
    "thread_wide": OFF * PREDICTED[changes.THREAD][1],
    "effect_returned": OFF * PREDICTED[changes.RETURNED][0],
    "effect_double": OFF * PREDICTED[changes.DOUBLE][0],
    "predicted_double": PREDICTED[changes.DOUBLE][0],
    "rate_source": 2 * 10 * 784 * 60_000 / 1.3e-2, "rate_wide": 2 * 512 * 784 * 1_438 / 1.1e-2,
    "product_thread_source": 0.57, "product_double_source": 1.45, "product_double_wide": 1.93,
    "pages_source": 6_800, "pages_wide": 5_450,
    "pool": 209e6, "parameters_on_gpu": 33e3, "later_widest": LATER * time_of("numpy", WIDEST),
}  # fmt: skip


def test_values_and_verdicts_of_full_records_are_those_of_closed_forms() -> None:
    papers.assert_values(full(), VALUES, rel=6e-3)
    for name, effect in zip(("source", "wide"), PREDICTED[changes.RETURNED], strict=True):
        ratio = (OFF * effect - 1) / (effect - 1)
        papers.assert_values(full(), {f"added_{name}": ratio}, rel=3e-2)
    papers.assert_values(full(), {"floor_error": 0.1}, abs=1e-3)


def test_both_figures_of_the_pace_show_products_beside_iterations() -> None:
    (pace,) = full().figures["fig-pace"].drawing.panels
    assert pace.x_ticks == (1_000, 16_000, 60_000)
    last = {points.label: (points.y[-1], points.hollow) for points in pace.points}
    assert last == {
        "CuPy, iteration": (pytest.approx(0.63), False),
        "CuPy, products": (pytest.approx(1e3 * (PRODUCTS - 5 * 1.5e-5)), True),
        "PyTorch, iteration": (pytest.approx(0.448), False),
        "PyTorch, products": (pytest.approx(1e3 * (PRODUCTS_TORCH - 5 * 1.1e-5)), True),
    }
    (busy,) = full().figures["fig-busy"].drawing.panels
    ours, _, printed = busy.points
    assert (1e3 * (PRODUCTS - 5 * 1.5e-5), 0.63) in [
        pytest.approx(pair) for pair in zip(ours.x, ours.y, strict=True)
    ]
    assert (printed.x, printed.y) == ((6.7,), (30.2,))


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
                assert middle(row[f"{name}: {kind}"]) == pytest.approx(off * effect, rel=4e-3)
        assert middle(row["One image: measured"]) == pytest.approx(OFF)


def gpu_alone(**how: Any) -> Inputs:
    """Inputs with a CPU and one session of a GPU."""
    return on(on_cpu(), on_gpu(**how))


def other() -> dict[str, dict[str, Inputs]]:
    """Inputs by a verdict that is not that of ``full``, and the claim that has it."""
    printed = inputs_of(STUDY, source=papers.printing(STUDY, **MEGABYTES))
    slow = on_changed(second=1.3, returned=1.3, double=1.3, fused=1.3)
    off = on(on_cpu(), on_gpu(), earlier(), later(), slow)
    return {
        "supported": {
            "same-speedup": gpu_alone(apart=1e-3, cupy={SOURCE: gain(SOURCE) / 2.8}),
            "parameter-bytes": printed,
            "input-bytes": printed,
        },
        "refuted": {
            "host-sets-pace": gpu_alone(pace=0),
            "nearly-busy": gpu_alone(pace=0),
            "library-matters": gpu_alone(cupy={SOURCE: 0.7}),
            "session-matters": on(on_cpu(), on_gpu(), earlier(numpy=0.8)),
            "session-matters-in-cupy": on(on_cpu(), on_gpu(), earlier(cupy=1.2)),
            "relu-slows": on(on_cpu(), on_gpu(), earlier(relu=5)),
            "small-slower": gpu_alone(cupy={SMALL: gain(SMALL) / 1.05}),
            "large-faster": gpu_alone(cupy={size: gain(size) / 0.95 for size in (LARGE, WIDEST)}),
            "gpu-faster": gpu_alone(cupy={SOURCE: gain(SOURCE) / 0.95}),
            "baseline-matters": gpu_alone(slower=other_cpu(WIDEST) / 1.03),
            "gap-grows-images": gpu_alone(cupy={SOURCE: gain(SOURCE) / gain(SMALL) / 0.85}),
            "gap-grows-neurons": gpu_alone(cupy={LARGE: gain(LARGE) / gain(SOURCE) / 0.85}),
            "same-accuracy": gpu_alone(more=1),
            "alike": gpu_alone(off=1.1e-3),
            "thread-as-predicted": off,
            "returned-as-predicted": off,
            "double-as-predicted": off,
            "fused-is-small": off,
            "calls-shield": off,
        },
    }


#: What 7,960 parameters and 60,000 images of 28² pixels take in single precision, in MB.
MEGABYTES = {"7.9": 4 * 7_960 / 1e6, "47.1": 4 * 784 * 60_000 / 1e6}


def test_each_claim_has_two_sides() -> None:
    papers.assert_both_sides(STUDY, full(), other(), {"floor"})
    for how, claim, verdict in (
        ({"apart": 1.2, "processes": 2}, "floor", "undecided"),
        ({"apart": 1.8, "processes": 2}, "gap-grows-images", "undecided"),
        ({"processes": 1}, "floor", "undecided"),
        ({"libraries": ("numpy", "torch_cuda")}, "small-slower", "not measured"),
        ({"off": 0.9e-3}, "alike", "supported"),
        ({"cupy": {SMALL: gain(SMALL) / 0.8}}, "small-slower", "supported"),
        ({"cupy": {SOURCE: gain(SOURCE) / 1.25}}, "gpu-faster", "supported"),
    ):
        assert papers.verdicts(STUDY, gpu_alone(**how), claim) == {claim: verdict}, how


def test_an_allowance_spans_the_pairs_of_all_sessions() -> None:
    label = {"label": "here"}
    other = Run(factory.stored(earlier()), **label)
    run = Run(factory.stored(on_gpu()), **label, sessions=(other,))
    spread = run.spread(libraries=["cupy"])
    assert spread == (pytest.approx(SPREAD_CUPY), len(SIZES))
    allowed = estimate(run.gain(SOURCE))
    assert isinstance(allowed, Estimate)
    bounds = allowed.low, allowed.value, allowed.high
    least, most = (gain(SOURCE) * share for share in GAINS)
    assert bounds == pytest.approx((DAY * least, gain(SOURCE), most), rel=1e-3)
    # Alone, a session allows for the scatter of its own processes.
    alone = Run(factory.stored(on_gpu()), **label)
    own = estimate(alone.gain(SOURCE))
    assert isinstance(own, Estimate)
    factor = (1.04 / 0.985) / (0.98 / 1.03)
    assert own.high / own.value == pytest.approx(factor, rel=1e-3)
