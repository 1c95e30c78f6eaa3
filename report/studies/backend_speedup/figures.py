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

#: Library → its name and colour in figures, as a series that has no points yet.
_EMPTY_SERIES: Final = {
    "numpy": Points("NumPy", (), (), style_number=2),
    "cupy": Points("CuPy", (), (), style_number=0),
    "torch_cuda": Points("PyTorch", (), (), style_number=1),
}


def curve(run: Run) -> Iterator[Scaling]:
    """Draw each library's time (ms) per iteration, with its range over processes, by GFLOP."""
    drawn: list[Points] = []
    for library, empty_series in _EMPTY_SERIES.items():
        points = []
        for size in run.sizes:
            if times := run.medians("time", size, library):
                gflop = 2e-9 * size.multiply_adds  # a multiply-add is 2 FLOP
                points.append((gflop, 1e3 * median(times), 1e3 * min(times), 1e3 * max(times)))
        if points:
            x, y, low, high = zip(*points, strict=True)
            drawn.append(replace(empty_series, x=x, y=y, low=low, high=high))
    if drawn:
        axes = "Work of an iteration (GFLOP)", "Time (ms)"
        yield Scaling(*axes, tuple(drawn), x_ticks=(0.1, 1.0, 10.0, 100.0), names_at_ends=True)


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
    """Draw a panel of times (ms) and a panel of speed-ups, each with the rows of ``rows``.

    ``rows`` maps the name of a row to NumPy's time, the GPU's time, and the GPU's speed-up.
    """
    names, (numpy_times, gpu_times, speedups) = tuple(rows), zip(*rows.values(), strict=True)
    numpy_series = dot_series("NumPy", numpy_times, "ms", style_number=2)
    time_series = numpy_series, dot_series("GPU", gpu_times, "ms")
    yield Dots(names, time_series, "Time of an iteration (ms)", log=True)
    speedup_series = (dot_series("", speedups, "1", style_number=3),)
    yield Dots(names, speedup_series, "Speed-up", log=True, show_names=False, legend=False)
