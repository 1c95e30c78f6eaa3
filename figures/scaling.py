"""A quantity over an ordered factor: points with intervals, lines of theory, bands of ceilings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from figures import style
from figures.canvas import Drawn, Panel, Row
from figures.labels import fits, label_ends, legend_above, say_not_measured
from figures.points import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Labels that an axis has room for; of more levels every second or third has one.
_MOST_TICKS: Final = 24
#: Columns of a legend, where there is room for them.
_COLUMNS: Final = 2
#: The share of the axis that one line of a legend needs.
_ROOM_A_LINE: Final = 0.13


@dataclass(frozen=True)
class Curve:
    """A line of theory, which was computed and not measured; dotted for a ``part`` of it."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    part: bool = False


@dataclass(frozen=True)
class Band:
    """A horizontal line with its interval over the whole width, such as a measured ceiling."""

    label: str
    low: float
    middle: float
    high: float
    series: int = 0


@dataclass(frozen=True)
class Scaling(Panel):
    """A finished description of the figure: what is drawn, in the units of its labels.

    ``direct`` says that the names of points stand at the right ends of their lines, and in no
    legend.  ``y_top`` and ``y_bottom`` are the ends of the axis, where the data do not set them.
    """

    x_label: str
    y_label: str
    points: tuple[Points, ...] = ()
    curves: tuple[Curve, ...] = ()
    bands: tuple[Band, ...] = ()
    x_ticks: tuple[float, ...] = ()
    x_scale: Literal["linear", "log"] = "log"
    y_scale: Literal["linear", "log"] = "log"
    y_from_zero: bool = False
    title: str = ""
    direct: bool = False
    y_top: float | None = None
    y_bottom: float | None = None

    def draw(self, axes: Axes) -> Drawn:
        """Bands, curves and points; the names of those that are labelled directly come last."""
        for band in self.bands:
            colour, label = style.colour(band.series), "" if self.direct else band.label
            axes.axhspan(
                band.low,
                band.high,
                color=colour,
                alpha=0.25,
                linewidth=0,
                label=style.legend_label(label),
            )
            axes.axhline(band.middle, color=colour, linewidth=0.7)
        curves: Drawn = [
            (
                curve,
                axes.plot(
                    curve.x,
                    curve.y,
                    color=style.THEORY,
                    dashes=(1.5, 1.5) if curve.part else (4, 2),
                    label=style.legend_label(curve.label),
                    zorder=1.5,
                ),
            )
            for curve in self.curves
        ]
        points: Drawn = [
            (each, each.draw(axes, label="" if self.direct else each.label)) for each in self.points
        ]
        if not (points or curves):
            say_not_measured(axes)
        self._scale(axes)
        return [*points, *curves]

    def _scale(self, axes: Axes) -> None:
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.set_xscale(self.x_scale, **({"base": 2} if self.x_scale == "log" else {}))
        axes.set_yscale(self.y_scale)
        if self.x_ticks:
            ticks = self.x_ticks[:: -(-len(self.x_ticks) // _MOST_TICKS)]
            axes.set_xticks(ticks, labels=[f"{tick:,.10g}" for tick in ticks])
        if self.y_from_zero:
            axes.set_ylim(bottom=0)
        if self.y_top is not None:
            axes.set_ylim(bottom=self.y_bottom, top=self.y_top)

    def finish(self, axes: Axes) -> None:
        """The ticks, and the names of the series."""
        if self.y_scale == "log":
            style.plain_log_ticks(axes.yaxis)
        self._name_series(axes)
        if self.direct:
            ends = [(p.label, p.y[-1], p.series) for p in self.points if p.label]
            label_ends([*ends, *((b.label, b.middle, b.series) for b in self.bands)], axes)

    def _name_series(self, axes: Axes) -> None:
        """The title, and the legend where there is more than one entry.

        A legend above the axes covers no point and no interval, and carries the title; where the
        panel is too narrow for it, it stands where it covers least.
        """
        entries = len(axes.get_legend_handles_labels()[1])
        if entries > 1 and self.bands and self.y_from_zero:
            self._legend_inside(axes, entries)
        elif entries > 1:
            heading = {"title": self.title or None, "title_fontsize": "medium", "alignment": "left"}
            if fits(legend := legend_above(axes, _COLUMNS, _COLUMNS, **heading), axes):
                return
            legend.remove()
            axes.legend(loc="best", borderaxespad=0.3)
        if self.title:
            axes.set_title(self.title, loc="left")

    def _legend_inside(self, axes: Axes, entries: int) -> None:
        """A band spans the whole width, so that a legend finds room only above it."""
        for columns in (_COLUMNS, 1):
            legend = axes.legend(loc="upper center", borderaxespad=0.2, ncols=columns)
            if fits(legend, axes):
                break
        lines = -(-entries // columns)
        axes.set_ylim(top=axes.get_ylim()[1] * (1 + _ROOM_A_LINE * lines))

    def rows(self) -> Iterator[Row]:
        """Points, curves and bands."""
        x, y = self.x_label, self.y_label
        for points in self.points:
            yield from points.rows(x, y)
        for curve in self.curves:
            yield from Points(curve.label, curve.x, curve.y).rows(x, y)
        for band in self.bands:
            yield band.label, None, None, None, y, band.middle, band.low, band.high
