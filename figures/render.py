"""Render figures reproducibly: PDF for print, SVG for pages, PNG for Word."""

import io
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import Any, Final, TypeVar

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_pdf import FigureCanvasPdf
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from figures import bars, dots, grid, roofline, scaling, style
from figures.fonts import escape_unprintable, families, register
from figures.labels import DrawnSeries
from figures.panels import Bars, Dots, Drawing, Grid, Panel, Roofline, Scaling
from figures.svg import shorten

#: A panel, or a part of a panel: a dataclass, tuple, text or number.
_Part = TypeVar("_Part")
#: Kind of panel → module with its functions ``draw`` and, if needed, ``finish``.
_DRAWING_MODULES: Final[Mapping[type[Panel], ModuleType]] = {
    Bars: bars,
    Dots: dots,
    Grid: grid,
    Roofline: roofline,
    Scaling: scaling,
}
#: Longest line (characters) of a wrapped text; longer lines leave no room for the axes.
_LONGEST_LINE: Final = 45
#: Resolution (dots per inch) that publishers require.
_PNG_DPI: Final = 300


@dataclass(frozen=True)
class Series:
    """A series of a panel, for the page: ids of its elements in the SVG, and its points.

    A point is (distance from the left, distance from the top, description); the distances are
    shares of the figure's width and height.
    """

    name: str
    ids: tuple[str, ...]
    points: tuple[tuple[float, float, str], ...]


@dataclass(frozen=True)
class Rendered:
    """A figure in each format, and the series in its SVG; ``png`` is empty unless requested."""

    pdf: bytes
    svg: bytes
    png: bytes
    series: tuple[Series, ...]


def render(drawing: Drawing, salt: str, *, word: bool = False) -> Rendered:
    """Render ``drawing`` in all formats, but as PNG, which Word needs, only if ``word`` is set.

    ``salt`` is the figure's id (``<study>/<figure>``).  matplotlib derives the ids of SVG elements
    from this salt, so that the ids are unique on a page with several figures.
    """
    with _laid_out(drawing, salt) as (figure, drawn):
        panels = zip(drawing.panels, figure.axes, drawn, strict=True)
        series = tuple(_series(panels, f"series-{salt.rpartition('/')[2]}"))
        # Dates would make two builds differ.
        pdf = _printed(FigureCanvasPdf(figure).print_pdf, figure, {"CreationDate": None})
        svg = _print_svg(figure)
        png = b""
        if word:
            figure.dpi = _PNG_DPI
            png = _printed(FigureCanvasAgg(figure).print_png, figure, {"Software": None})
    return Rendered(pdf, svg, png, series)


def render_svg(drawing: Drawing, salt: str) -> bytes:
    """Render only the SVG of ``drawing``, which takes a third of the time of all formats."""
    with _laid_out(drawing, salt) as (figure, _):
        return _print_svg(figure)


