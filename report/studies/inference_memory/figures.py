"""The figures of inference_memory, described; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure
from report.paper.plots import every_other, points, theory_line
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, exact
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import off, other_reduced, reconciled, reduced
from report.studies.inference_memory.subject import (
    EXECUTION_NAMES,
    REDUCED,
    TILED,
    Call,
)
from report.studies.inference_memory.sweeps import (
    amp_precision,
    both_bases,
    other_precision,
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

_X: Final = "Batch size (images)"
#: From the smallest peak to the largest, far enough from each other for their names.
_SHOWN: Final = ("LeNet-5", "ResNet-110", "AlexNet", "VGG-16")


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
    """Predicted and measured peaks over the batch size, and what the prediction leaves of them."""
    found = reconciled(run)
    if not found:
        return None
    return Drawing((_peaks(run, found), _residuals(run, found)), wide=True, height=2.8)


def _peaks(run: Run, found: Mapping[Call, Reconciliation]) -> Scaling:
    """Networks from the smallest to the largest in the contiguous layout: lines are predicted."""
    names = [name for name in _SHOWN if name in run.networks(found)]
    calls = {n: [c for c in found if (c.network, c.layout) == (n, "contiguous")] for n in names}
    drawn = tuple(
        each
        for index, name in enumerate(names)
        for each in points(
            name, {call.batch: run.peak(call) for call in calls[name]}, "MB", series=index
        )
    )
    lines = tuple(
        theory_line("predicted", {c.batch: _predicted(run, found[c]) for c in calls[name]}, "MB")
        for name in names
        if calls[name]
    )
    unnamed = tuple(replace(line, label="") for line in lines[1:])
    return Scaling(
        _X, "Peak memory (MB)", drawn, lines[:1] + unnamed, x_ticks=_ticks(drawn), direct=True
    )


def _predicted(run: Run, this: Reconciliation) -> Quantity:
    return exact("predicted peak", "B", this.end, run.file)


def _residuals(run: Run, found: Mapping[Call, Reconciliation]) -> Scaling:
    """Measured minus predicted peak of all networks and layouts over the batch size."""
    in_precision = {
        "float32": found,
        amp_precision(run): reduced(run),
        other_precision(run): other_reduced(run),
    }
    drawn = tuple(
        Points(
            name,
            tuple(float(call.batch) for call in each),
            tuple(
                100 * share for this in each.values() if (share := _share(run, this)) is not None
            ),
            series=index,
            hollow=index == 0,
        )
        for index, (name, each) in enumerate(in_precision.items())
        if each
    )
    label = "Measured minus predicted (%)"
    return Scaling(_X, label, drawn, x_ticks=_ticks(drawn), y_scale="linear")


def _share(run: Run, this: Reconciliation) -> float | None:
    return _drawn(off(run, this))


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
