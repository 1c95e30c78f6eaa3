"""The figures of backend_speedup; captions stand in its template."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.paper.plots import points
from report.quantity.expression import Quantity
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import Source
from report.studies.backend_speedup.subject import KAGGLE, SHARED, SOURCE, Size

_WORK: Final = "Work of an iteration (GFLOP)"
_TICKS: Final = (0.1, 1.0, 10.0, 100.0)
#: Series of both libraries of a GPU, whose colours do not depend on what was measured.
_SERIES: Final = {"cupy": ("CuPy", 0), "torch_cuda": ("PyTorch", 1)}


def pace(run: Run) -> Iterator[Scaling]:
    """Draw the time of an iteration over the images, and that of its products below (ms)."""
    sizes = [size for size in run.sizes if size.hidden == SOURCE.hidden]
    lines: list[Points] = []
    for name, (label, series) in _SERIES.items():
        for kind, get in (("iteration", run.time), ("products", run.products_time)):
            times = {size.images: get(size, name) for size in sizes}
            for marks in points(f"{label}, {kind}", times, "ms", series=series, joined=True):
                lines.append(replace(marks, hollow=kind == "products"))
    if lines:
        # A tick of the second smallest size would lie on that of the smallest.
        ticks = tuple(float(size.images) for size in sizes if size != SHARED)
        axes = "Images", "Time (ms)"
        yield Scaling(*axes, tuple(lines), x_ticks=ticks, y_scale="linear", y_from_zero=True)


def curve(both: tuple[Run, Source]) -> Iterator[Scaling]:
    """Speed-up over the work of an iteration: of CuPy by width, and of PyTorch at all sizes."""
    run, source = both
    if not run.all_gains(SOURCE, "cupy"):
        return
    lines: list[Points] = []
    for place, width in enumerate(sorted({size.hidden for size in run.sizes})):
        same_width = [size for size in run.sizes if size.hidden == width]
        lines += _over(same_width, run.gain, f"CuPy, {width:,} neurons", place)
    torch = [*_over(run.sizes, partial(run.gain, library="torch_cuda"), "PyTorch", 5)]
    lines += [replace(p, low=(), high=(), joined=False, hollow=True) for p in torch]
    printed = float(source.cell("3", "time", "speedup").number)
    work = tuple(size.megaflop / 1e3 for size in (KAGGLE, SOURCE))
    source_points = Points("The source", work, (printed,) * 2, series=4, hollow=True, joined=True)
    ends = tuple(size.megaflop / 1e3 for size in (run.sizes[0], run.sizes[-1]))
    parity = Curve("Parity", ends, (1.0, 1.0))
    yield Scaling(_WORK, "Speed-up over NumPy", (*lines, source_points), (parity,), x_ticks=_TICKS)


def _over(
    sizes: Sequence[Size], get: Callable[[Size], Quantity], name: str, series: int
) -> Iterator[Points]:
    """Draw a quantity at the sizes over their work (GFLOP)."""
    over = {size.megaflop: get(size) for size in sizes}
    for marks in points(name, over, "1", series=series, joined=True):
        yield replace(marks, x=tuple(x / 1e3 for x in marks.x))
