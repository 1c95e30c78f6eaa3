"""The figures of backend_speedup; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.paper.plots import points
from report.quantity.expression import Quantity
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import Source
from report.studies.backend_speedup.subject import KAGGLE, LARGE, SOURCE, Size

_WORK: Final = "Work of an iteration (GFLOP)"
_TICKS: Final = (0.1, 1.0, 10.0, 100.0)
_OVER: Final = "Speed-up over NumPy"


def curve(both: tuple[Run, Source]) -> Iterator[Scaling]:
    """Time of an iteration, and CuPy's speed-up, over the work of an iteration."""
    run, source = both
    if not {"cupy", "numpy"} <= {*run.libraries}:
        return
    slow = _by_width(run.sizes, lambda s: run.bounded(run.time(s, "numpy")), "ms")
    fast = _over(run.sizes, lambda s: run.bounded(run.time(s, "cupy")), "CuPy", "ms", 6)
    yield Scaling(_WORK, "Time of an iteration (ms)", (*slow, *fast), _model(run), x_ticks=_TICKS)
    drawn = _by_width(run.sizes, run.gain, "1")
    printed = float(source.cell("3", "time", "speedup").number)
    images = tuple(size.megaflop / 1e3 for size in (KAGGLE, SOURCE))
    theirs = Points("Source", images, (printed,) * 2, series=0, hollow=True, joined=True)
    ends = tuple(size.megaflop / 1e3 for size in (run.sizes[0], run.sizes[-1]))
    parity = Curve("Parity", ends, (1.0, 1.0))
    yield Scaling(_WORK, _OVER, (*drawn, theirs), (parity,), x_ticks=_TICKS)


def _model(run: Run) -> tuple[Curve, ...]:
    """CuPy's modeled time of wide layers, with the corner where the floor meets the rate."""
    works = [2 * size.multiply_adds for size in run.sizes if size.hidden >= LARGE.hidden]
    if run.model is None or not works:
        return ()
    floor, rate = run.model
    x = sorted({works[0], floor * rate, works[-1]})
    y = tuple(1e3 * max(floor, work / rate) for work in x)
    return (Curve("Model", tuple(work / 1e9 for work in x), y),)


def _over(
    sizes: Sequence[Size], get: Callable[[Size], Quantity], name: str, unit: str, series: int,
    *, joined: bool = False,
) -> Iterator[Points]:  # fmt: skip
    """Draw a quantity at the sizes over their work (GFLOP)."""
    drawn = points(name, {s.megaflop: get(s) for s in sizes}, unit, series=series, joined=joined)
    for marks in drawn:
        yield replace(marks, x=tuple(x / 1e3 for x in marks.x))


def _by_width(
    sizes: Sequence[Size], get: Callable[[Size], Quantity], unit: str
) -> tuple[Points, ...]:
    """A line over the number of images for each width."""
    drawn: list[Points] = []
    for place, width in enumerate(sorted({size.hidden for size in sizes})):
        own = [size for size in sizes if size.hidden == width]
        drawn += _over(own, get, f"{width:,} neurons", unit, place, joined=True)
    return tuple(drawn)
