"""Figures of inference_memory: why a line fails, and the rules compared."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Band, Curve, Points, Scaling
from report.studies.inference_memory.results import RuleComparison
from report.studies.inference_memory.subject import OperatorLine
from report.studies.inference_memory.theory import RULES, BatchRule, holder

#: The rules that the figure compares; the table has more.
_DRAWN: Final[tuple[BatchRule, ...]] = ("line", "doubled", "estimator", "tensors", "count")
_MEGA: Final = 1e6


def crossing(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw measured peaks where a line fails most over the lines of two operators."""
    worst = comparison.worst_line()
    if worst is None:
        return
    row, promised = worst
    lines, peaks = comparison.lines[row.network], comparison.baselines[row.network].peaks
    late, early = (holder(lines, extreme(peaks)) for extreme in (min, max))
    end, limit, end_of_line = float(max(peaks)), row.limit / _MEGA, 1.1 * promised
    points = (
        Points("measured peak", tuple(peaks), tuple(peak / _MEGA for peak in peaks.values())),
        Points("largest batch that ran", (row.ran,), (limit,), series=1),
        Points("promised by the line", (promised,), (limit,), series=2),
    )
    curves = (
        Curve("late convolution", (0.0, end_of_line), _megabytes(late, 0.0, end_of_line)),
        Curve("early convolution", (0.0, end), _megabytes(early, 0.0, end), part=True),
    )
    yield Scaling(
        "Batch size (images)", "Peak (MB)", points, curves, (Band("limit", limit, limit, limit),),
        x_scale="linear", y_scale="linear", y_from_zero=True,
        regions=(
            (f"{row.ran:,}", row.ran + 0.02 * end_of_line, 0.86 * limit),
            (f"{promised:,}", promised - 0.02 * end_of_line, 1.1 * limit),
            ("limit", 0.45 * end_of_line, 1.1 * limit),
        ),
    )  # fmt: skip


def _megabytes(operator: OperatorLine, *batches: float) -> tuple[float, ...]:
    return tuple((operator.fixed + batch * operator.per_image) / _MEGA for batch in batches)


def rules(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw predicted over run batch under the limits of a table, sorted, by rule."""
    lines = []
    for series, rule in enumerate(_DRAWN):
        ratios = comparison.ratios(rule)
        # A batch of 0 has no place on the axis.
        drawn = {100 * (n + 0.5) / len(ratios): r for n, r in enumerate(ratios) if r}
        if drawn:
            shares, above = tuple(drawn), tuple(drawn.values())
            lines.append(Points(RULES[rule], shares, above, series=series, joined=True, many=True))
    if lines:
        yield Scaling(
            "Limits, sorted by each rule (%)", "Predicted ÷ run batch",
            tuple(lines), x_scale="linear", direct=True, y_bottom=0.5, y_top=8.0,
            regions=(("does not fit", 2.0, 1.25),),
        )  # fmt: skip
