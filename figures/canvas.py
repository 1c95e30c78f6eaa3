"""From a description to bytes: PDF for print and SVG for the page, the same in every build."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from figures import bars, diagram, dots, image_grid, roofline, scaling, style, timeline, waterfall

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: What can stand in one panel of a figure.
Panel: TypeAlias = (
    bars.Bars
    | diagram.Diagram
    | dots.Dots
    | image_grid.ImageGrid
    | roofline.Roofline
    | scaling.Scaling
    | timeline.Timeline
    | waterfall.Waterfall
)


@dataclass(frozen=True)
class Drawing:
    """A figure of a paper: its panels side by side, its width and its height in inches."""

    panels: tuple[Panel, ...]
    wide: bool = False
    height: float = 2.3


@dataclass(frozen=True)
class Rendered:
    """The finished figure in both formats."""

    pdf: bytes
    svg: bytes


def render(drawing: Drawing, salt: str) -> Rendered:
    """Draw ``drawing``; ``salt`` (its id) keeps the ids inside several SVGs of a page apart."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    width = style.PAGE_INCHES if drawing.wide else style.COLUMN_INCHES
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **style.RC, "svg.hashsalt": salt}
    # The defaults come first, so that a user's matplotlibrc changes nothing.
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, drawing.height), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, panel in zip(
            figure.subplots(1, len(drawing.panels), squeeze=False)[0], drawing.panels, strict=True
        ):
            _draw(panel, axes)
        return Rendered(_saved(figure, "pdf"), _saved(figure, "svg"))


def _draw(panel: Panel, axes: Axes) -> None:
    match panel:
        case bars.Bars():
            bars.draw(panel, axes)
        case diagram.Diagram():
            diagram.draw(panel, axes)
        case dots.Dots():
            dots.draw(panel, axes)
        case image_grid.ImageGrid():
            image_grid.draw(panel, axes)
        case roofline.Roofline():
            roofline.draw(panel, axes)
        case scaling.Scaling():
            scaling.draw(panel, axes)
        case timeline.Timeline():
            timeline.draw(panel, axes)
        case waterfall.Waterfall():
            waterfall.draw(panel, axes)


def _saved(figure: object, kind: str) -> bytes:
    stream = io.BytesIO()
    # Dates would make two builds differ.
    metadata = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}[kind]
    figure.savefig(stream, format=kind, metadata=metadata)  # type: ignore[attr-defined]
    return stream.getvalue()
