"""Figures of conv_profiling."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

from figures.panels import Curve, Panel, Points, Scaling
from report.core.missing import Missing
from report.paper.plots import points as points_of
from report.quantity.expression import Quantity, exact
from report.studies.conv_profiling import results, subject
from report.studies.conv_profiling.results import Paper, calls_of
from report.studies.conv_profiling.subject import Dimensions, small
from report.studies.conv_profiling.theory import in_blocks
from report.theory.terms import COUNTED_WIDTH

_LINEAR: Final = partial(Scaling, x_scale="linear", y_scale="linear")
#: Ends of both axes of counts over theory.
_LEAST, _MOST = 0.85, 2.5
#: The call of the smallest work, which fills its blocks; other calls are drawn as multiples of it.
_SMALLEST: Final = small(subject.INPUTS[0], subject.OUTPUTS[0])
#: Distance between the points of two series, in output channels.
_SHIFT: Final = 0.27


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
    """Draw counts and times of changed channels, as multiples of those of the smallest call."""
    least = exact("work of the smallest call", "MAC", _SMALLEST.multiply_adds(subject.FEW_IMAGES))
    counts = {
        call.shape: results.recorded_in(p.changed_run, work) / least
        for call, work in p.second_counts.items()
        if p.changed_run and call.batch == subject.FEW_IMAGES
    }
    if p.second_counts:
        yield _panel("Count", COUNTED_WIDTH, counts)
    if p.timed:
        for name in subject.INSTRUCTIONS:
            ratio = partial(results.ratio_of_times, p.timed, under=_SMALLEST, instructions=name)
            times = {shape: ratio(shape) for shape in subject.CHANNELS}
            yield _panel("Time", p.timed.block(name), times)


def _panel(title: str, block: int, multiples: Mapping[Dimensions, Quantity]) -> Panel:
    """Draw multiples by output channels, beside the work that blocks and the formula predict."""
    points: list[Points] = []
    curves = []
    outputs = range(subject.OUTPUTS[0], subject.OUTPUTS[-1] + 1)
    ends = tuple(n + side for n in outputs for side in (-0.5, 0.5))
    least = _SMALLEST.multiply_adds(1)
    for series, inputs in enumerate(subject.INPUTS):
        label = f"{inputs} inputs"
        shapes = {n: small(inputs, n) for n in subject.OUTPUTS}
        drawn = {n: multiples[shape] for n, shape in shapes.items() if shape in multiples}
        marks = points_of(label, drawn, "1", series=series)
        points += [replace(item, shift=_SHIFT * (series - 1)) for item in marks]
        steps = [in_blocks(small(inputs, n), block).multiply_adds(1) / least for n in outputs]
        heights = tuple(step for step in steps for _ in (0, 1))
        curves.append(Curve(f"{label} in blocks", ends, heights, series=series))
    formula = tuple(small(9, n).multiply_adds(1) / least for n in outputs)
    curves.append(Curve("formula, 9 inputs", tuple(map(float, outputs)), formula, part=True))
    return _LINEAR(
        "Output channels",
        "Ratio to 8→16",
        tuple(points),
        tuple(curves),
        title=f"{title}, blocks of {block}",
        x_ticks=tuple(map(float, subject.OUTPUTS)),
        y_bottom=0.0,
        y_top=4.3,
        direct=True,
        legend=False,
    )
