"""Figures of conv_profiling."""

from collections.abc import Iterator
from functools import partial
from typing import Final

from figures.panels import Curve, Panel, Points, Scaling
from report.core.missing import Missing
from report.quantity.evaluation import point
from report.studies.conv_profiling.results import Paper, calls_of, over_theory
from report.studies.conv_profiling.runs import ProfiledCall, Run
from report.studies.conv_profiling.subject import (
    FEW_IMAGES,
    INPUTS,
    INSTRUCTIONS,
    OUTPUTS,
    Dimensions,
    small,
)
from report.theory.terms import COUNTED_WIDTH
from report.theory.work import round_up

_LINEAR: Final = partial(Scaling, x_scale="linear", y_scale="linear")
#: Ends of both axes of counts over theory.
_LEAST, _MOST = 0.9, 2.4


def diagonal(p: Paper) -> Iterator[Panel]:
    """Draw counted over predicted operations, both over theory, for calls that have a rule."""
    groups = {
        "CPU": (
            ("derived", calls_of("layer", p.counts), 0),
            ("held out", calls_of("held_out", p.counts), 0),
            ("changed", p.changed, 2),
        ),
        "GPU": (
            ("derived", calls_of("layer", p.tiled), 1),
            ("held out", p.held_tiled, 1),
        ),
    }
    ends = _LEAST, _MOST
    curves = Curve("", ends, ends), Curve("", (1.0, 1.0), ends, part=True)
    for device, series in groups.items():
        drawn = []
        for label, calls, colour in series:
            known = [pair for pair in map(over_theory, calls.values()) if pair]
            if known:
                x, y = zip(*known, strict=True)
                drawn.append(Points(label, x, y, series=colour, hollow=label == "derived"))
        if drawn:
            axes = "Predicted ÷ theory", "Counted ÷ theory"
            yield _LINEAR(*axes, tuple(drawn), curves, title=device, y_bottom=_LEAST, y_top=_MOST)


def is_drawn(call: ProfiledCall) -> bool:
    """Return True if the figure of changed channels shows the call."""
    inputs, outputs = call.shape.inputs, call.shape.outputs
    return inputs < INPUTS[-1] and call.shape == small(inputs, outputs) and call.batch == FEW_IMAGES


def changed_channels(p: Paper) -> Iterator[Panel]:
    """Draw counted work by output channels, for eight and for nine input channels."""
    counted = {**p.changed, **calls_of("held_out", p.second_counts)}
    outputs = range(OUTPUTS[0] - 1, OUTPUTS[-1] + 2)
    for inputs in INPUTS[:-1]:
        x, y = [], []
        for call, work in sorted(counted.items()):
            drawn = is_drawn(call) and call.shape.inputs == inputs
            if drawn and not isinstance(work.measured, Missing):
                x.append(float(call.shape.outputs))
                y.append(work.measured.amount / 1e6)
        steps = tuple(n + side for n in outputs for side in (-0.5, 0.5))
        blocks = tuple(_millions(small(inputs, n), COUNTED_WIDTH) for n in outputs for _ in "<>")
        formula = tuple(_millions(small(inputs, n), 1) for n in outputs)
        lines = (
            Curve("blocks", steps, blocks),
            Curve("usual formula", tuple(map(float, outputs)), formula, part=True),
        )
        if x:
            axes = "Output channels", "Multiply-adds (millions)"
            title, drawn_points = f"{inputs} input channels", Points("counted", tuple(x), tuple(y))
            yield _LINEAR(*axes, (drawn_points,), lines, y_from_zero=True, title=title,
                          legend=inputs == INPUTS[0])  # fmt: skip


def times_by_outputs(run: Run) -> Iterator[Panel]:
    """Draw median times by output channels, with AVX2 at most and with all instructions."""
    for instructions in INSTRUCTIONS:
        series = []
        for colour, inputs in enumerate(INPUTS):
            times = {n: point(run.time(small(inputs, n), instructions)) for n in OUTPUTS}
            known = {n: 1e6 * time for n, time in times.items() if not isinstance(time, Missing)}
            x, y = tuple(map(float, known)), tuple(known.values())
            hollow = inputs == INPUTS[-1]
            series.append(Points(f"{inputs} inputs", x, y, series=colour, hollow=hollow))
        if any(points.x for points in series):
            title = f"Time, blocks of {run.block(instructions)}"
            yield _LINEAR("Output channels", "Time (µs)", tuple(series), x_ticks=(16.0, 20.0, 24.0),
                          y_from_zero=True, title=title,
                          legend=instructions == INSTRUCTIONS[0])  # fmt: skip


def _millions(shape: Dimensions, width: int) -> float:
    """Multiply-adds of a drawn call with channels in whole blocks of ``width``, in millions."""
    channels = (round_up(extent, width) for extent in (shape.inputs, shape.outputs))
    return small(*channels).multiply_adds(FEW_IMAGES) / 1e6
