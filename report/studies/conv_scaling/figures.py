"""The figures of conv_scaling, described; captions stand in its template, drawing in figures/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from figures.canvas import Drawing
from figures.scaling import Points, Scaling, alike
from report.paper.findings import Figure, Inputs
from report.paper.plots import band, every_other, points, theory_line
from report.paper.policies import compared
from report.records.passes import Pass
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.source import column, reported_batches

_X = "Batch size (images)"
#: The colour of what the source reports, in all figures; runs take the following ones.
_REPORTED = 1


def all_figures(inputs: Inputs, run: Run | None, second: Run | None) -> Iterator[Figure]:
    """The figures that the data have; those of measured time only where a call was timed.

    ``second`` is a run of another processor, to be compared with the first.
    """
    both = [each for each in (run, second) if each is not None]
    yield _memory(inputs, run)
    if run is not None and run.timed:
        yield _rates(both)
    if run is not None and compared(run):
        yield from policies.figures(both)


def _memory(inputs: Inputs, run: Run | None) -> Figure:
    """Memory over the batch size: the source's rule and bytes, what a call retains, its peak."""
    own = run.batches if run is not None else ()
    batches = sorted({*own, *reported_batches(inputs)})
    allocated = column(inputs, "IV", "allocated_memory", "B")
    drawn = points("Source, allocated", allocated, "MB", series=_REPORTED, hollow=True)
    if run is not None:
        drawn += points("Retained", run.over(run.retained), "MB", series=0)
        drawn += points("Peak", run.over(run.peak), "MB", series=0, hollow=True)
    rule = {batch: theory.memory(batch) for batch in batches}
    curves = (theory_line("Parameters + output", rule, "MB"),)
    panel = Scaling(_X, "Memory (MB)", drawn, curves, x_ticks=every_other(batches))
    files = (inputs.reported_file, *((run.file,) if run is not None else ()))
    return Figure("fig-memory", "", "", Drawing((panel,), height=2.1), files)


def _rates(runs: Sequence[Run]) -> Figure:
    """Rates over the batch size under the ceiling, run by run."""
    several = len(runs) > 1
    panels = [replace(_rate_panel(run), title=run.label if several else "") for run in runs]
    drawing = Drawing(alike(panels), wide=several, height=2.0)
    return Figure("fig-rate", "", "", drawing, tuple(run.file for run in runs))


def _rate_panel(run: Run) -> Scaling:
    """Rates over the batch size under the ceiling, by layout and pass, with memory kept."""
    drawn: tuple[Points, ...] = ()
    for number, (name, (seen, pass_)) in enumerate(_ways(run).items()):
        over = {batch: seen.rate(batch, pass_) for batch in seen.batches}
        known = {batch: rate for batch, rate in over.items() if not rate.missing}
        drawn += points(name, known, "GFLOP/s", series=number, hollow=number == 2, joined=True)
    return Scaling(
        _X,
        "Achieved rate (GFLOP/s)",
        drawn,
        bands=band("Ceiling", run.peak_rate("matrix_product"), "GFLOP/s", len(drawn)),
        x_ticks=every_other(run.batches),
        y_scale="linear",
        y_from_zero=True,
        direct=True,
    )


def _ways(run: Run) -> dict[str, tuple[Run, Pass]]:
    """The forward call in each layout that was measured, and the call with its backward pass."""
    found: dict[str, tuple[Run, Pass]] = {
        "NCHW": (run, "forward"),
        "NHWC": (run.in_layout("channels_last"), "forward"),
        "With backward": (run, "forward_backward"),
    }
    return {name: way for name, way in found.items() if way[0].batches}