@contextmanager
def _laid_out(drawing: Drawing, salt: str) -> Iterator[tuple[Figure, list[DrawnSeries]]]:
    """Draw and lay out ``drawing``; provide the figure, and the drawn series of each panel.

    The project's settings of matplotlib apply within the context.
    """
    register()
    texts: list[str] = []
    panels = tuple(_escaped(panel, texts) for panel in drawing.panels)
    figure_settings = {"svg.hashsalt": salt, "font.family": families(texts)}
    # Begin with matplotlib's defaults, so that a user's matplotlibrc has no effect.
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **style.RC, **figure_settings}
    with mpl.rc_context(settings):
        figure = Figure(figsize=style.inches(drawing), layout="constrained")
        FigureCanvasPdf(figure)  # the layout uses text sizes of the PDF
        rows = min(drawing.rows, len(panels))  # fewer panels than rows if data are missing
        table = figure.subplots(rows, len(panels) // rows, squeeze=False)
        drawn = [draw(panel, axes) for panel, axes in zip(panels, table.flat, strict=True)]
        if drawing.same_axes:
            for row in table:
                _equalise_limits(row)
        for panel, axes in zip(panels, table.flat, strict=True):
            finish(panel, axes)
        _lay_out(figure)
        yield figure, drawn


def draw(panel: Panel, axes: Axes) -> DrawnSeries:
    """Draw the marks of a panel; return the series for which a page can show values."""
    drawn: DrawnSeries = _DRAWING_MODULES[type(panel)].draw(panel, axes)
    return drawn


def finish(panel: Panel, axes: Axes) -> None:
    """Draw names, ticks and legends, which depend on the final limits of the axes."""
    module = _DRAWING_MODULES[type(panel)]
    if hasattr(module, "finish"):
        module.finish(panel, axes)


def _equalise_limits(panels: Sequence[Axes]) -> None:
    """Set the x and the y axis of all panels to the smallest range that contains their ranges."""
    for axis in ("x", "y"):
        ranges = [getattr(axes, f"get_{axis}lim")() for axes in panels]
        if len(set(ranges)) == 1:
            continue
        starts = [start for start, _ in ranges]
        ends = [end for _, end in ranges]
        if all(start > end for start, end in ranges):
            common = (max(starts), min(ends))  # the y axis of named rows points downwards
        else:
            common = (min(starts), max(ends))
        for axes in panels:
            getattr(axes, f"set_{axis}lim")(common)


def _escaped(part: _Part, texts: list[str]) -> _Part:
    """Escape all texts in ``part`` for matplotlib, wrap long ones, and append them to ``texts``."""
    escaped: Any = part
    if isinstance(part, str):
        escaped = escape_unprintable(part).replace("$", r"\$")  # $ would begin a formula
        if len(escaped) > 2 * _LONGEST_LINE:
            escaped = textwrap.fill(escaped, _LONGEST_LINE)
        texts.append(escaped)
    elif isinstance(part, tuple):
        escaped = tuple(_escaped(member, texts) for member in part)
    elif is_dataclass(part) and not isinstance(part, type):
        members = {}
        for field in fields(part):
            members[field.name] = _escaped(getattr(part, field.name), texts)
        escaped = replace(part, **members)
    return escaped  # type: ignore[no-any-return]


def _lay_out(figure: Figure) -> None:
    """Compute the layout once, for the PDF, so that all formats show the same picture.

    By default matplotlib computes the layout again for each format, which takes time.
    """
    engine, dpi = figure.get_layout_engine(), figure.dpi
    assert engine is not None
    engine.execute(figure)
    figure.set_layout_engine("none")
    figure.dpi = dpi  # because the engine may have changed it


def _printed(print_canvas: Callable[..., None], figure: Figure, metadata: dict[str, None]) -> bytes:
    """Return the bytes that a canvas prints; restore the resolution, which printing changes.

    The file omits ``metadata`` whose value is None.
    """
    dpi, stream = figure.dpi, io.BytesIO()
    print_canvas(stream, metadata=metadata)
    figure.dpi = dpi
    return stream.getvalue()


def _print_svg(figure: Figure) -> bytes:
    """Return the shortened SVG of a figure that is laid out."""
    svg = _printed(FigureCanvasSVG(figure).print_svg, figure, {"Date": None})
    return shorten(svg.decode("utf-8")).encode("utf-8")


def _series(panels: Iterable[tuple[Panel, Axes, DrawnSeries]], prefix: str) -> Iterator[Series]:
    """Set ids that begin with ``prefix`` for all artists; yield the series of all panels.

    The layout must be final.  Points outside the figure are omitted.
    """
    for panel_number, (panel, axes, drawn) in enumerate(panels):
        with_artists = [(series, artists) for series, artists in drawn if artists]
        for series_number, (series, artists) in enumerate(with_artists):
            ids = []
            for artist_number, artist in enumerate(artists):
                id = f"{prefix}-{panel_number}-{series_number}-{artist_number}"
                artist.set_gid(id)
                ids.append(id)
            points = []
            positions, descriptions = _positions(series, axes), _descriptions(series, panel)
            for (x, y), text in zip(positions, descriptions, strict=True):
                if 0 <= x <= 1 and 0 <= y <= 1:
                    points.append((x, y, text))
            yield Series(_unescaped(series.label), tuple(ids), tuple(points))


def _positions(series: Any, axes: Axes) -> Iterator[tuple[float, float]]:
    """Yield the positions of points as shares of the figure, from the left and from the top.

    A share below 0 or above 1 is outside the figure.
    """
    figure = axes.get_figure(root=True)
    assert figure is not None
    to_figure = axes.transData - figure.transFigure
    for point in zip(series.x, series.y, strict=True):
        x, y = to_figure.transform(point)
        yield round(float(x), 4), round(1 - float(y), 4)


def _descriptions(series: Any, panel: Any) -> Iterator[str]:
    """Yield a description of each point: label, name, y value with interval, x value."""
    low, high = getattr(series, "low", ()), getattr(series, "high", ())
    names = getattr(series, "names", ())
    for number, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
        name = ", ".join(filter(None, (series.label, *names[number : number + 1])))
        beginning = f"{name}. " if name else ""
        x_label = panel.x_label or "x"  # the panel below has the label
        interval = f" [{low[number]:,.4g}, {high[number]:,.4g}]" if low else ""
        yield _unescaped(f"{beginning}{panel.y_label}: {y:,.4g}{interval}. {x_label}: {x:,.6g}.")


def _unescaped(text: str) -> str:
    """Undo the escaping of a text."""
    return text.replace(r"\$", "$")
