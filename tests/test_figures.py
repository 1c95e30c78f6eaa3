"""All kinds of figures: reproducible bytes, and marks at the positions of the data."""

import io
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from pypdf import PdfReader

from figures import panels, style
from figures.fonts import FOLDER, register
from figures.panels import Bars, BarSeries, Curve, DotSeries, Drawing, Panel, Points, Scaling
from figures.render import draw, finish, render

TIMES = Points("Run_1 $5", (1.0, 4.0, 16.0), (0.5, 1.25, 4.5), (0.4, 1.2, 4.0), (0.7, 1.3, 5.5))
HOLLOW = Points("Reported", (4.0, 16.0), (1.0, 3.5), style_number=1, hollow=True)
SCALING = Scaling(
    "Batch size",
    "Time (ms)",
    (TIMES, HOLLOW),
    (Curve("Theory", (1.0, 16.0), (0.3, 4.0)), Curve("Part", (1.0, 16.0), (0.2, 2.0), dotted=True)),
    (panels.Band("Ceiling", 4.5, 4.6, 5.0, 2),),
    x_ticks=(1, 4, 16),
    title="Forward",
)
LINEAR = Scaling("x", "y", (HOLLOW,), y_scale="linear", y_from_zero=True)
DOTS = panels.Dots(
    ("a", "b", "c"),
    (
        DotSeries("Theory", (1.0, 1.0, 1.2), hollow=True),
        DotSeries("Measured", (2.0, None, 1.3), 1, low=(1.5, None, 1.2), high=(3.0, None, 1.4)),
    ),
    "Ratio",
    reference=1.0,
)
BARS = Bars(
    ("A", "Nothing"),
    (
        BarSeries("Parameters", (1.0, None)),
        BarSeries("Rest", (-0.5, None), style_number=1),
        BarSeries("More", (3.0, None), style_number=2),
    ),
    "Memory (MB)",
)
ROOF = panels.DrawnRoof("", (190, 200, 210), (28, 30, 32))
ROOFLINE = panels.Roofline(
    "Intensity",
    "Rate",
    (ROOF,),
    (Points("a", (1.0, 20.0), (10.0, 90.0), style_number=2, hollow=True, names=("", "most")),),
)


class Case(NamedTuple):
    """A panel and what its drawing must contain.

    - ``marks``: positions (x, y) of the marks of each series;
    - ``bars``: left and right end of each bar;
    - ``words``: the last texts;
    - ``data``: lines of the panel's downloadable table; None if they are not tested.
    """

    panel: Panel
    marks: Sequence[Sequence[tuple[float, float]]] = ()
    bars: Sequence[tuple[float, float]] = ()
    words: tuple[str, ...] = ()
    data: str | None = None


NOT_MEASURED = ("not measured",)
CASES = {
    "scaling": Case(
        SCALING, [[(1, 0.5), (4, 1.25), (16, 4.5)], [(4, 1.0), (16, 3.5)]], [(0, 1)], data="""
        Run_1 $5||Batch size|1.0|Time (ms)|0.5|0.4|0.7
        Run_1 $5||Batch size|4.0|Time (ms)|1.25|1.2|1.3
        Run_1 $5||Batch size|16.0|Time (ms)|4.5|4.0|5.5
        Reported||Batch size|4.0|Time (ms)|1.0||
        Reported||Batch size|16.0|Time (ms)|3.5||
        Theory||Batch size|1.0|Time (ms)|0.3||
        Theory||Batch size|16.0|Time (ms)|4.0||
        Part||Batch size|1.0|Time (ms)|0.2||
        Part||Batch size|16.0|Time (ms)|2.0||
        Ceiling||||Time (ms)|4.6|4.5|5.0"""),
    "dots": Case(DOTS, [[(1, 0), (1, 1), (1.2, 2)], [(2, 0), (1.3, 2)]]),
    "bars": Case(BARS, bars=[(0, 1), (-0.5, 0), (1, 4)], words=NOT_MEASURED),
    "roofline": Case(ROOFLINE, [[(1, 10), (20, 90)]], words=("memory", "most"), data="""
        |peak|||Rate|200|190|210
        |bandwidth|||Rate / Intensity|30|28|32
        a||Intensity|1.0|Rate|10.0||
        a|most|Intensity|20.0|Rate|90.0||"""),
    "no points": Case(Scaling("x", "y"), words=NOT_MEASURED, data=""),
    "no roof": Case(panels.Roofline("x", "y", ()), words=NOT_MEASURED, data=""),
    "no series": Case(panels.Dots(("a",), (), "x"), words=NOT_MEASURED, data=""),
}  # fmt: skip


