"""Published rates of many networks under the data-sheet roof of a card, as a figure draws them."""

from __future__ import annotations

from collections.abc import Iterable

from figures.roofline import Ceiling, Marks, RoofLine, Roofline
from report.evidence.published_gains import Roof
from report.evidence.published_rates import Row
from report.paper.roofs import TERA

#: A panel without a card.
EMPTY = Roofline("Intensity (FLOP/B)", "Rate (TFLOP/s)", ())


def sheet_panel(title: str, roof: Roof, drawn: Iterable[Marks]) -> Roofline:
    """Points under the roof of one card, in TFLOP/s."""
    peak, bandwidth = (Ceiling(*3 * [each / TERA]) for each in (roof.peak, roof.bandwidth))
    line = RoofLine("data sheet", peak, bandwidth, "sheet")
    return Roofline(EMPTY.x_label, EMPTY.y_label, (line,), tuple(drawn), title=title)


def row_marks(
    label: str,
    rows: Iterable[Row],
    series: int,
    names: Iterable[str] = (),
    *,
    many: bool = False,
    fused: bool = True,
) -> Marks:
    """Achieved rates (TFLOP/s) over intensities, a point a row."""
    shown = tuple(rows)
    x, y = (row.intensity(fused=fused) for row in shown), (row.work / TERA for row in shown)
    return Marks(label, tuple(x), tuple(y), series=series, names=tuple(names), many=many)
