"""Achieved rate over arithmetic intensity under the roofs of a device, both axes logarithmic.

After Williams, Waterman and Patterson (CACM 2009).  A measured roof is a line with its interval as
a band, one of a data sheet is dashed, one that somebody else drew is dotted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from figures import style
from figures.canvas import Drawn, Panel, Row
from figures.labels import say_not_measured
from figures.points import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: A limit between the ends of its interval: low, middle, high.
Ceiling: TypeAlias = tuple[float, float, float]

#: How far the axes go beyond what is drawn, as a factor.
_ROOM: Final = 2.5
#: The share of the axis' decades that one line of the legend is given.
_LEGEND_LINE: Final = 0.07
#: Up to this many decades an axis of a small panel has room for ticks at 1, 2 and 5.
_FEW_DECADES: Final = 1.9
#: Where the labels of slopes stand, as shares of the way from where one is seen to its ridge, the
#: slowest first; those of the fastest caches, whose lines lie close, at both ends of them.
_LABEL_PLACES: Final = (0.45, 0.7, 0.35, 0.85)
#: Where a name begins (points from its mark): on the right and below, where no roof can be; those
#: of odd series lower, so that two near marks can have theirs.
_BESIDE: Final = ((4, -1), (-3, -5))
_LINES: Final = {"measured": "-", "sheet": "--", "printed": ":"}


@dataclass(frozen=True)
class RoofLine:
    """``peak`` in the unit of the rates; ``bandwidth`` such that it times an intensity is one."""

    label: str
    peak: Ceiling
    bandwidth: Ceiling
    look: Literal["measured", "sheet", "printed"] = "measured"

    @property
    def ridge(self) -> float:
        """The intensity at which both limits meet."""
        return self.peak[1] / self.bandwidth[1]


@dataclass(frozen=True)
class Roofline(Panel):
    """A finished description of the figure, in the units of its labels.

    All intensities and rates of ``marks`` are above 0: what does no multiply-adds has no place
    here.  ``caches`` are the bandwidths of what lies in one cache, by the names on their lines;
    each leads up to the flat part of the first roof, whose slope is then labelled as memory's.
    """

    x_label: str
    y_label: str
    roofs: tuple[RoofLine, ...]
    marks: tuple[Points, ...] = ()
    title: str = ""
    caches: tuple[tuple[str, Ceiling], ...] = ()

    @property
    def _slopes(self) -> list[tuple[str, Ceiling]]:
        """All slopes under the first roof's flat part, slowest first; none without caches."""
        memory = [("memory", roof.bandwidth) for roof in self.roofs[:1]]
        return sorted([*memory, *self.caches], key=lambda each: each[1][1]) if self.caches else []

    def draw(self, axes: Axes) -> Drawn:
        """The marks, and axes that hold all roofs with room around and for the legend above."""
        axes.set_xscale("log")
        axes.set_yscale("log")
        drawn: Drawn = [
            (each, each.draw(axes, label=each.label, alpha=0.85)) for each in self.marks
        ]
        ridges = [roof.ridge for roof in self.roofs]
        ridges += [self.roofs[0].peak[1] / bandwidth[1] for _, bandwidth in self._slopes]
        x = [*(x for marks in self.marks for x in marks.x), *ridges]
        y = [*(y for marks in self.marks for y in marks.y), *(r.peak[2] for r in self.roofs)]
        if x:
            axes.set_xlim(min(x) / _ROOM, max(x) * _ROOM)
            # Nothing lies above a roof, so that a legend finds room there.
            low, high = min(y) / _ROOM, max(y) * _ROOM
            axes.set_ylim(low, high * (high / low) ** (_LEGEND_LINE * self._entries))
        else:
            say_not_measured(axes)
        axes.set_xlabel(self.x_label)
        axes.set_ylabel(self.y_label)
        axes.set_title(self.title, loc="left")
        return drawn

    @property
    def _entries(self) -> int:
        """The lines of the legend, which one series needs not."""
        labels = [*(roof.label for roof in self.roofs), *(marks.label for marks in self.marks)]
        count = sum(map(bool, labels))
        return count if count > 1 else 0

    def finish(self, axes: Axes) -> None:
        """The roofs from the left edge to the right one, the names of the marks, and the legend."""
        span = axes.get_xlim()
        for roof in self.roofs:
            colour = style.INK if roof.look == "measured" else style.THEORY
            axes.plot(
                *_line(roof.peak[1], roof.bandwidth[1], span),
                color=colour,
                linewidth=1.0,
                label=style.legend_label(roof.label),
                linestyle=_LINES[roof.look],
                zorder=1.5,
            )
            _fill(roof.peak, roof.bandwidth, span, colour, axes)
        for number, slope in enumerate(self._slopes):
            self._draw_slope(*slope, _LABEL_PLACES[number % len(_LABEL_PLACES)], axes)
        for marks in self.marks:
            _name(marks, axes)
        if self._entries:
            axes.legend(loc="upper left", borderaxespad=0.2, handletextpad=0.4, labelspacing=0.25)
        style.plain_log_ticks(axes.xaxis, _FEW_DECADES)
        style.plain_log_ticks(axes.yaxis, _FEW_DECADES)

    def _draw_slope(self, name: str, bandwidth: Ceiling, where: float, axes: Axes) -> None:
        """A slope from the left edge to its ridge and on to the first roof's, with its name on it.

        Names of neighbours stand at different places of their lines, so that none covers another.
        """
        first, left, bottom = self.roofs[0], axes.get_xlim()[0], axes.get_ylim()[0]
        peak, ridge = first.peak[1], first.peak[1] / bandwidth[1]
        span = left, max(ridge, first.ridge)
        line = _line(peak, bandwidth[1], span)
        axes.plot(*line, color=style.INK, linewidth=0.7, zorder=1.45)
        _fill((peak,) * 3, bandwidth, span, style.INK, axes)
        seen = max(left, bottom / bandwidth[1])
        place = seen * (ridge / seen) ** where
        axes.text(
            place,
            bandwidth[1] * place,
            name,
            fontsize=style.SMALL,
            ha="center",
            va="center",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
            zorder=1.6,
        )

    def rows(self) -> Iterator[Row]:
        """The limits of the roofs, the slopes of caches, and the marks."""
        rate, slope = self.y_label, f"{self.y_label} / {self.x_label}"
        for roof in self.roofs:
            yield roof.label, "peak", None, None, rate, *_middle_first(roof.peak)
            yield roof.label, "bandwidth", None, None, slope, *_middle_first(roof.bandwidth)
        for name, bandwidth in self.caches:
            yield name, "bandwidth", None, None, slope, *_middle_first(bandwidth)
        for marks in self.marks:
            yield from marks.rows(self.x_label, rate)


