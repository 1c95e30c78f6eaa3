"""The figures of conv_profiling, described; captions stand in its template, drawing in figures/."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.scaling import Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.images import sample
from report.paper.plots import every_other, points, theory_line
from report.paper.policies import by_policy, compared
from report.paper.reconciliations import as_figure
from report.quantity.expression import exact, recorded
from report.studies.conv_profiling import profiled, theory, training
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.profiled import Traced
from report.studies.conv_profiling.reconciled import changed, reported_estimate
from report.studies.conv_profiling.source import CONVOLUTION, operator_bytes, value
from report.theory.reconciliation import Reconciliation

_X = "Batch size (images)"
#: The colour of what the source reports, in all figures; runs take the others.
_REPORTED = 1
_PLANNED = tuple(2**n for n in range(10))


def all_figures(
    inputs: Inputs,
    chosen: tuple[Run | None, Run | None, Run | None],
    traced: tuple[Traced | None, Traced | None],
    shapes: Mapping[str, Reconciliation],
) -> Iterator[Figure]:
    """The figures that the data have; see ``tables.all_tables`` for what is chosen."""
    primary, learner, gpu = chosen
    yield _estimate(inputs)
    yield _memory(inputs, primary)
    if primary is not None:
        yield from _shapes("fig-changed", changed(primary), primary)
    if gpu is not None:
        yield from _shapes("fig-tiled", _of_largest_batch(shapes), gpu)
    if primary is not None and compared(primary):
        drawing = by_policy(primary, every_other(primary.timed))
        yield Figure("fig-policies", "", "", drawing, (primary.file,))
    yield from (profiled.timeline(one) for one in traced if one is not None)
    if learner is not None:
        yield from (made for made in (sample(inputs, learner), training.course(learner)) if made)


def _shapes(id: str, told: Mapping[str, Reconciliation], run: Run) -> Iterator[Figure]:
    """Executed over theoretical work of every shape, counted and as the terms say it should be."""
    counted = tuple(
        None if isinstance(r.measured, Missing) else _share(r.measured.amount, r)
        for r in told.values()
    )
    if not told:
        return
    explained = tuple(_share(r.end, r) for r in told.values())
    drawn = Dots(
        tuple(told),
        (
            DotSeries("Theory with named terms", explained, series=_REPORTED, hollow=True),
            DotSeries("Counted", counted, series=0),
        ),
        "Multiply-adds executed ÷ theory",
        reference=1.0,
    )
    yield Figure(id, "", "", Drawing((drawn,), wide=True, height=drawn.height), (run.file,))


def _of_largest_batch(told: Mapping[str, Reconciliation]) -> dict[str, Reconciliation]:
    """The cases of the largest batch alone; a case's name ends with its batch size."""
    batches = {name: int(name.rpartition(", ")[2]) for name in told}
    return {name: r for name, r in told.items() if batches[name] == max(batches.values())}


def _share(amount: int, told: Reconciliation) -> float:
    return amount / told.start.amount


def _memory(inputs: Inputs, run: Run | None) -> Figure:
    """Memory over the batch size: both rules of estimation, what a run measured, the source."""
    batches = (run.batches() if run else ()) or _PLANNED
    batch = value(inputs.reported, "profiled_batch")
    size = operator_bytes(inputs.reported, CONVOLUTION, "allocation_size")
    source = {batch: exact("allocation size", "B", size, inputs.reported_file)}
    drawn: tuple[Points, ...] = points("Source", source, "MB", series=_REPORTED, hollow=True)
    if run is not None:
        held = {b: recorded("retained bytes", "B", run.held(b), run.file) for b in run.batches()}
        peaks = {b: recorded("peak bytes", "B", run.peak(b), run.file) for b in run.batches()}
        drawn += points("Retained", held, "MB", series=0)
        drawn += points("Peak", peaks, "MB", series=0, hollow=True)
    curves = (
        theory_line(
            "Parameters for every image", {b: theory.for_every_image(b) for b in batches}, "MB"
        ),
        theory_line("Parameters once", {b: theory.once(b) for b in batches}, "MB", part=True),
    )
    panel = Scaling(_X, "Memory (MB)", drawn, curves, x_ticks=every_other(batches))
    files = (inputs.reported_file, *((run.file,) if run is not None else ()))
    return Figure("fig-memory", "", "", Drawing((panel,), wide=True, height=2.8), files)


def _estimate(inputs: Inputs) -> Figure:
    """From the source's estimate of memory to its measurement."""
    drawn = as_figure(reported_estimate(inputs))
    drawing = Drawing((drawn,), height=drawn.height)
    return Figure("fig-estimate", "", "", drawing, (inputs.reported_file,))
