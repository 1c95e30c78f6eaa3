"""Figures of conv_profiling: counted beside predicted operations, and times beside work."""

from collections.abc import Iterator
from statistics import mean
from typing import Any, Final

from figures.panels import Curve, Dots, Panel, Points, Scaling
from report.paper.plots import dot_series
from report.studies.conv_profiling import results, subject, theory
from report.studies.conv_profiling.results import Paper, select_calls
from report.studies.conv_profiling.runs import Run

#: Ends of both axes of the diagonal (operations ÷ theory).
_LEAST, _MOST = 0.85, 2.5
#: Distance between two series (rows).
_ROW_SHIFT: Final = 0.4


def diagonal(p: Paper) -> Iterator[Panel]:
    """Draw counted over predicted operations, both divided by theory, for calls with a rule."""
    # Device → label, calls, and number of the colour of each series.
    groups = {
        "CPU": (
            ("derived", select_calls("layer", p.cpu_counts), 0),
            ("held out", select_calls("held_out", p.cpu_counts), 0),
            ("changed", p.changed_counts, 2),
        ),
        "GPU": (
            ("derived", select_calls("layer", p.gpu_counts), 1),
            ("held out", p.tf32_counts, 1),
        ),
    }
    ends = _LEAST, _MOST
    curves = Curve("", ends, ends), Curve("", (1.0, 1.0), ends, dotted=True)
    for device, groups_of_device in groups.items():
        drawn = []
        for label, calls, colour in groups_of_device:
            predicted, counted = [], []
            for work in calls.values():
                predicted.append(work.end / work.start.amount)
                counted.append(work.measured.amount / work.start.amount)
            if counted:
                ratios, hollow = (tuple(predicted), tuple(counted)), label == "derived"
                drawn.append(Points(label, *ratios, style_number=colour, hollow=hollow))
        if drawn:
            axes = "Predicted ÷ theory", "Counted ÷ theory"
            yield Scaling(
                *axes, tuple(drawn), curves, title=device, y_bottom=_LEAST, y_top=_MOST,
                x_scale="linear", y_scale="linear",
            )  # fmt: skip


def one_channel_more(run: Run) -> Iterator[Panel]:
    """Draw by which factors one more channel lengthens a call and adds work in blocks."""
    pairs = (*results.SEVENTEEN_SIXTEEN, *results.TWENTY_FIFTH, *results.WIDENED_EXAMPLE)
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