def _middle_first(ceiling: Ceiling) -> tuple[float, float, float]:
    low, middle, high = ceiling
    return middle, low, high


def _line(peak: float, bandwidth: float, span: Sequence[float]) -> tuple[list[float], list[float]]:
    """A roof from one end of ``span`` to the other, with its corner where that lies between."""
    ridge = peak / bandwidth
    x = sorted({*span, *([ridge] if span[0] < ridge < span[1] else [])})
    return x, [min(peak, intensity * bandwidth) for intensity in x]


def _fill(
    peak: Ceiling, bandwidth: Ceiling, span: Sequence[float], colour: str, axes: Axes
) -> None:
    """The interval of a roof or of a slope."""
    if peak[0] < peak[2] or bandwidth[0] < bandwidth[2]:
        low, high = (_line(peak[end], bandwidth[end], span) for end in (0, 2))
        x, y = [*low[0], *high[0][::-1]], [*low[1], *high[1][::-1]]
        axes.fill(x, y, color=colour, alpha=0.2, linewidth=0, zorder=1.4)


def _name(marks: Points, axes: Axes) -> None:
    for x, y, name in zip(marks.x, marks.y, marks.names, strict=False):
        axes.annotate(
            name,
            (x, y),
            _BESIDE[marks.series % 2],
            textcoords="offset points",
            fontsize=style.SMALL,
            color=style.colour(marks.series),
            ha="left",
            va="top",
            zorder=1.9,  # Below all marks, so that a name hides none.
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.4, "alpha": 0.8},
        )
