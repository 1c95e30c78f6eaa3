"""The figures of inference_memory; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from figures.panels import Curve, Points, Scaling
from report.core.missing import Missing
from report.paper.plots import points
from report.quantity.evaluation import point
from report.studies.inference_memory.results import Allocated, peaks_of
from report.studies.inference_memory.rules import RULES, RuleComparison
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import SHOWN, InferencePrecision
from report.theory.conditions import Layout

MEGA: Final = 1e6
_X: Final = "Batch size (images)"
#: The networks whose peaks are mapped over the batch.
MAPPED: Final = (SHOWN, "AlexNet", "VGG-16")
#: The changed settings of a call on a GPU, in words.
_SETTINGS: Final[dict[str, tuple[InferencePrecision, Layout]]] = {
    "channels last": ("float32", "channels_last"),
    "bfloat16": ("bfloat16", "contiguous"),
    "float16": ("float16", "contiguous"),
}


def peaks(run: Run) -> Iterator[Scaling]:
    """Measured peaks of a CPU over the predicted ones, exact ones and lower bounds."""
    sizes: dict[str, list[tuple[float, float]]] = {"exact": [], "lower bound": []}
    for call, row in peaks_of(run).by_call.items():
        predicted, measured = point(run.predicted_peak(call)), point(run.peak(call))
        if not isinstance(predicted, Missing) and not isinstance(measured, Missing):
            name = "lower bound" if row.residual else "exact"
            sizes[name].append((predicted / MEGA, measured / MEGA))
    drawn = []
    for series, (name, own) in enumerate(sizes.items()):
        if own:
            x, y = zip(*own, strict=True)
            drawn.append(Points(name, x, y, series=series, hollow=bool(series), many=True))
    if drawn:
        ends = (1.0, 1000.0)
        yield Scaling(
            "Predicted peak (MB)", "Measured peak (MB)", tuple(drawn), (Curve("", ends, ends),),
            x_ticks=(1.0, 10.0, 100.0, 1000.0),
        )  # fmt: skip


def rules(comparison: RuleComparison) -> Iterator[Scaling]:
    """Predicted over run batch under the limits of a table, sorted, by rule."""
    lines = []
    for series, (rule, name) in enumerate(RULES.items()):
        ratios = comparison.ratios(rule)
        # A batch of 0 has no place on the axis.
        drawn = {100 * (n + 0.5) / len(ratios): r for n, r in enumerate(ratios) if r}
        if drawn:
            shares, above = tuple(drawn), tuple(drawn.values())
            lines.append(Points(name, shares, above, series=series, joined=True, many=True))
    if lines:
        yield Scaling(
            "Limits, sorted by each rule (%)", "Predicted ÷ run batch",
            tuple(lines), x_scale="linear", direct=True, y_bottom=0.1, y_top=10.0,
            regions=(("does not fit", 2.0, 1.25),),
        )  # fmt: skip


def cost(allocated: Allocated) -> Iterator[Scaling]:
    """Peak on a GPU over that of the contiguous call in float32, by network."""
    for network in MAPPED:
        drawn: tuple[Points, ...] = ()
        for series, (name, (precision, layout)) in enumerate(_SETTINGS.items()):
            over = {}
            for batch in (2**n for n in range(15)):
                ratio = allocated.ratio(batch, precision, layout, network)
                if not ratio.missing:
                    over[batch] = ratio
            # The half precisions lie on each other; one shows as a ring around the other.
            hollow = precision == "bfloat16"
            if over:
                drawn += points(name, over, "1", series=series, hollow=hollow, joined=True)
        if drawn:
            even = Curve("", (1.0, 2.0**14), (1.0, 1.0))
            yield Scaling(
                _X, "Peak over float32, contiguous", drawn, (even,), title=network,
                x_ticks=tuple(float(4**n) for n in range(0, 8, 2)), y_bottom=0.2, y_top=8.0,
            )  # fmt: skip
