"""Draws what ran when: bars in lanes over one axis of time, and below them a level.

Every kind of work has a colour and a hatching of its own, so that none needs its colour to be seen.
A bar carries its label where there is room for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from figures.drawing import style
from figures.drawing.fonts import ink_width
from figures.drawing.labels import legend_above
from figures.timeline import LANE, LEVEL, Level, Span, Timeline

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BAR: Final = 0.74
#: The part of the figure's width that its axes take, about; it decides which labels have room.
_AXES_SHARE: Final = 0.8
_POINTS_AN_INCH: Final = 72.0
#: Brightness (0 to 1) below which white type is read better than black.
_DARK: Final = 0.45
#: The part of the room for a level that its axes take.
_LEVEL_SHARE: Final = 0.7


def draw(figure: Timeline, axes: Axes) -> None:
    """Draw ``figure`` in the place of ``axes``, which it divides where there is a level."""
    lanes, below = _divided(figure, axes)
    for row, lane in enumerate(figure.lanes):
        for span in lane.spans:
            _draw_span(span, row, figure, lanes)
    lanes.set_yticks(range(len(figure.lanes)), labels=[lane.name for lane in figure.lanes])
    lanes.set_ylim(len(figure.lanes) - 0.45, -0.55)
    lanes.tick_params(axis="y", length=0)
    lanes.grid(visible=False, axis="y")
    lanes.set_title(figure.title, loc="left")
    if below is not None and figure.level is not None:
        _draw_level(figure.level, figure.end, below)
        lanes.tick_params(axis="x", length=0, labelbottom=False)
    last = lanes if below is None else below
    last.set_xlabel(figure.x_label)
    for part in (lanes, last):
        part.set_xlim(0.0, figure.end or 1.0)
    _draw_legend(figure, lanes)


def _divided(figure: Timeline, axes: Axes) -> tuple[Axes, Axes | None]:
    if figure.level is None:
        return axes, None
    place, whole = axes.get_subplotspec(), axes.get_figure(root=True)
    if place is None or whole is None:
        raise ValueError("a timeline with a level needs axes of a grid of subplots")
    axes.remove()
    shares = (LANE * len(figure.lanes), LEVEL * _LEVEL_SHARE)
    parts = place.subgridspec(2, 1, height_ratios=shares, hspace=0.08)
    return whole.add_subplot(parts[0, 0]), whole.add_subplot(parts[1, 0])


def _draw_span(span: Span, row: int, figure: Timeline, axes: Axes) -> None:
    colour = style.colour(span.kind)
    axes.barh(
        row,
        span.end - span.start,
        left=span.start,
        height=_BAR,
        color=colour,
        edgecolor="white",
        linewidth=0.3,
        hatch=style.HATCHES[span.kind % len(style.HATCHES)],
    )
    if not span.label or not _fits(span, figure, axes):
        return
    plain = span.kind % len(style.HATCHES) == 0
    box = None if plain else {"facecolor": "white", "edgecolor": "none", "pad": 0.6}
    axes.text(
        (span.start + span.end) / 2,
        row,
        span.label,
        ha="center",
        va="center",
        fontsize=style.SMALL,
        color="white" if plain and _brightness(colour) < _DARK else style.INK,
        bbox=box,
    )


def _fits(span: Span, figure: Timeline, axes: Axes) -> bool:
    whole = axes.get_figure(root=True)
    if whole is None or not figure.end:
        return False
    inches = whole.get_size_inches()[0] * _AXES_SHARE * (span.end - span.start) / figure.end
    return bool(ink_width(span.label, style.SMALL) + 2 < inches * _POINTS_AN_INCH)


def _brightness(colour: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.1), of a colour written as #rrggbb."""
    parts = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _draw_level(level: Level, end: float, axes: Axes) -> None:
    x, y = (0.0, *level.x, max(end, *level.x)), (0.0, *level.y, level.y[-1])
    axes.fill_between(x, y, step="post", color=style.GRID, linewidth=0)
    axes.step(x, y, where="post", color=style.INK, linewidth=0.8)
    axes.set_ylabel(level.label)
    axes.set_ylim(bottom=min(0.0, *level.y))


def _draw_legend(figure: Timeline, axes: Axes) -> None:
    from matplotlib.patches import Patch

    used = {span.kind for lane in figure.lanes for span in lane.spans}
    handles = [
        Patch(
            facecolor=style.colour(kind),
            edgecolor="white",
            hatch=style.HATCHES[kind % len(style.HATCHES)],
            label=style.legend_label(name),
        )
        for kind, name in enumerate(figure.kinds)
        if kind in used
    ]
    if len(handles) > 1:
        legend_above(axes, len(handles), handles=handles, handlelength=1.6)
