"""The figures of backend_speedup; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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


def curve(both: tuple[Run, Source]) -> Iterator[Scaling]:
    """Time of an iteration, and CuPy's speed-up, over the work of an iteration."""
    run, source = both
    if not {"cupy", "numpy"} <= {*run.libraries}:
        return
    slow = _by_width(run.sizes, lambda s: run.bounded(run.time(s, "numpy")), "ms")
    fast = _over(run.sizes, lambda s: run.bounded(run.time(s, "cupy")), "CuPy", "ms", 5)
    x = tuple(size.megaflop / 1e3 for size in run.sizes)
    y = tuple(1e3 * run.modeled(size) for size in run.sizes)
    lines = (Curve("Model", x, y),) if all(y) else ()
    yield Scaling(_WORK, "Time of an iteration (ms)", (*slow, *fast), lines, x_ticks=_TICKS)
    drawn = _by_width(run.sizes, run.gain, "1")
    printed = float(source.cell("3", "time", "speedup").number)
    theirs = Points("Source", (SOURCE.megaflop / 1e3,), (printed,), series=7, hollow=True)
    parity = Curve("", (x[0], x[-1]), (1.0, 1.0))
    yield Scaling(_WORK, _OVER, (*drawn, theirs), (parity,), x_ticks=_TICKS)


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


def bases(both: tuple[Run, Run]) -> Iterator[Dots]:
    """CuPy's speed-up over NumPy on the GPU's host and on another CPU, a row a size."""
    cpu, gpu = both
    sizes = [size for size in gpu.sizes if size in cpu.sizes]
    found = [gpu.gain(size) for size in sizes], [gpu.gain_over(cpu, size) for size in sizes]
    series = []
    for place, (run, gains) in enumerate(zip((gpu, cpu), found, strict=True)):
        machine = run.stored.record.environment
        name = f"NumPy, {machine.cpu.model}{machine.threads_text}"
        series.append(dot_series(name, gains, "1", series=place))
    names = tuple(f"{size.hidden:,} × {size.images:,}" for size in sizes)
    yield Dots(names, tuple(series), "Speed-up of CuPy", reference=1.0, log=True)