@contextmanager
def drawn(panel: Panel, width: float = 3.5) -> Iterator[Figure]:
    """Draw a single panel in the style of print; ``width`` in inches."""
    with mpl.rc_context({**mpl.rcParamsDefault, **style.RC}):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, 2.3), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        draw(panel, axes)
        finish(panel, axes)
        figure.canvas.draw()
        yield figure


def lines_of(figure: Figure) -> list[Line2D]:
    return [line for axes in figure.axes for line in axes.lines]


def markers(figure: Figure) -> list[list[tuple[float, float]]]:
    """Return the positions of all marks, one list per series."""
    return [
        list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))
        for line in lines_of(figure)
        if line.get_marker() in style.SERIES_MARKERS
    ]


def bars(figure: Figure) -> list[tuple[float, float]]:
    """Return the left and right end of every bar, row by row.

    Coordinates are rounded, since the two ends of a row may differ by a rounding error.
    """
    patches = (patch for axes in figure.axes for patch in axes.patches)
    boxes = [patch.get_bbox() for patch in patches if isinstance(patch, Rectangle)]
    rows = sorted(boxes, key=lambda box: round((box.y0 + box.y1) / 2, 6))
    return [(round(float(box.xmin), 6), round(float(box.xmax), 6)) for box in rows]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for axes in figure.axes for text in axes.texts if text.get_text()]


#: Settings of matplotlib that a user may have changed.
SETTINGS = {
    "lines.linewidth": 9, "font.size": 30, "axes.grid": False, "savefig.bbox": "tight",
    "image.cmap": "gray", "path.simplify": False, "svg.fonttype": "none", "axes.facecolor": "red",
}  # fmt: skip


