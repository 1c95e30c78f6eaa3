"""The figures of conv_scaling, described; ``figures/`` draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from figures.canvas import Drawing
from figures.scaling import Band, Curve, Points, Scaling
from report.evidence.runs import known
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.records.passes import PASS_NAMES, PASSES, Pass
from report.statistics.estimates import Estimate
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.source import numbers, reported_batches
from report.studies.conv_scaling.subject import footprint, operations

GIGA, MEGA, MILLI = 1e9, 1e6, 1e-3
_X = "Batch size (images)"
#: The colour of what the source reports, in all figures; runs take the following ones.
_REPORTED_SERIES = 1


def _series(index: int) -> int:
    """The colour of a run: the first, then those after the source's."""
    return 0 if index == 0 else index + _REPORTED_SERIES


def _ticks(batches: Sequence[int]) -> tuple[float, ...]:
    """Every second power of two once there are many, so that labels keep apart."""
    return tuple(batches[::2]) if len(batches) > 6 else tuple(batches)


def _all_batches(inputs: Inputs, runs: Sequence[Run]) -> tuple[int, ...]:
    measured = {batch for run in runs for batch in run.batches}
    return tuple(sorted(measured | set(reported_batches(inputs.reported))))


def work(inputs: Inputs) -> Figure:
    """Work over the batch size: theory as a line, the source's counters as points."""
    batches = reported_batches(inputs.reported)
    reported = numbers(inputs.reported, "III", "total_flops")
    theory = tuple(operations(batch) for batch in batches)
    excess = tuple(100 * (r - t) / t for r, t in zip(reported, theory, strict=True))
    panels = (
        Scaling(
            x_label=_X,
            y_label="Work of a call (GFLOP)",
            points=(
                Points(
                    "Counted, reported",
                    batches,
                    tuple(r / GIGA for r in reported),
                    series=_REPORTED_SERIES,
                    hollow=True,
                ),
            ),
            curves=(Curve("Theory", batches, tuple(t / GIGA for t in theory)),),
            x_ticks=batches,
        ),
        Scaling(
            x_label=_X,
            y_label="Reported above theory (%)",
            points=(Points("Reported", batches, excess, series=_REPORTED_SERIES, hollow=True),),
            x_ticks=batches,
            y_scale="linear",
            y_from_zero=True,
        ),
    )
    return Figure(
        "fig-work",
        "Work of one forward call over the batch size: theory and the source's counters (left), "
        "and how far the counters lie above theory (right).",
        f"Left, log-log: the reported counts rise from {reported[0] / GIGA:.3g} to "
        f"{reported[-1] / GIGA:.3g} GFLOP and lie on the line of theory. Right: the excess over "
        f"theory is between {min(excess):.3f} and {max(excess):.3f} per cent at every batch size.",
        Drawing(panels, wide=True),
        sources=(inputs.reported_file,),
    )


def memory(inputs: Inputs, runs: Sequence[Run]) -> Figure:
    """Memory over the batch size: theory's two lines, what runs held, peaks, the source."""
    batches = _all_batches(inputs, runs)
    printed = numbers(inputs.reported, "IV", "allocated_memory")
    reported = tuple(value / MEGA for value in printed)
    points = [
        Points(
            "Allocated, reported",
            reported_batches(inputs.reported),
            reported,
            series=_REPORTED_SERIES,
            hollow=True,
        )
    ]
    for index, run in enumerate(runs):
        points += _byte_points("Held", run, run.held, index, hollow=False)
        points += _byte_points("Peak", run, run.peak, index, hollow=True)
    curves = (
        Curve(
            "Theory, parameters + output",
            batches,
            tuple(footprint(b).parameters_and_output / MEGA for b in batches),
        ),
        Curve(
            "Theory, output", batches, tuple(footprint(b).output / MEGA for b in batches), "part"
        ),
    )
    return Figure(
        "fig-memory",
        "Memory of one forward call over the batch size: theory with and without the parameters, "
        "what the call leaves allocated (held), its peak, and the source's allocated bytes.",
        _memory_alt(runs, reported),
        Drawing(
            (Scaling(_X, "Memory (MB)", tuple(points), curves, x_ticks=_ticks(batches)),),
            height=2.7,
        ),
        sources=(inputs.reported_file, *(run.file for run in runs)),
    )


def _byte_points(
    name: str,
    run: Run,
    size: Callable[[int], int | Missing],
    index: int,
    hollow: bool,
) -> list[Points]:
    sizes = {batch: size(batch) for batch in run.batches}
    present = {b: s / MEGA for b, s in sizes.items() if not isinstance(s, Missing)}
    if not present:
        return []
    label = f"{name}, {run.label}"
    return [
        Points(label, tuple(present), tuple(present.values()), series=_series(index), hollow=hollow)
    ]


def _memory_alt(runs: Sequence[Run], reported: Sequence[float]) -> str:
    text = (
        f"Log-log: the reported bytes rise from {reported[0]:.3g} to {reported[-1]:.3g} MB and lie "
        "on the line of the output alone, below the line with parameters."
    )
    for run in runs:
        held = [s for b in run.batches if not isinstance(s := run.held(b), Missing)]
        peak = [s for b in run.batches if not isinstance(s := run.peak(b), Missing)]
        if held and peak:
            text += (
                f" {run.label}: held {min(held) / MEGA:.3g} to {max(held) / MEGA:.3g} MB, "
                f"peak {min(peak) / MEGA:.3g} to {max(peak) / MEGA:.3g} MB."
            )
    return text


