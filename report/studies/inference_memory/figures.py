"""The figures of inference_memory, described; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure
from report.paper.plots import every_other, points, theory_line
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import off, reconciled, reduced
from report.studies.inference_memory.subject import (
    EXECUTION_NAMES,
    LAYOUT_NAMES,
    LAYOUTS,
    REDUCED,
    TILED,
    Call,
)
from report.studies.inference_memory.sweeps import (
    amp_precision,
    both_bases,
    pairs,
    plain,
    resnets,
    sweep,
    tiled_calls,
    with_amp,
    with_both,
    with_layout,
)
from report.studies.inference_memory.values import needed_saved
from report.theory.reconciliation import Reconciliation
from report.theory.workspaces import Layout

_X: Final = "Batch size (images)"


def all_figures(run: Run) -> Iterator[Figure]:
    """The figures of the run that the prose speaks of, where it measured what they show."""
    drawn = {
        "fig-agreement": _agreement(run),
        "fig-batch": _batches(run),
        "fig-precision": _precision(run),
        "fig-amp": _both(run),
        "fig-tiling": _tiles(run),
    }
    for id, drawing in drawn.items():
        if drawing is not None:
            yield Figure(id, "", "", drawing, (run.file,))


def _ticks(drawn: Iterable[Points]) -> tuple[float, ...]:
    return tuple(map(float, every_other(sorted({int(x) for each in drawn for x in each.x}))))


# -------------------------------------------------------------------------------------- memory


def _agreement(run: Run) -> Drawing | None:
    """What the prediction leaves of each measured peak, a row a network, a panel a precision."""
    found = {"float32": reconciled(run), amp_precision(run): reduced(run)}
    panels = tuple(_residuals(run, of, title) for title, of in found.items() if of)
    wide = len(panels) > 1
    return Drawing(panels, wide=wide, height=panels[0].height, same_axes=wide) if panels else None


def _residuals(run: Run, found: Mapping[Call, Reconciliation], title: str) -> Dots:
    """Every batch size of a network in its row."""

    def shares(network: str, layout: Layout) -> tuple[float, ...]:
        own = (t for c, t in found.items() if (c.network, c.layout) == (network, layout))
        return tuple(100 * each for this in own if isinstance(each := point(off(run, this)), float))

    names = run.networks(reconciled(run) or found)
    series = (
        DotSeries(
            LAYOUT_NAMES[layout], tuple(shares(n, layout) for n in names), index, hollow=index > 0
        )
        for index, layout in enumerate(LAYOUTS)
    )
    return Dots(
        names, tuple(series), "Measured minus predicted (% of measured)", reference=0.0, title=title
    )


# ---------------------------------------------------------------------------------- batch sizes


def _batches(run: Run) -> Drawing | None:
    """Peak memory and time of an image of the ResNets over the batch size."""
    names = resnets(run)
    if not names:
        return None

    def panel(label: str, get: Callable[[Call], Quantity], shown: str) -> Scaling:
        drawn = tuple(
            each
            for index, network in enumerate(names)
            for each in points(
                network,
                {call.batch: get(call) for call in sweep(run, network)},
                shown,
                series=index,
                joined=True,
            )
        )
        return Scaling(_X, label, drawn, x_ticks=_ticks(drawn), direct=True)

    panels = (
        panel("Peak memory (MB)", run.peak, "MB"),
        panel("Time of an image (ms)", run.image_time, "ms"),
    )
    return Drawing(panels, wide=True, height=2.6)


# ------------------------------------------------------------------------- precision and layout


def _precision(run: Run) -> Drawing | None:
    """The share of the peak that is saved over the batch size, measured and of what is needed."""
    if not pairs(run):
        return None
    drawn: list[Points] = []
    curves: list[Curve] = []
    for index, precision in enumerate(REDUCED):
        own = [(call, base) for call, base in pairs(run) if call.precision == precision]
        saved = {call.batch: run.saved(call, base) for call, base in own}
        drawn += points(precision, saved, "%", series=index, hollow=index > 0, joined=True)
        needed = {call.batch: 1 - run.needed(call) / run.needed(base) for call, base in own}
        if not curves and any(not each.missing for each in needed.values()):
            curves.append(theory_line("needed memory", needed, "%"))
    panel = Scaling(
        _X,
        "Peak memory saved (%)",
        tuple(drawn),
        tuple(curves),
        x_ticks=_ticks(drawn),
        y_scale="linear",
    )
    return Drawing((panel,), height=2.3)


def _both(run: Run) -> Drawing | None:
    """The share of memory saved by AMP, channels last and both, and by theory; a row a network."""
    bases = both_bases(run)
    if not bases:
        return None
    ways: Mapping[str, Callable[[Call], Quantity]] = {
        "AMP": lambda base: run.saved(with_amp(run, base), base),
        "channels last": lambda base: run.saved(with_layout(run, base), base),
        "both": lambda base: run.saved(with_both(run, base), base),
        "of needed memory": lambda base: needed_saved(run, base),
    }
    series = tuple(
        DotSeries(name, tuple(_drawn(get(b), 100) for b in bases), index, hollow=index > 2)
        for index, (name, get) in enumerate(ways.items())
    )
    panel = Dots(tuple(base.network for base in bases), series, "Peak memory saved (%)")
    return Drawing((panel,), height=panel.height + 0.4)


def _drawn(found: Quantity, factor: float = 1) -> float | None:
    number = point(found)
    return None if isinstance(number, Missing) else factor * number


# ----------------------------------------------------------------------------- tiles, settings


def _tiles(run: Run) -> Drawing | None:
    """Peak memory over the tile size, a line a form."""
    calls = tiled_calls(run)
    if not calls:
        return None
    tiles, whole = sorted({call.tile or 0 for call in calls}), run.peak(plain(calls[0]))
    drawn = tuple(
        each
        for index, form in enumerate(TILED)
        for each in points(
            EXECUTION_NAMES[form],
            {call.tile or 0: run.peak(call) for call in calls if call.execution == form},
            "MB",
            series=index,
            joined=True,
        )
    )
    panel = Scaling(
        "Tile (pixels)",
        "Peak memory (MB)",
        drawn,
        () if whole.missing else (theory_line("whole maps", dict.fromkeys(tiles, whole), "MB"),),
        x_ticks=_ticks(drawn),
        y_scale="linear",
        y_from_zero=True,
    )
    return Drawing((panel,), height=2.3)