def test_settings_of_matplotlib_do_not_change_a_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other time zones, locales and hash seeds are tested with ``--verify``."""
    drawing = Drawing((SCALING, DOTS, BARS, ROOFLINE), wide=True)
    first = render(drawing, "study/fig-x")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    with mpl.rc_context(SETTINGS):
        before = dict(mpl.rcParams)
        assert render(drawing, "study/fig-x") == first
        assert dict(mpl.rcParams) == before, "the user's settings are unchanged"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_marks_have_the_positions_of_their_numbers(case: Case) -> None:
    with drawn(case.panel) as figure:
        assert markers(figure) == [*case.marks]
        assert bars(figure) == [*case.bars]
        assert texts(figure)[-len(case.words) :] == [*case.words]
    if case.data is not None:
        lines = []
        for row in case.panel.data_rows():
            lines.append("|".join("" if cell is None else str(cell) for cell in row))
        assert lines == [line.strip() for line in case.data.strip().splitlines()]
        panel_names = {row[0] for row in Drawing((case.panel,)).data()}
        assert panel_names <= {case.panel.title or "1"}


def test_intervals_end_at_their_numbers() -> None:
    with drawn(SCALING) as figure:
        labels = [container.get_label() for container in figure.axes[0].containers]
        _, _, (lines,) = figure.axes[0].containers[labels.index("Run_1 $5")]
        bounds = [(low, high) for (_, low), (_, high) in lines.get_segments()]
        assert bounds == [pytest.approx(pair) for pair in ((0.4, 0.7), (1.2, 1.3), (4.0, 5.5))]
    with drawn(DOTS) as figure:
        intervals = [list(line.get_xdata()) for line in lines_of(figure)]
        assert [1.5, 3.0] in intervals and [1.2, 1.4] in intervals
    bar = BarSeries("A", (1.0, None), low=(0.5, None), high=(2.0, None))
    with drawn(replace(BARS, series=(bar,), reference=1.0)) as figure:
        assert [list(line.get_xdata()) for line in lines_of(figure)] == [[0.5, 2.0], [1.0, 1.0]]


def test_a_roof_has_its_corner_at_the_ridge() -> None:
    """The ridge is the intensity at which the bandwidth reaches the peak: 200 / 30."""
    assert ROOF.ridge == pytest.approx(200 / 30)
    with drawn(ROOFLINE) as figure:
        low, high = figure.axes[0].get_xlim()
        # The points lie at intensities of 1 to 20; the margins are factors of 2.5.
        assert (low, high) == pytest.approx((1 / 2.5, 20 * 2.5))
        intensity, rate = lines_of(figure)[-1].get_data()
        assert [*map(float, intensity)] == pytest.approx([low, 200 / 30, high])
        assert [*map(float, rate)] == pytest.approx([30 * low, 200, 200])
        assert sorted(texts(figure)) == ["arithmetic", "memory", "most"]


def test_panels_of_a_row_share_a_range_if_the_drawing_says_so() -> None:
    row = tuple(replace(LINEAR, points=(Points("a", (x,), (x,)),)) for x in (2.0, 50.0))

    def distance_from_top(same_axes: bool) -> float:
        """Return the distance of the smaller value from the upper edge, in parts of the height."""
        drawing = render(Drawing(row, wide=True, same_axes=same_axes), "x")
        _, y, _ = drawing.series[0].points[0]
        return y

    assert distance_from_top(same_axes=True) > distance_from_top(same_axes=False) + 0.2


def test_direct_labels_do_not_overlap_and_replace_the_legend() -> None:
    last_values = {"low": 1.0, "a": 2.0, "b": 2.01, "c": 2.0}
    lines = tuple(
        Points(name, (1.0, 2.0), (1.0, last), joined=True) for name, last in last_values.items()
    )
    with drawn(Scaling("x", "y", lines, names_at_ends=True), width=7.16) as figure:
        boxes = {text.get_text(): text.get_window_extent() for text in figure.axes[0].texts}
        assert sorted(boxes, key=lambda name: boxes[name].y0) == ["low", "a", "c", "b"]
        assert not any(one.overlaps(other) for one, other in combinations(boxes.values(), 2))
        assert figure.axes[0].get_legend() is None


def test_rendered_figures_have_ids_and_positions_of_series() -> None:
    figure = render(Drawing((SCALING, LINEAR), wide=True), "study/fig-x")
    names = [series.name for series in figure.series]
    assert names == ["Run_1 $5", "Reported", "Theory", "Part", "Reported"]
    assert all(f'id="{id}"' in figure.svg.decode() for series in figure.series for id in series.ids)
    points = figure.series[0].points  # x, distance from the top, and description of each point
    assert points == tuple(sorted(points, key=lambda point: (point[0], -point[1])))
    assert points[0][2] == "Run_1 $5. Time (ms): 0.5 [0.4, 0.7]. Batch size: 1."
    assert "style=" not in figure.svg.decode(), "a content security policy may forbid styles"
    unnamed = Drawing((Scaling("", "Pages", (Points("", (1.0,), (2.0,)),)),))
    assert render(unnamed, "study/fig-y").series[0].points[0][2] == "Pages: 2. x: 1."


def test_seven_series_differ_in_each_of_marker_hatching_and_colour() -> None:
    for property_of in (style.marker, style.hatching, style.colour):
        assert len({property_of(series) for series in range(7)}) == 7, property_of.__name__


def page_of(panel: Panel) -> Any:
    """Return the only page of the panel's PDF."""
    (page,) = PdfReader(io.BytesIO(render(Drawing((panel,), wide=True), "x").pdf)).pages
    return page


def test_only_fonts_of_the_project_are_used() -> None:
    """PDFs list fonts in the order of the fonts' paths, which must not depend on the machine."""
    register()
    for family in style.FAMILIES:
        assert Path(findfont(FontProperties(family=family))).parent == FOLDER
    fonts = page_of(LINEAR)["/Resources"]["/Font"].values()
    names = [re.sub(r"^/\w+\+", "", font.get_object()["/BaseFont"]) for font in fonts]
    assert names == ["DejaVuSansBasic"]


@pytest.mark.filterwarnings("error")
def test_every_text_has_a_glyph_or_its_code_point() -> None:
    names = ("龙芯", "Байкал", "r🚀s", "_hidden", "$1 and $2")
    series = tuple(BarSeries(name, (1.0,) * len(names)) for name in names)
    text = page_of(Bars(names, series, "عربي", title="l\u202er")).extract_text()
    for shown in ("龙芯", "Байкал", "r‹U+1F680›s", "l‹U+202E›r", "$1 and $2", "_hidden"):
        assert shown.replace(" ", "") in text.replace(" ", "")
