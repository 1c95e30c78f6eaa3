"""Points in a plane, with their intervals: the marks of figures of scaling and of rooflines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from figures import style

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from figures.canvas import Row

#: The diameter of a point of many (pt).
_SMALL: Final = 2.2


@dataclass(frozen=True)
class Points:
    """Measured or reported points; ``joined`` only where the factor is ordered and complete.

    ``low`` and ``high`` are the ends of the intervals, empty where there are none.  ``names`` stand
    beside the points; an empty one is not drawn.  Of ``many`` none is meant by itself, so that they
    are small.
    """

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    series: int = 0
    hollow: bool = False
    joined: bool = False
    many: bool = False
    names: tuple[str, ...] = ()

    def draw(self, axes: Axes, *, label: str, alpha: float | None = None) -> list[Artist]:
        """Draw the points under ``label``; returns what they are, nothing for ``many``."""
        colour = style.colour(self.series)
        if self.many:
            (marks,) = axes.plot(self.x, self.y, "o", color=colour, markersize=_SMALL, alpha=0.6)
            marks.set(markeredgewidth=0, label=style.legend_label(label))
            return []
        errors = None
        if self.low:
            below = [y - low for y, low in zip(self.y, self.low, strict=True)]
            above = [high - y for y, high in zip(self.y, self.high, strict=True)]
            errors = (below, above)
        container = axes.errorbar(
            self.x,
            self.y,
            yerr=errors,
            color=colour,
            marker=style.marker(self.series),
            markerfacecolor="white" if self.hollow else colour,
            markersize=style.RING if self.hollow else None,
            zorder=2.0 if self.hollow else 2.1,
            markeredgewidth=0.9,
            linestyle="-" if self.joined else "none",
            linewidth=0.8,
            elinewidth=0.9,
            capsize=1.6,
            alpha=alpha,
            label=style.legend_label(label),
        )
        return list(container.get_children())

    def rows(self, x_label: str, y_label: str) -> Iterator[Row]:
        """The points for the data of a panel with these labels."""
        found = zip_longest(self.x, self.y, self.low, self.high, self.names)
        for x, y, low, high, name in found:
            yield self.label, name, x_label, x, y_label, y, low, high
