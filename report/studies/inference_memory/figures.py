"""Figures of inference_memory: the rules compared, and why a line fails."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Band, Curve, Points, Scaling
from report.studies.inference_memory.results import RuleComparison
from report.studies.inference_memory.subject import OperatorBytes
from report.studies.inference_memory.theory import RULES, BatchRule, operator_at_peak

#: The rules that the figure compares; the table has more.
_DRAWN: Final[tuple[BatchRule, ...]] = ("line", "doubled", "estimator", "count")
#: Place (images) of a predicted batch of no image on a logarithmic axis.
_NO_IMAGE: Final = 0.5
#: Ends of both axes (images).
_ENDS: Final = (0.4, 2000.0)
_MEGA: Final = 1e6


def crossing(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw the peaks of the network whose line predicts most, and the bytes at two operators."""
    if (worst := comparison.worst_line()) is None:
        return
    row, promised = worst
    operators, peaks = comparison.operators[row.network], comparison.baselines[row.network].peaks
    late, early = (operator_at_peak(operators, n) for n in (min(peaks), max(peaks)))
    end, limit, end_of_line = float(max(peaks)), row.limit / _MEGA, 1.1 * promised
    points = (
        Points("measured peak", tuple(peaks), tuple(peak / _MEGA for peak in peaks.values())),
        Points("largest batch that ran", (row.ran,), (limit,), style_number=1),
        Points("promised by the line", (promised,), (limit,), style_number=2),
    )
    curves = (
        Curve("late convolution", (0.0, end_of_line), _megabytes(late, 0.0, end_of_line)),
        Curve("early convolution", (0.0, end), _megabytes(early, 0.0, end), dotted=True),
    )
    yield Scaling(
        "Batch size (images)", "Peak (MB)", points, curves, (Band("limit", limit, limit, limit),),
        x_scale="linear", y_scale="linear", y_from_zero=True,
        regions=(
            (f"{row.ran:,}", row.ran + 0.04 * end_of_line, 0.78 * limit),
            (f"{promised:,}", promised - 0.02 * end_of_line, 1.1 * limit),
            ("limit", 0.45 * end_of_line, 1.1 * limit),
            ("early convolution", end, 1.6 * limit), ("late convolution", 2 * end, 0.5 * limit),
        ),
    )  # fmt: skip


def _megabytes(operator: OperatorBytes, *batches: float) -> tuple[float, ...]:
    return tuple((operator.fixed + batch * operator.per_image) / _MEGA for batch in batches)


def rules(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw the predicted over the largest batch that ran under each limit, in a panel per rule."""
    for rule in _DRAWN:
        if predictions := comparison.predictions[rule]:
            ran = tuple(float(row.ran) for row, _ in predictions)
            predicted = tuple(max(batch, _NO_IMAGE) for _, batch in predictions)
            right = f"{100 * comparison.ratios(rule).count(1) / len(comparison.limits):.0f} % right"
            yield Scaling(
                "Largest batch that ran", "Predicted batch",
                (Points(RULES[rule], ran, predicted, small=True),), (Curve("", _ENDS, _ENDS),),
                x_ticks=(1, 10, 100, 1000), title=RULES[rule], y_bottom=_ENDS[0], y_top=_ENDS[1],
                regions=(("too high", 0.6, 250), (right, 25, 2.2)),
            )  # fmt: skip
