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

#: Lines of the figures, whose colours do not depend on what was measured.
_LINES: Final = {
    "numpy": Points("NumPy", (), (), style_number=2),
    "cupy": Points("CuPy", (), (), style_number=0),
    "torch_cuda": Points("PyTorch", (), (), style_number=1),
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
    yield Dots(names, series, "Time with a change over that without", reference=1.0, log=True,
               x_ticks=(0.5, 1.0, 2.0))  # fmt: skip


def both_times(rows: Mapping[str, tuple[Quantity, Quantity, Quantity]]) -> Iterator[Dots]:
    """Draw NumPy's time and the GPU's (ms) in each row, and beside them their ratio."""
    names, (slow, fast, ratios) = tuple(rows), zip(*rows.values(), strict=True)
    times = dot_series("NumPy", slow, "ms", style_number=2), dot_series("GPU", fast, "ms")
    yield Dots(names, times, "Time of an iteration (ms)", log=True)
    ratio = (dot_series("", ratios, "1", style_number=3),)
    yield Dots(names, ratio, "Speed-up", log=True, show_names=False, legend=False)
