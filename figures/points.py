"""Draw points with intervals, for scaling panels and rooflines."""

from typing import Final

from matplotlib.artist import Artist
from matplotlib.axes import Axes

from figures import style
from figures.panels import Points

#: Diameter of the points of a series with ``small``.
_SMALL_DIAMETER_PT: Final = 2.2


def draw_points(
    points: Points, axes: Axes, *, label: str, alpha: float | None = None
) -> list[Artist]:
    """Draw the points as a series with ``label``.

    Returns the artists for which a page shows values when a reader points at them.  The list is
    empty for a series of ``small`` points, because such a series has too many points.
    """
    colour = style.PALE if points.pale else style.colour(points.style_number)
    if points.small:
        (marks,) = axes.plot(
            points.x, points.y, "o", color=colour, markersize=_SMALL_DIAMETER_PT, alpha=0.6
        )
        marks.set(markeredgewidth=0, label=style.legend_label(label))
        return []
    errors = None
    if points.low:
        below = [y - low for y, low in zip(points.y, points.low, strict=True)]
        above = [high - y for y, high in zip(points.y, points.high, strict=True)]
        errors = (below, above)
    container = axes.errorbar(
        [x + points.shift for x in points.x],
        points.y,
        yerr=errors,
        color=colour,
        marker=style.marker(points.style_number),
        markerfacecolor="white" if points.hollow else colour,
        markersize=style.RING_PT if points.hollow else None,
        zorder=2.0 if points.hollow else 2.1,
        markeredgewidth=0.9,
        linestyle="-" if points.joined else "none",
        linewidth=0.8,
        elinewidth=0.9,
        capsize=1.6,
        alpha=alpha,
        label=style.legend_label(label),
    )
    return list(container.get_children())
