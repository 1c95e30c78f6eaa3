"""Figures of inference_memory: why a line fails, the rules compared, and peaks on a GPU."""

from collections.abc import Iterator
from typing import Final

from figures.panels import Band, Curve, Points, Scaling
from report.core.missing import Missing
from report.quantity.evaluation import point
from report.studies.inference_memory.results import (
    MAPPED_SETTINGS,
    Allocated,
    RuleComparison,
    tensors_of,
)
from report.studies.inference_memory.subject import SHOWN, OperatorLine, small
from report.studies.inference_memory.theory import RULES, BatchRule

#: The rules that the figure compares; the table has two more.
_DRAWN: Final[tuple[BatchRule, ...]] = ("line", "doubled", "estimator", "tensors", "count")
_MEGA: Final = 1e6
#: Batches at which the peaks on a GPU are no longer those of a library's fixed workspaces.
_BATCHES_ON_GPU: Final = tuple(2**n for n in range(6, 19))


def crossing(comparison: RuleComparison) -> Iterator[Scaling]:
    """Draw measured peaks where a line fails most over the lines of two operators."""
    failure = comparison.failure
    if failure is None:
        return
    row, end = failure.row, float(max(failure.peaks))
    peaks = tuple(peak / _MEGA for peak in failure.peaks.values())
    limit, batches = row.limit / _MEGA, (row.ran, failure.promised)
    points = (
        Points("measured peak", tuple(failure.peaks), peaks),
        Points("largest batch that ran", batches[:1], (limit,), series=1),
        Points("promised by the line", batches[1:], (limit,), series=2),
    )
    late, end_of_line = failure.late, 1.1 * failure.promised
    curves = (
        Curve("late convolution", (0.0, end_of_line), _megabytes(late, 0.0, end_of_line)),
        Curve("early convolution", (0.0, end), _megabytes(failure.early, 0.0, end), part=True),
    )
    yield Scaling(
        "Batch size (images)", "Peak (MB)", points, curves, (Band("limit", limit, limit, limit),),
        x_scale="linear", y_scale="linear", y_from_zero=True,
        regions=(
            (f"{row.ran:,}", row.ran + 0.02 * end_of_line, 0.86 * limit),
            (f"{failure.promised:,}", failure.promised - 0.02 * end_of_line, 1.1 * limit),
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
            tuple(lines), x_scale="linear", direct=True, y_bottom=0.4, y_top=10.0,
            regions=(("does not fit", 2.0, 1.25),),
        )  # fmt: skip


def peaks_on_gpu(allocated: Allocated) -> Iterator[Scaling]:
    """Draw ResNet-20's peak for each image on a GPU over the batch, and that of its tensors."""
    drawn, settings = [], {"float32": ("float32", "contiguous"), **MAPPED_SETTINGS}
    for series, name in enumerate(("float32", "channels last", "float16")):
        precision, layout = settings[name]
        known = {}
        for batch in _BATCHES_ON_GPU:
            peak = point(allocated.peak(small(SHOWN, batch, precision, layout)))
            if not isinstance(peak, Missing):
                known[float(batch)] = float(peak) / batch / 1e3
        if known:
            batches, sizes = tuple(known), tuple(known.values())
            drawn.append(Points(name, batches, sizes, series=series, joined=True))
    if drawn:
        tensors = (tensors_of(small(SHOWN, batch)) / batch / 1e3 for batch in _BATCHES_ON_GPU)
        count = Curve("tensors", tuple(map(float, _BATCHES_ON_GPU)), tuple(tensors))
        yield Scaling(
            "Batch size (images)", "Peak for each image (kB)", tuple(drawn), (count,),
            x_ticks=(64.0, 1024.0, 16_384.0, 262_144.0), y_scale="linear", y_from_zero=True,
        )  # fmt: skip
