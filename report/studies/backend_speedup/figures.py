"""Figures of backend_speedup; its template contains their captions."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from statistics import median
from typing import Final

from figures.panels import Dots, Points, Scaling
from report.paper.plots import dot_series
from report.quantity.expression import Quantity
from report.studies.backend_speedup import results, subject
from report.studies.backend_speedup.runs import Run

#: Library → line without points, with the library's name and number of its colour.
_LINES: Final = {
    "numpy": Points("NumPy", (), (), style_number=2),
    "cupy": Points("CuPy", (), (), style_number=0),
    "torch_cuda": Points("PyTorch", (), (), style_number=1),
}


def curve(run: Run) -> Iterator[Scaling]:
    """Draw each library's time (ms) of an iteration, with its range, over the work (GFLOP)."""
    lines: list[Points] = []
    for library, line in _LINES.items():
        points = []
        for size in run.sizes:
            if times := run.medians("time", size, library):
                gflop = 2e-9 * size.multiply_adds
                points.append((gflop, 1e3 * median(times), 1e3 * min(times), 1e3 * max(times)))
        if points:
            x, y, low, high = zip(*points, strict=True)
            lines.append(replace(line, x=x, y=y, low=low, high=high))
    if lines:
        axes = "Work of an iteration (GFLOP)", "Time (ms)"
        yield Scaling(*axes, tuple(lines), x_ticks=(0.1, 1.0, 10.0, 100.0), names_at_ends=True)


def effects(run: Run) -> Iterator[Dots]:
    """Draw the predicted and the measured effect of each change on NumPy's time."""
    cases = tuple(product(subject.NETWORKS.items(), subject.CHANGES))
    predicted = [results.predicted_effect(run, size, change) for (_, size), change in cases]
    measured = [results.effect(run, size, change) for (_, size), change in cases]
    series = (
        dot_series("predicted", predicted, "1", hollow=True, shift=-0.15),
        dot_series("measured", measured, "1", style_number=2, shift=0.15),
    )
    names = tuple(f"{change}, {network}" for (network, _), change in cases)
    axis = "Time with a change over that without"
    yield Dots(names, series, axis, reference=1.0, log=True, x_ticks=(0.5, 1.0, 2.0))


def times_and_ratios(rows: Mapping[str, tuple[Quantity, Quantity, Quantity]]) -> Iterator[Dots]:
    """Draw rows (name → NumPy's time, the GPU's time, their ratio): times (ms) beside ratios."""
    names, (numpy_times, gpu_times, ratios) = tuple(rows), zip(*rows.values(), strict=True)
    numpy_series = dot_series("NumPy", numpy_times, "ms", style_number=2)
    both_series = numpy_series, dot_series("GPU", gpu_times, "ms")
    yield Dots(names, both_series, "Time of an iteration (ms)", log=True)
    ratio_series = (dot_series("", ratios, "1", style_number=3),)
    yield Dots(names, ratio_series, "Speed-up", log=True, show_names=False, legend=False)
