"""The figures of backend_speedup; captions stand in its template."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.core.missing import Missing
from report.paper.plots import points
from report.quantity.evaluation import point
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import Source
from report.studies.backend_speedup.subject import SHARED, SMALL, SOURCE

_TICKS: Final = (0.1, 1.0, 10.0, 100.0)
#: Series of both libraries of a GPU, whose colours do not depend on what was measured.
_SERIES: Final = {"cupy": ("CuPy", 0), "torch_cuda": ("PyTorch", 1)}


def curve(both: tuple[Run, Source]) -> Iterator[Scaling]:
    """Draw the speed-up over NumPy's time (ms), and lines of slope one through the smallest size.

    Hollow points are those of the earlier session.
    """
    run, source = both
    lines: list[Points] = []
    curves: list[Curve] = []
    for timed, (library, (name, series)) in product((run, *run.sessions[:1]), _SERIES.items()):
        hollow = timed is not run
        over = {}
        for size in timed.sizes:
            time = point(timed.time(size, "numpy") * 1e6)
            if not isinstance(time, Missing):
                over[round(time)] = timed.gain_in(library, size)
        for marks in points(f"{name}, earlier" if hollow else name, over, "1", series=series):
            x = tuple(microseconds / 1e3 for microseconds in marks.x)
            lines.append(replace(marks, x=x, hollow=hollow))
            if not hollow:
                constant, ends = x[0] / marks.y[0], (x[0], max(x))
                title = f"NumPy's time ÷ {constant:.2f} ms"
                rise = ends[0] / constant, ends[1] / constant
                curves.append(Curve(title, ends, rise, part=bool(series)))
    if lines:
        at, gain = (float(source.cell("3", "time", side).number) for side in ("cpu", "speedup"))
        lines.append(Points("The source", (at,), (gain,), series=4, hollow=True))
        axes = "NumPy's time of an iteration (ms)", "Speed-up over NumPy"
        yield Scaling(*axes, tuple(lines), tuple(curves), x_ticks=_TICKS)


def pace(run: Run) -> Iterator[Scaling]:
    """Draw the time of an iteration over the images, and that of its products below (ms)."""
    sizes = [size for size in run.sizes if size.hidden == SOURCE.hidden]
    lines: list[Points] = []
    for name, (label, series) in _SERIES.items():
        for kind, get in (("iteration", run.time), ("products", run.products_time)):
            times = {size.images: get(size, name) for size in sizes}
            for marks in points(f"{label}, {kind}", times, "ms", series=series, joined=True):
                lines.append(replace(marks, hollow=kind == "products"))
    idle, start = (point(time * 1e3) for time in (run.idle_time(), run.time(SMALL, "cupy")))
    if isinstance(idle, Missing) or isinstance(start, Missing):
        return
    images = float(SMALL.images)
    least = Curve("Least idle time of CuPy", (images, images), (start - idle, start))
    idle_label = f"{idle:.2f} ms idle", images * 1.1, start - idle / 2
    # A tick of the second smallest size would lie on that of the smallest.
    ticks = tuple(float(size.images) for size in sizes if size != SHARED)
    axes = "Images (logarithmic scale)", "Time (ms)"
    panel = Scaling(*axes, tuple(lines), (least,), x_ticks=ticks, regions=(idle_label,))
    yield replace(panel, y_scale="linear", y_from_zero=True)
