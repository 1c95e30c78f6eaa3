"""Published rates of many networks under the data-sheet roof of a card, as a figure draws them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from figures.roofline import Ceiling, Marks, RoofLine, Roofline
from report.evidence.published_rates import Row
from report.evidence.published_survey import Roof
from report.paper.roofs import TERA

#: GB/s in a TB/s.
_GIGA: Final = 1000
#: A panel without a card.
EMPTY = Roofline("Intensity (FLOP/B)", "Rate (TFLOP/s)", ())


def sheet_panel(title: str, roof: Roof, drawn: Iterable[Marks]) -> Roofline:
    """Points under the roof of one card, in TFLOP/s."""
    peak, bandwidth = (Ceiling(*3 * [each / TERA]) for each in (roof.peak, roof.bandwidth))
    ceilings = f"{peak.middle:g} TFLOP/s, {bandwidth.middle * _GIGA:,.0f} GB/s"
    line = RoofLine(f"data sheet: {ceilings}", peak, bandwidth, "sheet")
    title = f"{title}: ridge at {line.ridge:.0f} FLOP/B"
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
    """Achieved rates (TFLOP/s) over intensities, a point a row, of networks or ``names``."""
    shown = tuple(rows)
    names = names or [row.network for row in shown]
    x, y = (row.intensity(fused=fused) for row in shown), (row.work / TERA for row in shown)
    return Marks(label, tuple(x), tuple(y), series=series, names=tuple(names), many=many)
