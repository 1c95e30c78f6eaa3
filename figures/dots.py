"""Named rows with a few points each on one scale, beside a line of reference (a dot plot).

After Cleveland, The Elements of Graphing Data, 1994: positions along one scale are compared more
exactly than lengths or areas.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Inches: a row, and all that is not rows.
_ROW, _REST = 0.155, 0.75


@dataclass(frozen=True)
class DotSeries:
    """A point or several a row, or None where a row has none; ``hollow`` ones are rings.

    ``low`` and ``high`` are the ends of the points' intervals, none for a series without; ``inner``
    are those of a thicker line, such as quartiles within outer quantiles.  ``shift`` sets a series
    lower by a part of a row, where lines of two would cover each other.  ``muted`` points are grey:
    there are many, and none of them is meant by itself.
    """

    label: str
    x: tuple[float | tuple[float, ...] | None, ...]
    series: int = 0
    hollow: bool = False
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()
    inner: tuple[tuple[float, float] | None, ...] = ()
    shift: float = 0.0
    muted: bool = False

    @property
    def points(self) -> tuple[tuple[float, float], ...]:
        """All points with the numbers of their rows."""
        return tuple(
            (x, row + self.shift)
            for row, each in enumerate(self.x)
            for x in (each if isinstance(each, tuple) else (each,))
            if x is not None
        )


@dataclass(frozen=True)
class Dots:
    """A finished description: the names of the rows from top to bottom, and their points.

    Ratios on a ``log`` scale are as far from one on either side.  ``lines`` are further values to
    compare with, each with a name that stands above it.  A panel with the rows of the one at its
    left need not be ``named`` again.
    """

    names: tuple[str, ...]
    series: tuple[DotSeries, ...]
    x_label: str
    reference: float | None = None
    title: str = ""
    log: bool = False
    lines: tuple[tuple[str, float], ...] = ()
    named: bool = True

    @property
    def height(self) -> float:
        """The height in inches that leaves every row its room."""
        return round(_REST + _ROW * (len(self.names) + self.legend_below), 2)

    @property
    def legend_below(self) -> bool:
        """Whether a legend takes a row of its own, since a title stands above the rows."""
        return bool(self.title) and sum(bool(series.label) for series in self.series) > 1
