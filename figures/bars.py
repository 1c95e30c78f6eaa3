"""Named rows with horizontal bars: side by side, or one after another as a sum."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The part of a row that its bars fill.
FILLED: Final = 0.78
LEGEND_COLUMNS: Final = 3
#: Inches: a bar side by side, a row at least, all that is not rows, a line of the legend.
_BAR, _ROW, _REST, _LEGEND_LINE = 0.115, 0.24, 0.62, 0.15


@dataclass(frozen=True)
class BarSeries:
    """One bar a row; None where a row has none."""

    label: str
    x: tuple[float | None, ...]
    series: int = 0


@dataclass(frozen=True)
class Bars:
    """A finished description: the names of the rows from top to bottom, and their bars.

    ``stacked`` puts the bars of a row one after another from zero: those above zero to the right,
    those below to the left.  The axis always has its zero, since the lengths of bars are compared.
    """

    names: tuple[str, ...]
    series: tuple[BarSeries, ...]
    x_label: str
    stacked: bool = False
    reference: float | None = None
    title: str = ""

    @property
    def height(self) -> float:
        """The height in inches that leaves every row its room."""
        bars = 1 if self.stacked else len(self.series)
        lines = -(-len(self.series) // LEGEND_COLUMNS)
        row = max(_ROW, _BAR * bars / FILLED)
        return round(_REST + _LEGEND_LINE * lines + row * len(self.names), 2)
