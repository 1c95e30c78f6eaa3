"""The figures of conv_scaling, described; captions stand in its template, drawing in figures/."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from figures.canvas import Drawing
from figures.roofline import LEGEND_LINE, Marks, Roofline
from figures.scaling import Points, Scaling, alike
from report.paper.findings import Figure, Inputs
from report.paper.plots import band, every_other, points, theory_line
from report.paper.policies import compared
from report.paper.roofs import GIGA, cache_lines, marks, roof_line
from report.quantity.evaluation import estimate
from report.records.passes import PASS_NAMES, PASSES, Pass
from report.statistics.estimates import Estimate
from report.studies.conv_scaling import policies, theory
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.replication import repeated_runs, runs_figure
from report.studies.conv_scaling.run_values import ridge
from report.studies.conv_scaling.source import column, reported_batches
from report.theory.roofline import Roof

_X = "Batch size (images)"
#: The colour of what the source reports, in all figures; runs take the following ones.
_REPORTED = 1
#: The batch sizes that a roofline names.
_NAMED: Final = (1, 4, 1024)
#: How far the axes of the enlarged roofline go beyond its points and above its roof, as factors.
_BESIDE, _ABOVE = 1.12, 1.3


def all_figures(inputs: Inputs, run: Run | None, second: Run | None) -> Iterator[Figure]:
    """The figures that the data have; those of measured time only where a call was timed.

    ``second`` is a run of another processor, to be compared with the first.
    """
    both = [each for each in (run, second) if each is not None]
    yield _memory(inputs, run)
    if run is not None and run.timed:
        yield _rates(both)
    if run is not None and run.timed and run.cache_roofs() and not ridge(run).missing:
        yield _roofline(run)
    if run is not None and compared(run):
        yield from policies.figures(both)
    if again := repeated_runs(both):
        yield runs_figure(again)


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


def _roofline(run: Run) -> Figure:
    """The layer under the roof of memory and of each cache; beside it its batch sizes, enlarged."""
    peak, copy = (estimate(run.peak_rate(each)) for each in ("matrix_product", "copy"))
    assert isinstance(peak, Estimate) and isinstance(copy, Estimate), "only then it is drawn"
    drawn: tuple[Marks, ...] = ()
    for number, pass_ in enumerate(PASSES):
        over = {b: (theory.intensity(b, pass_), run.rate(b, pass_)) for b in run.timed}
        name = PASS_NAMES[pass_].capitalize()
        # Points of a batch size lie on top of each other, so that one name is enough.
        named = () if number else _NAMED
        drawn += marks(name, over, GIGA, series=number, hollow=number > 0, named=named)
    roof = roof_line(Roof(peak, copy), "", "measured", GIGA)
    ridge_mark = Marks("", (roof.ridge,), (roof.peak.middle,), series=2, names=("ridge",))
    unnamed = tuple(replace(each, label="", names=()) for each in drawn)
    axes = ("Arithmetic intensity (FLOP/B)", "Achieved rate (GFLOP/s)")
    whole = Roofline(
        *axes, (roof,), (*unnamed, ridge_mark), caches=cache_lines(run.cache_roofs(), GIGA)
    )
    x = [x for each in drawn for x in each.x]
    near = (min(x) / _BESIDE, max(x) * _BESIDE)
    low, high = whole.heights[0], roof.peak.high * _ABOVE
    # Room above the roof for the legend, a share of the axis for each of its lines.
    heights = (low, high * (high / low) ** (2 * LEGEND_LINE * len(drawn)))
    panels = (
        replace(whole, limits=(whole.span, heights)),
        Roofline(*axes, (roof,), drawn, limits=(near, heights)),
    )
    return Figure("fig-roofline", "", "", Drawing(panels, wide=True, height=2.2), (run.file,))
