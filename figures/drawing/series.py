"""Where the series of a drawn figure lie, so that a page can show their values and hide them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from figures.canvas import Panel
from figures.drawing import style
from figures.roofline import Marks, Roofline
from figures.scaling import Curve, Points, Scaling

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

_Described: TypeAlias = Points | Marks | Curve


@dataclass(frozen=True)
class Series:
    """A series of one panel: the ids of its elements in the SVG, and its points.

    A point is its distance from the left and from the top as a share of the figure, and its value
    in words.
    """

    name: str
    ids: tuple[str, ...]
    points: tuple[tuple[float, float, str], ...]


def name_series(axes: Sequence[Axes], panels: Iterable[Panel], prefix: str) -> tuple[Series, ...]:
    """The series of rooflines and scaling figures; ids of their artists begin with ``prefix``.

    The axes are drawn from ``panels`` and laid out.
    """
    return tuple(
        _marked(described, artists, panel, where, f"{prefix}-{number}-{order}")
        for number, (where, panel) in enumerate(zip(axes, panels, strict=False))
        if isinstance(panel, Roofline | Scaling)
        for order, (described, artists) in enumerate(_found(panel, where))
    )


def _found(panel: Roofline | Scaling, axes: Axes) -> Iterator[tuple[_Described, list[Artist]]]:
    """Each described series with what it was drawn as."""
    described = panel.points if isinstance(panel, Scaling) else panel.marks
    barred = [each for each in described if not getattr(each, "many", False)]
    for each, container in zip(barred, axes.containers, strict=True):
        yield each, list(container.get_children())
    lines = {line.get_label(): line for line in axes.lines}
    others: tuple[_Described, ...] = (
        panel.curves if isinstance(panel, Scaling) else tuple(m for m in panel.marks if m.many)
    )
    for other in others:
        if line := lines.get(style.legend_label(other.label)):
            yield other, [line]


def _marked(
    described: _Described, artists: list[Artist], panel: Roofline | Scaling, axes: Axes, prefix: str
) -> Series:
    ids = tuple(f"{prefix}-{number}" for number in range(len(artists)))
    for id, artist in zip(ids, artists, strict=True):
        artist.set_gid(id)
    places = _places(described, axes)
    words = _words(described, panel)
    points = tuple(
        (x, y, text)
        for (x, y), text in zip(places, words, strict=True)
        if math.isfinite(x + y) and 0 <= x <= 1 and 0 <= y <= 1
    )
    return Series(described.label, ids, points)


def _places(described: _Described, axes: Axes) -> list[tuple[float, float]]:
    figure = axes.get_figure(root=True)
    assert figure is not None
    if not described.x:
        return []
    pairs = list(zip(described.x, described.y, strict=True))
    shares = figure.transFigure.inverted().transform(axes.transData.transform(pairs))
    return [(round(float(x), 4), round(1 - float(y), 4)) for x, y in shares]


def _words(described: _Described, panel: Roofline | Scaling) -> Iterator[str]:
    low, high = getattr(described, "low", ()), getattr(described, "high", ())
    names = getattr(described, "names", ())
    for number, (x, y) in enumerate(zip(described.x, described.y, strict=True)):
        name = names[number] if number < len(names) and names[number] else ""
        interval = f" [{low[number]:,.4g}, {high[number]:,.4g}]" if low else ""
        yield (
            f"{described.label}{f', {name}' if name else ''}. "
            f"{panel.y_label}: {y:,.4g}{interval}. {panel.x_label}: {x:,.6g}."
        )
