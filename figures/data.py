"""The data that a figure draws, as rows of one long table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Final, TypeAlias

from figures.bars import Bars
from figures.canvas import Drawing, Panel
from figures.dots import Dots
from figures.roofline import Roofline
from figures.scaling import Scaling
from figures.timeline import Timeline
from figures.waterfall import Waterfall

#: What the columns hold: a point of ``series`` that has a name or lies ``at`` a place, with its
#: value and the ends of its interval; None where there is none.
COLUMNS: Final = (
    "panel", "series", "name", "at_label", "at", "value_label", "value", "low", "high",
)  # fmt: skip

Row: TypeAlias = tuple[str | float | None, ...]


def rows(drawing: Drawing) -> Iterator[Row]:
    """All that is drawn in numbers, panel by panel; nothing of pictures and diagrams."""
    for number, panel in enumerate(drawing.panels, start=1):
        title = getattr(panel, "title", "") or str(number)
        yield from ((title, *row) for row in _of_panel(panel))


def _of_panel(panel: Panel) -> Iterator[Row]:
    match panel:
        case Scaling():
            yield from _of_scaling(panel)
        case Roofline():
            yield from _of_roofline(panel)
        case Bars() | Dots():
            yield from _of_named(panel)
        case Timeline():
            yield from _of_timeline(panel)
        case Waterfall():
            bars = (panel.start, *panel.terms, panel.total, panel.measured, panel.residual)
            for bar in bars:
                if bar:
                    yield "", bar.name, None, None, panel.unit, bar.amount, None, None


def _of_scaling(panel: Scaling) -> Iterator[Row]:
    x, y = panel.x_label, panel.y_label
    for points in panel.points:
        yield from _points(points.label, x, points.x, y, points.y, points.low, points.high)
    for curve in panel.curves:
        yield from _points(curve.label, x, curve.x, y, curve.y)
    for band in panel.bands:
        yield band.label, None, None, None, y, band.middle, band.low, band.high


def _of_roofline(panel: Roofline) -> Iterator[Row]:
    x, y = panel.x_label, panel.y_label
    for roof in panel.roofs:
        for name, ceiling in (("peak", roof.peak), ("bandwidth", roof.bandwidth)):
            ends = ceiling.middle, ceiling.low, ceiling.high
            yield roof.label, name, None, None, y if name == "peak" else f"{y} / {x}", *ends
    for cache in panel.caches:
        ends = cache.bandwidth.middle, cache.bandwidth.low, cache.bandwidth.high
        yield cache.label, "bandwidth", None, None, f"{y} / {x}", *ends
    for marks in panel.marks:
        yield from _points(marks.label, x, marks.x, y, marks.y, names=marks.names)


def _of_named(panel: Bars | Dots) -> Iterator[Row]:
    for name, line in panel.lines if isinstance(panel, Dots) else ():
        yield "", name, None, None, panel.x_label, line, None, None
    for series in panel.series:
        low, high = (getattr(series, end, ()) for end in ("low", "high"))
        ends = zip_longest(panel.names, series.x, low, high)
        for name, found, below, above in ends:
            for value in found if isinstance(found, tuple) else (found,):
                yield series.label, name, None, None, panel.x_label, value, below, above


def _of_timeline(panel: Timeline) -> Iterator[Row]:
    """Each span by its start and its end."""
    for lane in panel.lanes:
        for span in lane.spans:
            name = f"{lane.name}: {span.label}" if span.label else lane.name
            kind, label = panel.kinds[span.kind], panel.x_label
            yield kind, name, f"start, {label}", span.start, f"end, {label}", span.end, None, None
    if panel.level:
        level = panel.level
        yield from _points(level.label, panel.x_label, level.x, level.label, level.y)


def _points(
    series: str,
    x_label: str,
    x: Sequence[float],
    y_label: str,
    y: Sequence[float],
    low: Sequence[float] = (),
    high: Sequence[float] = (),
    *,
    names: Sequence[str] = (),
) -> Iterator[Row]:
    for at, value, below, above, name in zip_longest(x, y, low, high, names):
        yield series, name, x_label, at, y_label, value, below, above
