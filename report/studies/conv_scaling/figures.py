"""The figures of conv_scaling, described; captions stand in its template, drawing in figures/."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from figures.canvas import Drawing
from figures.scaling import Band, Curve, Points, Scaling
from report.evidence.events import Explanation
from report.paper.findings import Figure, Inputs
from report.paper.plots import band, line, points, theory_line
from report.paper.reconciliations import as_figure
from report.quantity.fits import intercept, slope
from report.records.passes import PASS_NAMES, PASSES, Pass
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.reconciled import events, reported_work
from report.studies.conv_scaling.source import column, reported_batches
from report.studies.conv_scaling.subject import SHOWN_BATCH, every_other
from report.studies.conv_scaling.values import excess
from report.theory.reconciliation import Reconciliation

#: Draws all runs in one kind of call.
Panel: TypeAlias = Callable[[Sequence[Run], Pass], Scaling]
_X = "Batch size (images)"
#: The colour of what the source reports, in all figures; runs take the following ones.
_REPORTED = 1


def all_figures(inputs: Inputs, runs: Sequence[Run], run: Run | None) -> Iterator[Figure]:
    """The figures that the data have; those of measured time only where a call was timed."""
    yield _work(inputs)
    yield _memory(inputs, runs)
    if any(measured.timed for measured in runs):
        yield _by_pass("fig-time", runs, _time_panel)
        yield _by_pass("fig-rate", runs, _rate_panel)
    if run is not None and policies.compared(run):
        yield from policies.figures(run)
    work = reported_work(inputs)
    shown = work.get(SHOWN_BATCH, next(iter(work.values())))
    yield _waterfall("fig-explained-work", shown, inputs.reported_file)
    told = events(run, SHOWN_BATCH) if run is not None else None
    if isinstance(told, Explanation) and run is not None:
        yield _waterfall("fig-explained-peak", told.peak.compact, run.file)


def _series(index: int) -> int:
    """The colour of a run: the first, then those after the source's."""
    return 0 if index == 0 else index + _REPORTED


def _work(inputs: Inputs) -> Figure:
    """Work over the batch size: theory as a line, the source's counters as points."""
    batches = reported_batches(inputs)
    counted = column(inputs, "III", "total_flops", "FLOP")
    above = {batch: each / theory.work(batch) for batch, each in excess(inputs).items()}
    expected = {batch: theory.work(batch) for batch in batches}
    left = Scaling(
        _X,
        "Work of a call (GFLOP)",
        points("Counted, reported", counted, "GFLOP", series=_REPORTED, hollow=True),
        (theory_line("Theory", expected, "GFLOP"),),
        x_ticks=batches,
    )
    right = Scaling(
        _X,
        "Reported above theory (%)",
        points("Reported", above, "%", series=_REPORTED, hollow=True),
        x_ticks=batches,
        y_scale="linear",
        y_from_zero=True,
    )
    return Figure("fig-work", "", "", Drawing((left, right), wide=True), (inputs.reported_file,))


def _memory(inputs: Inputs, runs: Sequence[Run]) -> Figure:
    """Memory over the batch size: theory's two lines, what runs retained, peaks, the source."""
    batches = sorted({b for run in runs for b in run.batches} | set(reported_batches(inputs)))
    allocated = column(inputs, "IV", "allocated_memory", "B")
    drawn = points("Allocated, reported", allocated, "MB", series=_REPORTED, hollow=True)
    for index, run in enumerate(runs):
        colour = _series(index)
        drawn += points(f"Held, {run.label}", run.over(run.retained), "MB", series=colour)
        drawn += points(f"Peak, {run.label}", run.over(run.peak), "MB", series=colour, hollow=True)
    whole = {batch: theory.memory(batch) for batch in batches}
    output = {batch: theory.output_bytes(batch) for batch in batches}
    curves = (
        theory_line("Theory, parameters + output", whole, "MB"),
        theory_line("Theory, output", output, "MB", part=True),
    )
    panel = Scaling(_X, "Memory (MB)", drawn, curves, x_ticks=every_other(batches))
    files = (inputs.reported_file, *(run.file for run in runs))
    return Figure("fig-memory", "", "", Drawing((panel,), height=2.7), files)


def _by_pass(id_: str, runs: Sequence[Run], panel: Panel) -> Figure:
    drawing = Drawing(tuple(panel(runs, pass_) for pass_ in PASSES), wide=True, height=2.5)
    return Figure(id_, "", "", drawing, tuple(run.file for run in runs))


def _time_panel(runs: Sequence[Run], pass_: Pass) -> Scaling:
    drawn: tuple[Points, ...] = ()
    curves: tuple[Curve, ...] = ()
    for index, run in enumerate(runs):
        times = {batch: run.time(batch, pass_) for batch in run.batches}
        known = points(run.label, times, "ms", series=_series(index))
        levels = [int(x) for each in known for x in each.x]
        start, rise = intercept(times, "s", relative=True), slope(times, "s", relative=True)
        curves += line(f"Fit, {run.label}", levels, start, rise, "ms", _series(index))
        drawn += known
    ticks = every_other(sorted({x for each in drawn for x in each.x}))
    title = PASS_NAMES[pass_].capitalize()
    return Scaling(_X, "Time of a call (ms)", drawn, curves, x_ticks=ticks, title=title)


def _rate_panel(runs: Sequence[Run], pass_: Pass) -> Scaling:
    drawn: tuple[Points, ...] = ()
    bands: tuple[Band, ...] = ()
    for index, run in enumerate(runs):
        rates = {batch: run.rate(batch, pass_) for batch in run.batches}
        known = points(run.label, rates, "GFLOP/s", series=_series(index), joined=True)
        ceiling = run.peak_rate("matrix_product")
        if known:
            bands += band(f"Ceiling, {run.label}", ceiling, "GFLOP/s", _series(index))
        drawn += known
    # Beside a GPU a processor would lie on the axis.
    together = len({run.on_gpu for run in runs}) > 1
    return Scaling(
        _X,
        "Achieved rate (GFLOP/s)",
        drawn,
        bands=bands,
        x_ticks=every_other(sorted({x for each in drawn for x in each.x})),
        y_scale="log" if together else "linear",
        y_from_zero=not together,
        title=PASS_NAMES[pass_].capitalize(),
    )


def _waterfall(id_: str, reconciliation: Reconciliation, source: str) -> Figure:
    figure = as_figure(reconciliation)
    return Figure(id_, "", "", Drawing((figure,), height=figure.height), (source,))
