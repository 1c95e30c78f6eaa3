"""Every kind of figure: the same bytes, every mark where its number is, nothing for nothing."""

from __future__ import annotations

import hashlib

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing, Panel
from figures.data import COLUMNS, rows
from figures.diagram import Arrow, Box, Diagram
from figures.dots import Dots, DotSeries
from figures.drawing import bars as bar_chart
from figures.drawing import dots, scaling
from figures.drawing.render import render
from figures.roofline import CacheRoof, Ceiling, Marks, RoofLine, Roofline
from figures.scaling import Points, Scaling
from figures.timeline import Lane, Level, Span, Timeline
from tests.canvas import drawn
from tests.test_figures import DRAWING
from tests.test_waterfall import LARGE

LINES = Timeline(
    (
        Lane("Forward", (Span(0, 60, 0, "conv2d"), Span(60, 61, 1, "max_pool2d"))),
        Lane("Backward", (Span(61, 100, 0, "Convolution"),)),
    ),
    ("Convolution", "Pooling", "Never"),
    "Time (ms)",
    Level("Live (MB)", (0.0, 50.0), (4.0, 9.0)),
)
DOTS = Dots(
    ("a", "b", "c"),
    (DotSeries("Theory", (1.0, 1.0, 1.2), hollow=True), DotSeries("Measured", (1.0, None, 1.2), 1)),
    "Ratio",
    reference=1.0,
)
STACK = Bars(
    ("Theory", "A", "Nothing"),
    (
        BarSeries("Parameters", (1.0, 1.0, None)),
        BarSeries("Rest", (None, -0.5, None), series=1),
        BarSeries("More", (2.0, 3.0, None), series=2),
    ),
    "Memory (MB)",
    stacked=True,
)
GROUPS = Bars(
    ("Products", "ReLU"),
    (
        BarSeries("NumPy", (4.0, 1.0)),
        BarSeries("JAX", (2.0, None), series=1),
    ),
    "Time (ms)",
    reference=1.0,
)
BLOCKS = Diagram(
    10.0,
    5.0,
    (Box(1, 1, 2, 2, "$W X$", 2), Box(6, 1, 2, 2)),
    (Arrow((3, 2), (6, 2)), Arrow((6, 1.5), (3, 1.5), broken=True)),
)
ROOF = Roofline(
    "Intensity",
    "Rate",
    (RoofLine("Measured", Ceiling(190, 200, 210), Ceiling(28, 30, 32)),),
    (Marks("a", (1.0, 20.0), (10.0, 90.0), 2, True),),
    caches=(CacheRoof("L1", Ceiling(348, 360, 372)),),
)
PANELS: dict[str, Panel] = {
    "timeline": LINES, "dots": DOTS, "stack": STACK,
    "groups": GROUPS, "diagram": BLOCKS,
    "roofline": ROOF, "empty": Roofline("x", "y", ()), "waterfall": LARGE,
}  # fmt: skip


#: What a user may have set for drawings of their own.
SETTINGS = {
    "lines.linewidth": 9, "font.size": 30, "axes.grid": False, "savefig.bbox": "tight",
    "image.cmap": "gray", "path.simplify": False, "svg.fonttype": "none", "axes.facecolor": "red",
}  # fmt: skip


@pytest.mark.parametrize("kind", PANELS)
def test_the_same_drawing_gives_the_same_bytes_whatever_a_user_sets(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds in other time zones, locales and with other hash seeds are those of ``--verify``."""

    def digest() -> str:
        made = render(Drawing((PANELS[kind],), wide=True), "study/fig-x")
        return hashlib.sha256(made.pdf + made.svg).hexdigest()

    first = digest()
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    with mpl.rc_context(SETTINGS):
        before = dict(mpl.rcParams)
        assert digest() == first
        assert dict(mpl.rcParams) == before, "the settings of others"


# --------------------------------------------------------------------------------- timelines


def bars(figure: Figure) -> list[tuple[float, float, int]]:
    """Start, end and row of every bar."""
    patches = figure.axes[0].patches
    return [(p.get_x(), p.get_x() + p.get_width(), round(p.get_y() + 0.37)) for p in patches]


# -------------------------------------------------------------------------------------- dots


def test_every_point_stands_at_its_number() -> None:
    with drawn(dots.draw, DOTS, inches=7.16) as figure:
        _, theory, measured = figure.axes[0].lines
        assert list(theory.get_xdata()) == [1.0, 1.0, 1.2]
        assert list(measured.get_xdata()) == [1.0, 1.2]
        assert list(measured.get_ydata()) == [0, 2], "a row without a number has no point"
        assert theory.get_marker() != measured.get_marker()
        assert [t.get_text() for t in figure.axes[0].get_yticklabels()] == ["a", "b", "c"]


# ------------------------------------------------------------------------- bars and diagrams


def spans(axes: Axes) -> list[tuple[float, float, float]]:
    """Left end, right end and middle of every bar."""
    found = [p for c in axes.containers for p in c if isinstance(p, Rectangle)]
    return [
        (
            round(min(p.get_x(), p.get_x() + p.get_width()), 6),
            round(max(p.get_x(), p.get_x() + p.get_width()), 6),
            round(p.get_y() + p.get_height() / 2, 6),
        )
        for p in found
    ]


def test_a_stack_goes_right_and_left_from_zero() -> None:
    with drawn(bar_chart.draw, STACK) as figure:
        (axes,) = figure.axes
        found = spans(axes)
    assert (0.0, 1.0, 0) in found
    assert (1.0, 3.0, 0) in found
    assert (-0.5, 0.0, 1) in found
    assert (1.0, 4.0, 1) in found
    assert not [span for span in found if span[2] == 2]


# ------------------------------------------------------------------------------------ labels


def test_lines_are_named_at_their_ends_and_in_no_legend() -> None:
    near = tuple(Points(n, (1.0, 2.0), (1.0, y), joined=True) for n, y in (("a", 2.0), ("b", 2.01)))
    with drawn(scaling.draw, Scaling("x", "y", near, direct=True), inches=7.16) as figure:
        boxes = [text.get_window_extent() for text in figure.axes[0].texts]
        assert [text.get_text() for text in figure.axes[0].texts] == ["a", "b"]
        assert not boxes[0].overlaps(boxes[1])
        assert figure.axes[0].get_legend() is None


@pytest.mark.parametrize("kind", PANELS)
def test_the_data_of_a_figure_hold_all_that_it_draws_in_numbers(kind: str) -> None:
    found = list(rows(Drawing((PANELS[kind],))))
    assert all(len(row) == len(COLUMNS) for row in found)
    assert bool(found) == (kind not in ("diagram", "empty"))


def test_series_lie_where_they_are_drawn_and_their_ids_are_in_the_drawing() -> None:
    made = render(DRAWING, "study/fig-x")
    names = [series.name for series in made.series]
    assert names == ["Run_1 $5", "Reported", "Theory", "Fit", "Reported"]
    assert all(f'id="{id}"' in made.svg.decode() for each in made.series for id in each.ids)
    points = made.series[0].points
    assert [round(x, 2) for x, _, _ in points] == sorted(round(x, 2) for x, _, _ in points)
    assert [y for _, y, _ in points] == sorted((y for _, y, _ in points), reverse=True)
    assert points[0][2] == "Run_1 $5. Time (ms): 0.5 [0.4, 0.7]. Batch size: 1."
    assert "style=" not in made.svg.decode(), "a strict policy forbids styles in a picture"
