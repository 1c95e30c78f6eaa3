"""The figures of backend_speedup; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.core.missing import Missing
from report.paper.plots import points
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.studies.backend_speedup import theory
from report.studies.backend_speedup.results import ON_GPU
from report.studies.backend_speedup.runs import Run
from report.studies.backend_speedup.source import Source
from report.studies.backend_speedup.subject import CALLS, KAGGLE, SOURCE, Size

_WORK: Final = "Work of an iteration (GFLOP)"
_TICKS: Final = (0.1, 1.0, 10.0, 100.0)
_CALLS: Final = sum(CALLS.values())
#: Series of both libraries of a GPU, whose colours do not depend on what was measured.
_SERIES: Final = {"cupy": ("CuPy", 0), "torch_cuda": ("PyTorch", 1)}


def region_map(both: tuple[Run, Source]) -> Iterator[Scaling]:
    """Work and traffic of a call between three limits, and what an iteration took."""
    run, source = both
    costs = {name: point(run.call_cost(name)) for name in ON_GPU}
    known = {name: cost for name, cost in costs.items() if isinstance(cost, float)}
    if run.limits and known:
        yield _calls(run, known, *run.limits)
        yield _times(run, source)


def _mean_call(calls: Iterable[theory.OperatorCall]) -> tuple[float, float]:
    """Return the mean work (GFLOP) and traffic (MB) of the calls of an iteration."""
    work, traffic = 0.0, 0.0
    for call in calls:
        work += call.work
        traffic += call.bytes
    return work / _CALLS / 1e9, traffic / _CALLS / 1e6


def _calls(run: Run, costs: dict[str, float], rate: float, bandwidth: float) -> Scaling:
    """Draw a call of each size on the map of work and traffic (GFLOP, MB)."""
    drawn = []
    for place, width in enumerate(sorted({size.hidden for size in run.sizes})):
        own = sorted(size for size in run.sizes if size.hidden == width)
        sums = [theory.calls(size) for size in own]
        x, y = zip(*map(_mean_call, sums), strict=True)
        drawn.append(Points(f"{width:,} neurons", x, y, series=place, joined=True))
    their = theory.calls(SOURCE)
    work, moved = _mean_call(their)
    drawn.append(Points("The source", (work,), (moved,), series=4, hollow=True))
    curves = []
    for name, cost in costs.items():
        corner = (cost * rate / 1e9, cost * bandwidth / 1e6)
        label = f"A call of {_SERIES[name][0]}"
        limit = Curve(label, (5e-4, corner[0], corner[0]), (corner[1], corner[1], 0.1))
        curves.append(replace(limit, part=name != "cupy"))
    first = min(cost * rate / 1e9 for cost in costs.values())
    ridge = (first, 20.0)
    curves.append(Curve("Ridge", ridge, tuple(x * 1e3 * bandwidth / rate for x in ridge)))
    return Scaling(
        "Work of a call (GFLOP)",
        "Traffic of a call (MB)",
        tuple(drawn),
        tuple(curves),
        x_ticks=(0.001, 0.01, 0.1, 1.0, 10.0),
        regions=(
            ("host-bound", 7e-4, 20.0),
            ("bandwidth-bound", 7e-4, 250.0),
            ("compute-", 1.6, 0.6),
            ("bound", 1.6, 0.3),
        ),
    )


def _times(run: Run, source: Source) -> Scaling:
    """Draw the time of an iteration over the shortest time by measured rates (ms)."""
    drawn: list[Points] = []
    for name, (label, series) in _SERIES.items():
        for session in (run, *run.sessions):
            pairs = []
            for size in run.sizes:
                shortest = theory.shortest_time(size, *(run.limits or (1.0, 1.0)))
                for time in session.medians("time", size, name):
                    pairs.append((1e3 * shortest, 1e3 * time))
            if pairs:
                x, y = zip(*pairs, strict=True)
                other = "" if session is run else ", earlier"
                hollow = session is not run
                drawn.append(Points(label + other, x, y, series=series, hollow=hollow))
    limit, printed = point(run.shortest_time(SOURCE)), source.cell("3", "time", "gpu").value
    if not isinstance(limit, Missing):
        drawn.append(Points("The source", (1e3 * limit,), (float(printed),), series=4, hollow=True))
    return Scaling(
        "Shortest time by measured rates (ms)",
        "Time of an iteration (ms)",
        tuple(drawn),
        (Curve("GPU alone", (0.01, 3.0), (0.01, 3.0)),),
        x_ticks=(0.01, 0.1, 1.0),
        regions=(("the host's pace", 3e-3, 0.12), ("the GPU's pace", 0.15, 0.03)),
    )


def curve(both: tuple[Run, Source]) -> Iterator[Scaling]:
    """Speed-up over the work of an iteration: of CuPy by width, and of PyTorch at all sizes."""
    run, source = both
    if not {"cupy", "numpy"} <= {*run.libraries}:
        return
    drawn: list[Points] = []
    for place, width in enumerate(sorted({size.hidden for size in run.sizes})):
        own = [size for size in run.sizes if size.hidden == width]
        drawn += _over(own, run.gain, f"CuPy, {width:,} neurons", place)
    torch = [*_over(run.sizes, lambda s: run.speedup(s, "torch_cuda"), "PyTorch", 5)]
    drawn += [replace(p, low=(), high=(), joined=False, hollow=True) for p in torch]
    printed = float(source.cell("3", "time", "speedup").number)
    images = tuple(size.megaflop / 1e3 for size in (KAGGLE, SOURCE))
    theirs = Points("The source", images, (printed,) * 2, series=4, hollow=True, joined=True)
    ends = tuple(size.megaflop / 1e3 for size in (run.sizes[0], run.sizes[-1]))
    parity = Curve("Parity", ends, (1.0, 1.0))
    yield Scaling(_WORK, "Speed-up over NumPy", (*drawn, theirs), (parity,), x_ticks=_TICKS)


def _over(
    sizes: Sequence[Size], get: Callable[[Size], Quantity], name: str, series: int
) -> Iterator[Points]:
    """Draw a quantity at the sizes over their work (GFLOP)."""
    over = {size.megaflop: get(size) for size in sizes}
    for marks in points(name, over, "1", series=series, joined=True):
        yield replace(marks, x=tuple(x / 1e3 for x in marks.x))
