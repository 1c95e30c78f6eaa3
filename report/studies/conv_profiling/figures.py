"""Figures of conv_profiling."""

from collections.abc import Iterator
from functools import partial
from statistics import mean
from typing import Final

from figures.panels import Band, Curve, Dots, Panel, Points, Scaling
from report.core.missing import Missing
from report.paper.plots import dot_series
from report.paper.plots import points as points_of
from report.studies.conv_profiling import results, subject, theory
from report.studies.conv_profiling.results import Paper, calls_of, mean_ratio
from report.studies.conv_profiling.runs import NATIVE, Run
from report.theory.work import round_up

_LINEAR: Final = partial(Scaling, x_scale="linear", y_scale="linear")
#: Ends of both axes of counts over theory.
_LEAST, _MOST = 0.85, 2.5
#: Distance between two series as a share of a row.
_ROW_SHIFT: Final = 0.4


def diagonal(p: Paper) -> Iterator[Panel]:
    """Draw counted over predicted operations, both over theory, for calls that have a rule."""
    groups = {
        "CPU": (
            ("derived", calls_of("layer", p.counts), 0),
            ("held out", calls_of("held_out", p.counts), 0),
            ("changed", p.changed, 2),
        ),
        "GPU": (("derived", calls_of("layer", p.tiled), 1), ("held out", p.held_tiled, 1)),
    }
    ends = _LEAST, _MOST
    curves = Curve("", ends, ends), Curve("", (1.0, 1.0), ends, part=True)
    for device, groups_of_device in groups.items():
        drawn = []
        for label, calls, series in groups_of_device:
            predicted, counted = [], []
            for work in calls.values():
                if not isinstance(work.measured, Missing):
                    predicted.append(work.end / work.start.amount)
                    counted.append(work.measured.amount / work.start.amount)
            if counted:
                shares = tuple(predicted), tuple(counted)
                drawn.append(Points(label, *shares, series=series, hollow=label == "derived"))
        if drawn:
            axes = "Predicted ÷ theory", "Counted ÷ theory"
            yield _LINEAR(*axes, tuple(drawn), curves, title=device, y_bottom=_LEAST, y_top=_MOST)


def changed_channels(p: Paper) -> Iterator[Panel]:
    """Draw counts and times per output channel, and the times of one channel more."""
    if p.timed:
        yield _per_output(p, p.timed)
        yield _one_more(p, p.timed)


def _per_output(p: Paper, run: Run) -> Panel:
    """Draw counts and times per output channel over those of the fewest, which execute theory."""
    fewest, *_, most = subject.OUTPUTS
    counts = {
        call.shape.outputs: results.over_theory(p.changed_run, work)
        for call, work in p.changed.items()
        if p.changed_run
        and (call.shape.inputs, call.batch) == (subject.INPUTS[0], subject.FEW_IMAGES)
    }
    points = [*points_of("counts", counts, "1", hollow=True)]
    outputs = tuple(float(n) for n in range(fewest, most + 1))
    curves = [Curve("formula", outputs, (1.0,) * len(outputs), part=True)]
    for series, instructions in enumerate(subject.INSTRUCTIONS):
        block = run.block(instructions)
        label = f"blocks of {block}"
        ratios = {n: mean_ratio(run, results.over_fewest(n), instructions) for n in subject.OUTPUTS}
        times = {n: ratio * fewest / n for n, ratio in ratios.items()}
        points += points_of(label, times, "1", series=series, joined=True)
        filled = tuple(round_up(int(n), block) / n for n in outputs)
        work = tuple(share / filled[0] for share in filled)
        curves.append(Curve(f"{label}, predicted", outputs, work, series=series))
    return _LINEAR(
        "Output channels",
        f"Ratio to {fewest} outputs",
        tuple(points),
        tuple(curves),
        title="Count and time per output channel",
        x_ticks=tuple(map(float, subject.OUTPUTS)),
        y_bottom=0.6,
        y_top=2.0,
        direct=True,
        legend=False,
    )


def _one_more(p: Paper, run: Run) -> Panel:
    """Draw times of one channel more, on other CPUs too, beside the work by blocks and formula."""
    pairs = (*results.SEVENTEEN_SIXTEEN, *results.TWENTY_FIFTH, *results.WIDER)
    others = [other for other in (p.newer, p.older) if other]
    names = [f"{over.channels} ÷ {under.channels}" for over, under in pairs]
    drawn = []
    for series, instructions in enumerate(subject.INSTRUCTIONS):
        work = [theory.work_ratio(*pair, run.block(instructions)) for pair in pairs]
        times = [results.ratio_of_times(run, *pair, instructions) for pair in pairs]
        if instructions == NATIVE:
            work += [theory.work_ratio(*results.WIDER[0], other.block()) for other in others]
            times += [results.wider(other) for other in others]
        label, row = f"blocks of {run.block(instructions)}", _ROW_SHIFT * (series - 0.5)
        predicted = f"{label}, predicted"
        drawn.append(dot_series(predicted, work, "1", series=series, hollow=True, shift=row))
        drawn.append(dot_series(label, times, "1", series=series, shift=row))
    formula = [over.multiply_adds(1) / under.multiply_adds(1) for over, under in pairs]
    return Dots(
        (*names, *(other.short for other in others)),
        tuple(drawn),
        "Ratio of times",
        title="Time of one channel more",
        bands=(Band("formula", min(formula), mean(formula), max(formula), series=2),),
        legend=False,
    )
