"""Draw named rows of stacked horizontal bars.

Each series has a hatching, so that series can be distinguished without colours.  A row without
measurements is labelled, because a missing bar would look like a measured zero.
"""

from typing import Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import DrawnSeries, legend_above, name_rows
from figures.panels import Bars

#: Height of a bar as a share of the row's height.
_BAR_HEIGHT: Final = 0.702
_LEGEND_COLUMNS: Final = 3


def draw(panel: Bars, axes: Axes) -> DrawnSeries:
    """Draw stacked bars: positive to the right of zero, negative to the left.

    Returns an empty list, because web pages show values only for points and curves.
    """
    right_ends = [0.0] * len(panel.names)
    left_ends = [0.0] * len(panel.names)
    for series in panel.series:
        rows: list[int] = []
        starts: list[float] = []
        lengths: list[float] = []
        for row, length in enumerate(series.x):
            if length is None:
                continue
            ends = left_ends if length < 0 else right_ends
            rows.append(row)
            starts.append(ends[row])
            lengths.append(length)
            ends[row] += length
        axes.barh(
            rows,
            lengths,
            left=starts,
            height=_BAR_HEIGHT,
            facecolor=style.colour(series.style_number),
            alpha=0.85,
            edgecolor="white",
            linewidth=0.3,
            hatch=style.hatching(series.style_number),
            label=style.legend_label(series.label),
        )
        for row, (low, high) in enumerate(zip(series.low, series.high, strict=True)):
            if low is not None and high is not None:
                axes.plot([low, high], [row, row], color=style.INK, linewidth=1.2, marker="|")
    if panel.reference is not None:
        axes.axvline(panel.reference, color=style.INK, linewidth=0.8, dashes=(4, 2))
    for row in range(len(panel.names)):
        if all(series.x[row] is None for series in panel.series):
            axes.annotate(
                "not measured",
                xy=(0.0, row),
                xycoords=("axes fraction", "data"),
                xytext=(3.0, 0.0),
                textcoords="offset points",
                va="center",
                fontsize=style.SMALL_PT,
                color=style.THEORY,
            )
    name_rows(panel.names, axes)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(panel.x_label)
    axes.set_title(panel.title, loc="left")
    if len(panel.series) > 1:
        legend_above(axes, _LEGEND_COLUMNS)
    return []
