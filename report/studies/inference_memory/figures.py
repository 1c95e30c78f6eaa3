"""Figures of inference_memory: predictions of rules, and why a line through two peaks fails."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Band, Curve, Points, Scaling
from report.studies.inference_memory.results import RuleComparison
from report.studies.inference_memory.subject import OperatorBytes
from report.studies.inference_memory.theory import RULES, BatchRule, operator_at_peak

#: The rules that the figure compares, by their ids in ``RULES``; the table has more rules.
_DRAWN_RULES: Final[tuple[BatchRule, ...]] = ("line", "doubled", "estimator", "count")
#: Where a prediction of 0 images is drawn (images), because a logarithmic axis has no 0.
_POSITION_OF_ZERO: Final = 0.5
#: Ends of both axes (images).
_AXIS_LIMITS: Final = (0.4, 2000.0)
_MEGA: Final = 1e6


def crossing(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw why the line through 2 and 4 images fails, for the network where it errs most.

    Shows the measured peaks, and the bytes at two operators by batch.
    """
    if (prediction := comparison.highest_line_prediction()) is None:
        return
    row, predicted_batch = prediction
    operators, peaks = comparison.operators[row.network], comparison.baselines[row.network].peaks
    # A late convolution holds most bytes at few images, and an early one at many images.
    late, early = (operator_at_peak(operators, batch) for batch in (min(peaks), max(peaks)))
    end, end_of_line = float(max(peaks)), 1.1 * predicted_batch
    limit, largest_batch = row.limit_bytes / _MEGA, row.largest_batch
    points = (
        Points("measured peak", tuple(peaks), tuple(peak / _MEGA for peak in peaks.values())),
        Points("largest batch that ran", (largest_batch,), (limit,), style_number=1),
        Points("promised by the line", (predicted_batch,), (limit,), style_number=2),
    )
    curves = (
        Curve("late convolution", (0.0, end_of_line), _megabytes(late, 0.0, end_of_line)),
        Curve("early convolution", (0.0, end), _megabytes(early, 0.0, end), dotted=True),
    )
    yield Scaling(
        "Batch size (images)", "Peak (MB)", points, curves, (Band("limit", limit, limit, limit),),
        x_scale="linear", y_scale="linear", y_from_zero=True,
        inside_labels=(
            (f"{largest_batch:,}", largest_batch + 0.04 * end_of_line, 0.78 * limit),
            (f"{predicted_batch:,}", predicted_batch - 0.02 * end_of_line, 1.1 * limit),
            ("limit", 0.45 * end_of_line, 1.1 * limit),
            ("early convolution", end, 1.6 * limit), ("late convolution", 2 * end, 0.5 * limit),
        ),
    )  # fmt: skip


def _megabytes(operator: OperatorBytes, *batches: float) -> tuple[float, ...]:
    """Return the bytes alive at an operator at each batch, in MB."""
    fixed, per_image = operator.total_fixed, operator.total_per_image
    return tuple((fixed + batch * per_image) / _MEGA for batch in batches)


def rules(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw each rule's predicted batch against the largest batch that ran, a point per limit."""
    for rule in _DRAWN_RULES:
        if predictions := comparison.predictions[rule]:
            largest_batches = tuple(float(row.largest_batch) for row, _ in predictions)
            predicted = tuple(max(batch, _POSITION_OF_ZERO) for _, batch in predictions)
            share_right = comparison.ratios(rule).count(1) / len(comparison.limits)
            yield Scaling(
                "Largest batch that ran", "Predicted batch",
                (Points(RULES[rule], largest_batches, predicted, small=True),),
                (Curve("", _AXIS_LIMITS, _AXIS_LIMITS),), x_ticks=(1, 10, 100, 1000),
                title=RULES[rule], y_bottom=_AXIS_LIMITS[0], y_top=_AXIS_LIMITS[1],
                inside_labels=(
                    ("too high", 0.6, 250), (f"{100 * share_right:.0f} % right", 25, 2.2),
                ),
            )  # fmt: skip
