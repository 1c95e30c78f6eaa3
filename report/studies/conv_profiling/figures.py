"""Figures of conv_profiling."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from figures.panels import Curve, Panel, Points, Scaling
from report.core.missing import Missing
from report.paper.plots import points as points_of
from report.studies.conv_profiling.results import Paper, calls_of, over_theory
from report.studies.conv_profiling.runs import Run
from report.studies.conv_profiling.subject import (
    FEW_IMAGES,
    INPUTS,
    INSTRUCTIONS,
    OUTPUTS,
    small,
)
from report.studies.conv_profiling.theory import in_blocks
from report.theory.terms import COUNTED_WIDTH

_LINEAR: Final = partial(Scaling, x_scale="linear", y_scale="linear")
#: Ends of both axes of counts over theory.
_LEAST, _MOST = 0.85, 2.5


#: Channels of a block → names of lines in the panel of work, with their places.
_NAMES: Final = {
    8: (("8 inputs", 18.0, 4.4), ("9 and 16", 18.0, 8.4), ("formula, 9", 18.5, 1.6)),
    16: (("8 inputs", 18.0, 4.5), ("9 inputs", 18.0, 6.4), ("16 inputs", 18.0, 9.5)),
}


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


def work_by_outputs(p: Paper) -> Iterator[Panel]:
    """Draw work by output channels in blocks of eight, with the counts, and in wider ones."""
    counted = {**p.changed, **calls_of("held_out", p.second_counts)}
    outputs = range(OUTPUTS[0], OUTPUTS[-1] + 2)
    ends = tuple(n - side for n in outputs for side in (0.5, -0.5))
    blocks = [p.changer.block(name) for name in INSTRUCTIONS] if p.changer and p.changed else []
    for block in blocks:
        points, curves = [], []
        for colour, inputs in enumerate(INPUTS):
            x, y = [], []
            for call, work in sorted(counted.items()):
                drawn = call.shape == small(inputs, call.shape.outputs) and call.batch == FEW_IMAGES
                if drawn and block == COUNTED_WIDTH and not isinstance(work.measured, Missing):
                    x.append(float(call.shape.outputs))
                    y.append(work.measured.amount / 1e6)
            points.append(_series(inputs, colour, x, y))
            steps = [in_blocks(small(inputs, n), block).multiply_adds(FEW_IMAGES) for n in outputs]
            heights = tuple(step / 1e6 for step in steps for _ in (0, 1))
            curves.append(Curve(f"{inputs} inputs in blocks", ends, heights))
        formula = tuple(small(9, n).multiply_adds(FEW_IMAGES) / 1e6 for n in outputs)
        curves.append(Curve("formula, 9 inputs", tuple(map(float, outputs)), formula, part=True))
        title = f"{'Work' if block == COUNTED_WIDTH else 'Predicted'}, blocks of {block}"
        panel = _by_outputs("Multiply-adds (millions)", points, curves, title)
        yield replace(panel, regions=_NAMES.get(block, ()), legend=False)


def times_by_outputs(run: Run) -> Iterator[Panel]:
    """Draw median times by output channels, with AVX2 at most and with all instructions."""
    for instructions in INSTRUCTIONS:
        points: list[Points] = []
        for colour, inputs in enumerate(INPUTS):
            times = {n: run.time(small(inputs, n), instructions) for n in OUTPUTS}
            name, hollow = f"{inputs} inputs", inputs == INPUTS[-1]
            points += points_of(name, times, "µs", series=colour, hollow=hollow)
        if points:
            title = f"Time, blocks of {run.block(instructions)}"
            panel = _by_outputs("Time (µs)", points, [], title)
            yield replace(panel, legend=instructions == INSTRUCTIONS[0])


def _series(inputs: int, colour: int, x: Iterable[float], y: Iterable[float]) -> Points:
    hollow = inputs == INPUTS[-1]
    return Points(f"{inputs} inputs", tuple(x), tuple(y), series=colour, hollow=hollow)


def _by_outputs(y_label: str, points: list[Points], curves: list[Curve], title: str) -> Scaling:
    return _LINEAR("Output channels", y_label, tuple(points), tuple(curves), title=title,
                   x_ticks=(16.0, 20.0, 24.0), y_from_zero=True)  # fmt: skip
