"""From a description to bytes: PDF for print, SVG for the page, PNG for Word, always the same."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any, Final, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from figures import bars, dots, roofline, scaling, style, waterfall
from figures.fonts import families, printable, register
from figures.labels import Drawn
from figures.panels import Bars, Dots, Drawing, Panel, Roofline, Scaling, Waterfall
from figures.svg import shorten

_Described = TypeVar("_Described")
#: What draws each kind of panel: ``draw`` all marks, and ``finish`` what depends on the ends of the
#: axes, if anything does.
_KINDS: Final[Mapping[type[Panel], ModuleType]] = {
    Bars: bars,
    Dots: dots,
    Roofline: roofline,
    Scaling: scaling,
    Waterfall: waterfall,
}
#: Characters of a line that leave room for the axes beside it.
_LINE: Final = 45
#: What printers resolve, and publishers ask for.
_PNG_DPI: Final = 300


@dataclass(frozen=True)
class Series:
    """A series of one panel: the ids of its elements in the SVG, and its points.

    A point is its distance from the left and from the top as a share of the figure, and its value
    in words.
    """

    name: str
    ids: tuple[str, ...]
    points: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class Rendered:
    """The finished figure in each format, and where its series lie in the SVG."""

    pdf: bytes
    svg: bytes
    png: bytes
    series: tuple[Series, ...] = ()


def render(drawing: Drawing, salt: str) -> Rendered:
    """Draw ``drawing``; ``salt`` (its id) keeps the ids inside several SVGs of a page apart."""
    register()
    texts: list[str] = []
    panels = tuple(_legible(panel, texts) for panel in drawing.panels)
    own = {"svg.hashsalt": salt, "font.family": families(texts)}
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **style.RC, **own}
    # The defaults come first, so that a user's matplotlibrc changes nothing.
    with mpl.rc_context(settings):
        figure = Figure(figsize=style.inches(drawing), layout="constrained")
        canvas = FigureCanvasPdf(figure)
        grid = figure.subplots(drawing.rows, len(panels) // drawing.rows, squeeze=False)
        drawn = [draw(panel, axes) for panel, axes in zip(panels, grid.flat, strict=True)]
        if drawing.same_axes:
            for row in grid:
                _equalise(row)
        for panel, axes in zip(panels, grid.flat, strict=True):
            finish(panel, axes)
        _lay_out(figure)
        placed = zip(drawing.panels, grid.flat, drawn, strict=True)
        series = tuple(_series(placed, f"series-{salt.rpartition('/')[2]}"))
        # Dates would make two builds differ.
        pdf = _written(canvas.print_pdf, figure, {"CreationDate": None})
        svg = _written(FigureCanvasSVG(figure).print_svg, figure, {"Date": None})
        figure.dpi = _PNG_DPI
        png = _written(FigureCanvasAgg(figure).print_png, figure, {"Software": None})
        return Rendered(pdf, shorten(svg.decode("utf-8")).encode("utf-8"), png, series)


def draw(panel: Panel, axes: Axes) -> Drawn:
    """Draw all marks of a panel; returns the series whose values a page shows."""
    drawn: Drawn = _KINDS[type(panel)].draw(panel, axes)
    return drawn


def finish(panel: Panel, axes: Axes) -> None:
    """Draw what depends on the ends of the axes, which are final: names and legends."""
    if hasattr(kind := _KINDS[type(panel)], "finish"):
        kind.finish(panel, axes)


def _equalise(panels: Sequence[Axes]) -> None:
    """Give all panels the smallest range that holds what each shows; a common one stays."""
    for axis in ("x", "y"):
        ranges = [getattr(axes, f"get_{axis}lim")() for axes in panels]
        if len(set(ranges)) > 1:
            # An axis that runs downwards, such as that of rows, has its larger end first.
            outer = (max, min) if all(first > last for first, last in ranges) else (min, max)
            common = [end(each) for end, each in zip(outer, zip(*ranges, strict=True), strict=True)]
            for axes in panels:
                getattr(axes, f"set_{axis}lim")(common)


def _legible(described: _Described, texts: list[str]) -> _Described:
    """The same description with texts that can be drawn as they are, which ``texts`` collects."""
    changed: Any = described
    if isinstance(described, str):
        text = printable(described).replace("$", r"\$")
        # A text that is far too long for a line of a figure stands in several.
        changed = textwrap.fill(text, _LINE) if len(text) > 2 * _LINE else text
        texts.append(changed)
    elif isinstance(described, tuple):
        changed = tuple(_legible(part, texts) for part in described)
    elif is_dataclass(described) and not isinstance(described, type):
        parts = {f.name: _legible(getattr(described, f.name), texts) for f in fields(described)}
        changed = replace(described, **parts)
    return changed  # type: ignore[no-any-return]


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


def _series(panels: Iterable[tuple[Panel, Axes, Drawn]], prefix: str) -> Iterator[Series]:
    """The series of all panels, which are laid out; ids of their artists begin with ``prefix``."""
    for number, (panel, axes, drawn) in enumerate(panels):
        for order, (described, artists) in enumerate(each for each in drawn if each[1]):
            ids = tuple(f"{prefix}-{number}-{order}-{place}" for place in range(len(artists)))
            for id, artist in zip(ids, artists, strict=True):
                artist.set_gid(id)
            points = zip(_places(described, axes), _words(described, panel), strict=True)
            seen = tuple((*at, text) for at, text in points if all(0 <= each <= 1 for each in at))
            yield Series(_unescaped(described.label), ids, seen)


def _places(described: Any, axes: Axes) -> Iterator[tuple[float, float]]:
    """Where the points of a series lie as shares of the figure, some of them perhaps outside."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    to_figure = axes.transData - figure.transFigure
    for point in zip(described.x, described.y, strict=True):
        x, y = to_figure.transform(point)
        yield round(float(x), 4), round(1 - float(y), 4)


def _words(described: Any, panel: Any) -> Iterator[str]:
    """What each point of a series says: its value, its interval, its place."""
    low, high, names = (getattr(described, part, ()) for part in ("low", "high", "names"))
    for number, (x, y) in enumerate(zip(described.x, described.y, strict=True)):
        name = f", {names[number]}" if number < len(names) and names[number] else ""
        interval = f" [{low[number]:,.4g}, {high[number]:,.4g}]" if low else ""
        yield _unescaped(
            f"{described.label}{name}. "
            f"{panel.y_label}: {y:,.4g}{interval}. {panel.x_label}: {x:,.6g}."
        )


def _unescaped(text: str) -> str:
    """A text of a panel that can be drawn as it is for a reader."""
    return text.replace(r"\$", "$")
