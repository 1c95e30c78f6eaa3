"""Figures of backend_speedup; its template contains their captions."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from statistics import median
from typing import Final

from figures.panels import Curve, Dots, Points, Scaling
from report.paper.plots import dot_series, points
from report.quantity.expression import Quantity
from report.studies.backend_speedup import results, subject
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.subject import ON_GPU, SMALL, SOURCE

#: Lines of the figures, whose colours do not depend on what was measured.
_LINES: Final = {
    "numpy": Points("NumPy", (), (), series=2),
    "cupy": Points("CuPy", (), (), series=0),
    "torch_cuda": Points("PyTorch", (), (), series=1),
}


def curve(run: Run) -> Iterator[Scaling]:
    """Draw the time of an iteration (ms) over its work."""
    works = [2e-9 * size.multiply_adds for size in run.sizes]
    lines: list[Points] = []
    for library, line in _LINES.items():
        marks = []
        for work, size in zip(works, run.sizes, strict=True):
            if times := run.medians("time", size, library):
                marks.append((work, 1e3 * median(times), 1e3 * min(times), 1e3 * max(times)))
        if not marks:
            continue
        x, y, low, high = zip(*marks, strict=True)
        lines.append(replace(line, x=x, y=y, low=low, high=high))
    if lines:
        axes = "Work of an iteration (GFLOP)", "Time (ms)"
        yield Scaling(*axes, tuple(lines), x_ticks=(0.1, 1.0, 10.0, 100.0), direct=True)


def calls(run: Run) -> Iterator[Scaling]:
    """Draw PyTorch's time with other numbers of calls over the unchanged iteration's."""
    lines: list[Points] = []
    for size in (subject.ONE_IMAGE, SMALL, SOURCE):
        ratios = {n: results.effect_of_calls(run, size, n) for n in subject.OTHER_CALLS}
        name = f"{size.images:,} images" if size != subject.ONE_IMAGE else "one image"
        lines += points(name, ratios, "1", series=len(lines))
    shares = tuple(calls / subject.ALL_CALLS for calls in subject.OTHER_CALLS)
    curve = Curve("calls of equal cost", subject.OTHER_CALLS, shares)
    axes = "Library calls of an iteration", "Time over that with 31 calls"
    yield Scaling(*axes, tuple(lines), (curve,), x_ticks=subject.OTHER_CALLS, direct=True,
                  legend=False)  # fmt: skip


def both_times(rows: Mapping[str, tuple[Quantity, Quantity, Quantity]]) -> Iterator[Dots]:
    """Draw NumPy's time and the GPU's (ms) in each row, and beside them their ratio."""
    names, (slow, fast, ratios) = tuple(rows), zip(*rows.values(), strict=True)
    times = dot_series("NumPy", slow, "ms", series=2), dot_series("GPU", fast, "ms")
    yield Dots(names, times, "Time of an iteration (ms)", log=True)
    ratio = (dot_series("", ratios, "1", series=3),)
    yield Dots(names, ratio, "Speed-up", log=True, named=False, legend=False)


def operations(run: Run) -> Iterator[Dots]:
    """Draw the time (µs) of each kind of operation at the least work and at the source's size."""
    rows = {f"{name} ({calls})": part for part, (name, calls) in subject.PARTS.items()}
    rows |= {f"Iteration ({subject.ALL_CALLS})": "time", "Tiny addition (1)": "call_time"}
    series = []
    for number, (library, label) in enumerate(ON_GPU.items()):
        for size, hollow in ((SMALL, True), (SOURCE, False)):
            times = [run.measured(quantity, size, library) for quantity in rows.values()]
            name, shift = f"{label}, {size.images:,} images", 0.3 * number - 0.15
            series.append(dot_series(name, times, "µs", series=number, hollow=hollow, shift=shift))
    yield Dots(tuple(rows), tuple(series), "Time (µs)", log=True)
