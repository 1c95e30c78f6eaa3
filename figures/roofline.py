"""Draw rooflines: achieved rates against arithmetic intensity, under the roofs of a device.

See Williams, Waterman and Patterson (CACM 2009).  A roof has a horizontal part at the peak rate and
a slope, which is the bandwidth.  A band shows the intervals of peak rate and bandwidth.
"""

from itertools import cycle
from typing import Final

from matplotlib.axes import Axes

from figures import style
from figures.labels import DrawnSeries, plain_log_ticks, say_not_measured
from figures.panels import DrawnRoof, Points, Roofline
from figures.points import draw_points

#: Factor by which the axes extend beyond marks and roofs.
_MARGIN: Final = 2.5
#: Height of a line of the legend, as a share of the logarithmic axis.
_LEGEND_LINE_SHARE: Final = 0.07
#: Length (decades) of an axis from which only powers of ten have ticks.
_MANY_DECADES: Final = 1.9
#: Line styles that distinguish roofs, because all roofs have one colour.
_LINE_STYLES: Final = ("solid", "dashed", "dotted")
#: Position of the label "memory" as a share of the visible slope, from its lower end to the ridge.
_MEMORY_LABEL_SHARE: Final = 0.45
#: Offsets (x, y) of a name from its mark, for even and odd style numbers.  Names are below marks,
#: where no roof can be.  The offsets differ, so that the names of two near marks do not overlap.
_NAME_OFFSETS_PT: Final = ((4, -1), (-3, -5))


def draw(panel: Roofline, axes: Axes) -> DrawnSeries:
    """Draw the marks, and set the limits of the axes with room for the roofs and the legend."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    drawn: DrawnSeries = []
    for marks in panel.marks:
        drawn.append((marks, draw_points(marks, axes, label=marks.label, alpha=0.85)))
    x: list[float] = []
    y: list[float] = []
    for roof in panel.roofs:
        _, _, highest_peak = roof.peak
        x.append(roof.ridge)
        y.append(highest_peak)
    for marks in panel.marks:
        x += marks.x
        y += marks.y
    if x:
        axes.set_xlim(min(x) / _MARGIN, max(x) * _MARGIN)
        low, high = min(y) / _MARGIN, max(y) * _MARGIN
        # The legend is above the roofs, where no marks are; extend the logarithmic axis for it.
        legend_share = _LEGEND_LINE_SHARE * _legend_lines(panel)
        axes.set_ylim(low, high * (high / low) ** legend_share)
    else:
        say_not_measured(axes)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.set_title(panel.title, loc="left")
    return drawn


def _legend_lines(panel: Roofline) -> int:
    """Count the lines of the legend; 0 for a single label, because then there is no legend."""
    labels = [roof.label for roof in panel.roofs if roof.label]
    labels += [marks.label for marks in panel.marks if marks.label]
    return len(labels) if len(labels) > 1 else 0


def finish(panel: Roofline, axes: Axes) -> None:
    """Draw the roofs from edge to edge, the names of the marks, and the legend."""
    x_limits = axes.get_xlim()
    for roof, line_style in zip(panel.roofs, cycle(_LINE_STYLES), strict=False):
        _, peak, _ = roof.peak
        _, bandwidth, _ = roof.bandwidth
        x, y = _roof_line(peak, bandwidth, x_limits)
        axes.plot(
            x,
            y,
            color=style.INK,
            linewidth=1.0,
            linestyle=line_style,
            label=style.legend_label(roof.label),
            zorder=1.5,
        )
        _fill_interval(roof, x_limits, axes)
        if not roof.label:
            _name_parts(roof, axes)
    for marks in panel.marks:
        _write_names(marks, axes)
    if _legend_lines(panel):
        axes.legend(loc="upper left", borderaxespad=0.2, handletextpad=0.4, labelspacing=0.25)
    plain_log_ticks(axes.xaxis, _MANY_DECADES)
    plain_log_ticks(axes.yaxis, _MANY_DECADES)


def _name_parts(roof: DrawnRoof, axes: Axes) -> None:
    """Label the horizontal part of a roof "arithmetic" and its slope "memory"."""
    left, right = axes.get_xlim()
    bottom, _ = axes.get_ylim()
    _, peak, _ = roof.peak
    _, bandwidth, _ = roof.bandwidth
    axes.text(right, peak, "arithmetic", fontsize=style.SMALL_PT, ha="right", va="bottom")
    slope_start = max(left, bottom / bandwidth)  # where the slope enters the axes
    x = slope_start * (roof.ridge / slope_start) ** _MEMORY_LABEL_SHARE
    axes.text(
        x,
        bandwidth * x,
        "memory",
        fontsize=style.SMALL_PT,
        ha="center",
        va="center",
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        zorder=1.6,
    )


def _roof_line(
    peak: float, bandwidth: float, x_limits: tuple[float, float]
) -> tuple[list[float], list[float]]:
    """Return the x and y coordinates of a roof between ``x_limits``, including a visible ridge."""
    left, right = x_limits
    ridge = peak / bandwidth
    x = [left, ridge, right] if left < ridge < right else [left, right]
    return x, [min(peak, intensity * bandwidth) for intensity in x]


def _fill_interval(roof: DrawnRoof, x_limits: tuple[float, float], axes: Axes) -> None:
    """Fill the area between the roof of the intervals' lower ends and that of their upper ends."""
    low_peak, _, high_peak = roof.peak
    low_bandwidth, _, high_bandwidth = roof.bandwidth
    if low_peak < high_peak or low_bandwidth < high_bandwidth:
        low_x, low_y = _roof_line(low_peak, low_bandwidth, x_limits)
        high_x, high_y = _roof_line(high_peak, high_bandwidth, x_limits)
        outline_x = [*low_x, *reversed(high_x)]
        outline_y = [*low_y, *reversed(high_y)]
        axes.fill(outline_x, outline_y, color=style.INK, alpha=0.2, linewidth=0, zorder=1.4)


def _write_names(marks: Points, axes: Axes) -> None:
    """Write the names of marks below them, if they have names."""
    for x, y, name in zip(marks.x, marks.y, marks.names, strict=False):
        axes.annotate(
            name,
            (x, y),
            _NAME_OFFSETS_PT[marks.style_number % 2],
            textcoords="offset points",
            fontsize=style.SMALL_PT,
            color=style.colour(marks.style_number),
            ha="left",
            va="top",
            zorder=1.9,  # below all marks, so that names cover no mark
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
        )
