"""The figures of backend_speedup; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from figures.panels import Curve, Dots, Points, Scaling
from report.paper.plots import dot_series, points
from report.quantity.expression import Quantity
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import Source
from report.studies.backend_speedup.subject import SOURCE, Size

_WORK: Final = "Work of an iteration (GFLOP)"
_TICKS: Final = (0.1, 1.0, 10.0, 100.0)
_OVER: Final = "Speed-up over NumPy"


def curve(run: Run, source: Source, model: Callable[[Size], float]) -> Iterator[Scaling]:
    """Time of an iteration, and CuPy's speed-up, over the work of an iteration."""
    if not {"cupy", "numpy"} <= {*run.libraries}:
        return
    slow = _by_width(run.sizes, lambda s: run.bounded(run.time(s, "numpy")), "ms")
    fast = _over(run.sizes, lambda s: run.bounded(run.time(s, "cupy")), "CuPy", "ms", 5)
    x = tuple(size.megaflop / 1e3 for size in run.sizes)
    y = tuple(1e3 * model(size) for size in run.sizes)
    lines = (Curve("Model", x, y),) if all(y) else ()
    yield Scaling(_WORK, "Time of an iteration (ms)", (*slow, *fast), lines, x_ticks=_TICKS)
    drawn = _by_width(run.sizes, lambda s: run.bounded(run.speedup(s, "cupy")), "1")
    printed = float(source.cell("3", "time", "speedup").number)
    theirs = Points("Source", (SOURCE.megaflop / 1e3,), (printed,), series=7, hollow=True)
    yield Scaling(_WORK, _OVER, (*drawn, theirs), (_parity(run.sizes),), x_ticks=_TICKS)


def _over(
    sizes: Sequence[Size], get: Callable[[Size], Quantity], name: str, unit: str, series: int,
    *, joined: bool = False,
) -> Iterator[Points]:  # fmt: skip
    """What was measured at the sizes over their work (GFLOP)."""
    found = points(name, {s.megaflop: get(s) for s in sizes}, unit, series=series, joined=joined)
    for each in found:
        yield replace(each, x=tuple(x / 1e3 for x in each.x))


def _by_width(
    sizes: Sequence[Size], get: Callable[[Size], Quantity], unit: str
) -> tuple[Points, ...]:
    """A line over the number of images for each width."""
    return tuple(
        each
        for place, width in enumerate(sorted({size.hidden for size in sizes}))
        for each in _over(
            [size for size in sizes if size.hidden == width], get, f"{width:,} neurons", unit,
            place, joined=True,
        )
    )  # fmt: skip


def _parity(sizes: Sequence[Size]) -> Curve:
    ends = [sizes[0].megaflop / 1e3, sizes[-1].megaflop / 1e3]
    return Curve("", tuple(ends), (1.0, 1.0))


def bases(found: Mapping[str, Mapping[Size, Quantity]]) -> Dots:
    """CuPy's speed-up at each size over several baselines, by their names."""
    sizes = list(next(iter(found.values())))
    names = tuple(f"{size.hidden:,} × {size.images:,}" for size in sizes)
    series = (
        dot_series(name, [over[size] for size in sizes], "1", series=place)
        for place, (name, over) in enumerate(found.items())
    )
    return Dots(names, tuple(series), "Speed-up of CuPy", reference=1.0, log=True)
