"""What ran when: bars in lanes over one axis of time, with a changing level below them.

Every kind of work has a colour and a hatching of its own, so that none needs its colour to be seen.
A bar carries its label where there is room for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from figures import style
from figures.canvas import Drawn, Panel, Row
from figures.labels import legend_above, name_rows
from figures.points import Points

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Inches: a lane, the room for a level, all else.
_LANE, _LEVEL, _REST = 0.22, 0.95, 0.85
_BAR: Final = 0.74
#: The part of the figure's width that its axes take, about; it decides which labels have room.
_AXES_SHARE: Final = 0.8
#: Brightness (0 to 1) below which white type is read better than black.
_DARK: Final = 0.45
#: The part of the room for a level that its axes take.
_LEVEL_SHARE: Final = 0.7


@dataclass(frozen=True)
class Span:
    """Work of a kind from ``start`` to ``end`` in the unit of the axis."""

    start: float
    end: float
    kind: int
    label: str = ""


@dataclass(frozen=True)
class Lane:
    """A row of spans that do not overlap."""

    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Level:
    """A quantity that holds ``y[i]`` from ``x[i]`` on, from 0 before the first."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]


@dataclass(frozen=True)
class Timeline(Panel):
    """A finished description; ``kinds`` are the words of the legend, by the spans' numbers."""

    lanes: tuple[Lane, ...]
    kinds: tuple[str, ...]
    x_label: str
    level: Level | None = None
    title: str = ""

    @property
    def end(self) -> float:
        """The last moment at which something ran."""
        return max((span.end for lane in self.lanes for span in lane.spans), default=0.0)

    @property
    def height(self) -> float:
        """The height in inches that leaves every lane its room."""
        return round(_REST + _LANE * len(self.lanes) + (_LEVEL if self.level else 0.0), 2)

    def draw(self, axes: Axes) -> Drawn:
        """The lanes, and the level in a part of the place of ``axes``."""
        lanes, last = axes, axes
        if self.level:
            lanes, last = self._divided(axes)
            self._draw_level(self.level, last)
            lanes.tick_params(axis="x", length=0, labelbottom=False)
        for row, lane in enumerate(self.lanes):
            for span in lane.spans:
                self._draw_span(span, row, lanes)
        name_rows([lane.name for lane in self.lanes], lanes)
        lanes.grid(visible=False, axis="y")
        lanes.set_title(self.title, loc="left")
        last.set_xlabel(self.x_label)
        for part in (lanes, last):
            part.set_xlim(0.0, self.end or 1.0)
        self._draw_legend(lanes)
        return []

    def _divided(self, axes: Axes) -> tuple[Axes, Axes]:
        place, whole = axes.get_subplotspec(), axes.get_figure(root=True)
        assert place and whole, "a timeline stands in a grid of panels"
        axes.remove()
        shares = (_LANE * len(self.lanes), _LEVEL * _LEVEL_SHARE)
        parts = place.subgridspec(2, 1, height_ratios=shares, hspace=0.08)
        return whole.add_subplot(parts[0, 0]), whole.add_subplot(parts[1, 0])

    def _draw_span(self, span: Span, row: int, axes: Axes) -> None:
        colour, hatch = style.colour(span.kind), style.hatching(span.kind)
        axes.barh(
            row,
            span.end - span.start,
            left=span.start,
            height=_BAR,
            color=colour,
            edgecolor="white",
            linewidth=0.3,
            hatch=hatch,
        )
        dark = not hatch and _brightness(colour) < _DARK
        text = axes.text(
            (span.start + span.end) / 2,
            row,
            span.label,
            ha="center",
            va="center",
            fontsize=style.SMALL,
            color="white" if dark else style.INK,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6} if hatch else None,
        )
        whole = axes.get_figure(root=True)
        assert whole
        room = whole.bbox.width * _AXES_SHARE * (span.end - span.start) / self.end
        if text.get_window_extent().width + whole.dpi / 36 >= room:
            text.remove()

    def _draw_level(self, level: Level, axes: Axes) -> None:
        x, y = (0.0, *level.x, max(self.end, *level.x)), (0.0, *level.y, level.y[-1])
        axes.fill_between(x, y, step="post", color=style.GRID, linewidth=0)
        axes.step(x, y, where="post", color=style.INK, linewidth=0.8)
        axes.set_ylabel(level.label)
        axes.set_ylim(bottom=min(0.0, *level.y))

    def _draw_legend(self, axes: Axes) -> None:
        from matplotlib.patches import Patch

        used = {span.kind for lane in self.lanes for span in lane.spans}
        handles = [
            Patch(
                facecolor=style.colour(kind),
                edgecolor="white",
                hatch=style.hatching(kind),
                label=style.legend_label(name),
            )
            for kind, name in enumerate(self.kinds)
            if kind in used
        ]
        if len(handles) > 1:
            legend_above(axes, len(handles), handles=handles, handlelength=1.6)

    def rows(self) -> Iterator[Row]:
        """Each span by its start and its end, then the level."""
        start, end = f"start, {self.x_label}", f"end, {self.x_label}"
        for lane in self.lanes:
            for span in lane.spans:
                name = f"{lane.name}: {span.label}" if span.label else lane.name
                yield self.kinds[span.kind], name, start, span.start, end, span.end, None, None
        if level := self.level:
            yield from Points(level.label, level.x, level.y).rows(self.x_label, level.label)


def _brightness(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.1), of a colour written as #rrggbb."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
