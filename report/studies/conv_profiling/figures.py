"""Figures of conv_profiling: counted against predicted operations, and times beside work."""

from collections.abc import Iterator
from statistics import mean
from typing import Any, Final

from figures.panels import Curve, Dots, Panel, Points, Scaling
from report.paper.plots import dot_series
from report.studies.conv_profiling import results, subject, theory
from report.studies.conv_profiling.results import Paper, select_calls
from report.studies.conv_profiling.runs import Run

#: Ends of both axes of the figure ``diagonal`` (operations ÷ theory).
_AXIS_LOW, _AXIS_HIGH = 0.85, 2.5
#: Distance between two series (rows).
_ROW_SHIFT: Final = 0.4


def diagonal(paper: Paper) -> Iterator[Panel]:
    """Draw counted against predicted operations of calls, both divided by theory's operations.

    The diagonal is a correct prediction, and the horizontal line is a count equal to theory.
    """
    # Device → label, calls, and number of the colour of each series.
    groups = {
        "CPU": (
            ("derived", select_calls("layer", paper.cpu_counts), 0),
            ("held out", select_calls("held_out", paper.cpu_counts), 0),
            ("changed", paper.changed_counts, 2),
        ),
        "GPU": (
            ("derived", select_calls("layer", paper.gpu_counts), 1),
            ("held out", paper.tf32_counts, 1),
        ),
    }
    ends = _AXIS_LOW, _AXIS_HIGH
    curves = Curve("", ends, ends), Curve("", (1.0, 1.0), ends, dotted=True)
    for device, groups_of_device in groups.items():
        drawn = []
        for label, calls, colour in groups_of_device:
            predicted, counted = [], []
            for counts in calls.values():  # from theory (``start``) to the prediction (``end``)
                predicted.append(counts.end / counts.start.amount)
                counted.append(counts.measured.amount / counts.start.amount)
            if counted:
                ratios, hollow = (tuple(predicted), tuple(counted)), label == "derived"
                drawn.append(Points(label, *ratios, style_number=colour, hollow=hollow))
        if drawn:
            axes = "Predicted ÷ theory", "Counted ÷ theory"
            yield Scaling(
                *axes, tuple(drawn), curves, title=device, y_bottom=_AXIS_LOW, y_top=_AXIS_HIGH,
                x_scale="linear", y_scale="linear",
            )  # fmt: skip


def one_channel_more(run: Run) -> Iterator[Panel]:
    """Draw the factors by which one more channel increases a call's time and its work in blocks."""
    pairs = (*results.SEVENTEEN_SIXTEEN, *results.TWENTY_FIFTH, *results.WIDENED_PAIR)
    drawn = []
    names = zip(subject.INSTRUCTIONS, ("AVX2", "AVX-512"), strict=True)
    for colour, (instructions, label) in enumerate(names):
        work = [theory.work_ratio(*pair, run.block(instructions)) for pair in pairs]
        times = [results.ratio_of_times(run, *pair, instructions) for pair in pairs]
        style: dict[str, Any] = {"style_number": colour, "shift": _ROW_SHIFT * (colour - 0.5)}
        drawn.append(dot_series(f"{label}: time", times, "1", **style))
        drawn.append(dot_series(f"{label}: work", work, "1", hollow=True, **style))
    by_formula = mean(wider.multiply_adds(1) / base.multiply_adds(1) for wider, base in pairs)
    rows = tuple(f"{wider.channels} ÷ {base.channels}" for wider, base in pairs)
    yield Dots(rows, tuple(drawn), "With one channel more ÷ without", reference=by_formula)