def time(runs: Sequence[Run]) -> Figure:
    """Time over the batch size with intervals and the fitted lines, a panel a pass."""
    panels = tuple(_time_panel(runs, pass_) for pass_ in PASSES)
    spans = []
    for run in runs:
        for pass_ in PASSES:
            if batches := run.measured_batches(pass_):
                ends = [known(run.time(b, pass_)).value / MILLI for b in (batches[0], batches[-1])]
                spans.append(
                    f"{run.label}, {PASS_NAMES[pass_]}: {ends[0]:.3g} ms at batch {batches[0]} to "
                    f"{ends[1]:.3g} ms at batch {batches[-1]}."
                )
    return Figure(
        "fig-time",
        "Time of one call over the batch size: medians with 95 % intervals, and the fitted line "
        "(dotted), forward (left) and forward with backward (right).",
        "Two log-log panels of time over batch size. " + (" ".join(spans) or "Nothing measured."),
        Drawing(panels, wide=True, height=2.5),
        sources=tuple(run.file for run in runs),
    )


def _time_panel(runs: Sequence[Run], pass_: Pass) -> Scaling:
    points, curves = [], []
    for index, run in enumerate(runs):
        batches = run.measured_batches(pass_)
        if not batches:
            continue
        times = [known(run.time(batch, pass_)) for batch in batches]
        points.append(_points(run.label, batches, times, MILLI, index))
        fit = run.time_fit(pass_)
        if not isinstance(fit, Missing):
            line = [(b, fit.intercept.value + fit.slope.value * b) for b in batches]
            shown = [(b, t / MILLI) for b, t in line if t > 0]
            if shown:
                x, y = zip(*shown, strict=True)
                curves.append(Curve(f"Fit, {run.label}", x, y, "fit", _series(index)))
    ticks = _ticks(tuple(sorted({int(x) for p in points for x in p.x})))
    title = PASS_NAMES[pass_].capitalize()
    return Scaling(_X, "Time of a call (ms)", tuple(points), tuple(curves), (), ticks, title=title)


def rate(runs: Sequence[Run]) -> Figure:
    """Achieved rate over the batch size against each run's measured ceiling."""
    panels = tuple(_rate_panel(runs, pass_) for pass_ in PASSES)
    best = []
    for run in runs:
        rates = [known(run.rate(b, "forward")).value for b in run.measured_batches("forward")]
        ceiling = run.ceiling("matrix_product")
        if rates and not isinstance(ceiling, Missing):
            best.append(
                f"{run.label}: forward from {min(rates) / GIGA:.3g} to {max(rates) / GIGA:.3g} "
                f"GFLOP/s under a ceiling of {ceiling.value / GIGA:.3g} GFLOP/s."
            )
    return Figure(
        "fig-rate",
        "Achieved rate over the batch size with 95 % intervals, and the measured ceiling of a "
        "large matrix product (band: its interval), forward (left) and forward with backward "
        "(right).",
        "Two panels of achieved rate over batch size. " + (" ".join(best) or "Nothing measured."),
        Drawing(panels, wide=True, height=2.5),
        sources=tuple(run.file for run in runs),
    )


def _rate_panel(runs: Sequence[Run], pass_: Pass) -> Scaling:
    points, bands = [], []
    for index, run in enumerate(runs):
        batches = run.measured_batches(pass_)
        if not batches:
            continue
        rates = [known(run.rate(batch, pass_)) for batch in batches]
        points.append(
            _points(run.label, batches, rates, GIGA, index, joined=_complete(run, batches))
        )
        ceiling = run.ceiling("matrix_product")
        if not isinstance(ceiling, Missing):
            low, middle, high = (x / GIGA for x in (ceiling.low, ceiling.value, ceiling.high))
            bands.append(Band(f"Ceiling, {run.label}", low, middle, high, _series(index)))
    ticks = _ticks(tuple(sorted({int(x) for p in points for x in p.x})))
    return Scaling(
        _X,
        "Achieved rate (GFLOP/s)",
        tuple(points),
        bands=tuple(bands),
        x_ticks=ticks,
        y_scale="linear",
        y_from_zero=True,
        title=PASS_NAMES[pass_].capitalize(),
    )


def _complete(run: Run, batches: Sequence[int]) -> bool:
    """Whether no batch size is missing between the smallest and the largest measured one."""
    first, last = run.batches.index(batches[0]), run.batches.index(batches[-1])
    return tuple(batches) == run.batches[first : last + 1]


def _points(
    label: str,
    batches: Sequence[int],
    estimates: Sequence[Estimate],
    unit: float,
    index: int,
    joined: bool = False,
) -> Points:
    return Points(
        label,
        tuple(batches),
        tuple(e.value / unit for e in estimates),
        tuple(e.low / unit for e in estimates),
        tuple(e.high / unit for e in estimates),
        series=_series(index),
        joined=joined,
    )


def all_figures(inputs: Inputs, runs: Sequence[Run]) -> tuple[Figure, ...]:
    """The figures of the paper; those of measured time only where a call was timed."""
    always = (work(inputs), memory(inputs, runs))
    timed = any(run.measured_batches(pass_) for run in runs for pass_ in PASSES)
    return (*always, time(runs), rate(runs)) if timed else always
