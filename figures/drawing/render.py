"""From a description to bytes: PDF for print and SVG for the page, the same in every build."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

import matplotlib as mpl
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from figures.bars import Bars
from figures.canvas import Drawing, Panel
from figures.diagram import Diagram
from figures.dots import Dots
from figures.drawing import (
    bars,
    diagram,
    dots,
    roofline,
    scaling,
    style,
    timeline,
    waterfall,
)
from figures.drawing.fonts import families, only_glyphs, printable, register
from figures.drawing.series import Series, name_series
from figures.drawing.svg import shorten
from figures.roofline import Roofline
from figures.scaling import Scaling
from figures.timeline import Timeline
from figures.waterfall import Waterfall

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_Described = TypeVar("_Described")
#: Characters of a line that leave room for the axes beside it.
_LINE: Final = 45


@dataclass(frozen=True)
class Rendered:
    """The finished figure in both formats, and where its series lie in the SVG."""

    pdf: bytes
    svg: bytes
    series: tuple[Series, ...] = ()


def render(drawing: Drawing, salt: str) -> Rendered:
    """Draw ``drawing``; ``salt`` (its id) keeps the ids inside several SVGs of a page apart."""
    register()
    width = style.PAGE_INCHES if drawing.wide else style.COLUMN_INCHES
    panels = tuple(_legible(panel) for panel in drawing.panels)
    own = {"svg.hashsalt": salt, "font.family": families(_texts(panels))}
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **style.RC, **own}
    # The defaults come first, so that a user's matplotlibrc changes nothing.
    with mpl.rc_context(settings):
        figure = Figure(figsize=(width, drawing.height), layout="constrained")
        canvas = FigureCanvasPdf(figure)
        grid = figure.subplots(drawing.rows, len(panels) // drawing.rows, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=True):
            _draw(panel, axes)
        if drawing.same_axes:
            _equalise(figure)
        _lay_out(figure)
        series = name_series(figure.axes, drawing.panels, f"series-{salt.rpartition('/')[2]}")
        # Dates would make two builds differ.
        with only_glyphs():
            pdf = _written(canvas.print_pdf, figure, {"CreationDate": None})
        svg = _written(FigureCanvasSVG(figure).print_svg, figure, {"Date": None})
        return Rendered(pdf, shorten(svg.decode("utf-8")).encode("utf-8"), series)


def _equalise(figure: Figure) -> None:
    """Give all panels the smallest range that holds what each shows; a common one stays."""
    for axis in ("x", "y"):
        ranges = [getattr(axes, f"get_{axis}lim")() for axes in figure.axes]
        if len(set(ranges)) > 1:
            # An axis that runs downwards, such as that of rows, has its larger end first.
            outer = (max, min) if all(first > last for first, last in ranges) else (min, max)
            common = [end(each) for end, each in zip(outer, zip(*ranges, strict=True), strict=True)]
            for axes in figure.axes:
                getattr(axes, f"set_{axis}lim")(common)


def _legible(described: _Described, *, formulas: bool = False) -> _Described:
    """The same description with texts that can be drawn as they are.

    ``formulas`` says that what stands between dollars is one, as in a block diagram.
    """
    formulas = formulas or isinstance(described, Diagram)
    changed: Any = described
    if isinstance(described, str):
        text = _wrapped(printable(described))
        changed = text if formulas else text.replace("$", r"\$")
    elif isinstance(described, tuple):
        changed = tuple(_legible(item, formulas=formulas) for item in described)
    elif is_dataclass(described) and not isinstance(described, type):
        texts = {
            field.name: _legible(getattr(described, field.name), formulas=formulas)
            for field in fields(described)
        }
        changed = replace(described, **texts)
    return changed  # type: ignore[no-any-return]


def _texts(described: object) -> Iterator[str]:
    """All texts of a description."""
    if isinstance(described, str):
        yield described
    elif isinstance(described, tuple):
        for item in described:
            yield from _texts(item)
    elif is_dataclass(described):
        for field in fields(described):
            yield from _texts(getattr(described, field.name))


def _wrapped(text: str) -> str:
    """A text that is far too long for a line of a figure, in several."""
    return textwrap.fill(text, _LINE) if len(text) > 2 * _LINE else text


def _draw(panel: Panel, axes: Axes) -> None:
    match panel:
        case Bars():
            bars.draw(panel, axes)
        case Diagram():
            diagram.draw(panel, axes)
        case Dots():
            dots.draw(panel, axes)
        case Roofline():
            roofline.draw(panel, axes)
        case Scaling():
            scaling.draw(panel, axes)
        case Timeline():
            timeline.draw(panel, axes)
        case Waterfall():
            waterfall.draw(panel, axes)


def _lay_out(figure: Figure) -> None:
    """Place the panels once, as the PDF needs it, so that both formats show one picture.

    Left to itself, matplotlib computes the layout for each format and draws each of them twice.
    """
    engine, dpi = figure.get_layout_engine(), figure.dpi
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine("none")
    figure.dpi = dpi


def _written(print_: Callable[..., None], figure: Figure, metadata: dict[str, None]) -> bytes:
    """What a canvas prints; it leaves the figure with the 72 dpi of its format, which is undone."""
    dpi, stream = figure.dpi, io.BytesIO()
    print_(stream, metadata=metadata)
    figure.dpi = dpi
    return stream.getvalue()
