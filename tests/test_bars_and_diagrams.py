"""Bars and block diagrams: every mark where its number is, and nothing drawn for nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from figures.bars import Bars, BarSeries
from figures.canvas import Drawing, Panel
from figures.diagram import Arrow, Box, Diagram, Words
from figures.drawing import bars, diagram, style
from figures.drawing.bars import NOT_MEASURED
from figures.drawing.render import render

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
        BarSeries("NumPy", (4.0, 1.0), (3.5, 0.9), (4.5, 1.2)),
        BarSeries("JAX", (2.0, None), (1.9, None), (2.1, None), series=1),
    ),
    "Time (ms)",
    reference=1.0,
)
BLOCKS = Diagram(
    10.0,
    5.0,
    (Box(1, 1, 2, 2, "$W X$", 2), Box(6, 1, 2, 2)),
    (Arrow((3, 2), (6, 2), "forward"), Arrow((6, 1.5), (3, 1.5), broken=True)),
    (Words(5, 4, "words"),),
)


@contextmanager
def drawn(panel: Bars | Diagram) -> Iterator[Axes]:
    with mpl.rc_context({**mpl.rcParamsDefault, **style.RC}):  # type: ignore[arg-type]
        figure = Figure(figsize=(3.5, 2.3), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        if isinstance(panel, Bars):
            bars.draw(panel, axes)
        else:
            diagram.draw(panel, axes)
        figure.canvas.draw()
        yield axes


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
    with drawn(STACK) as axes:
        found = spans(axes)
    assert (0.0, 1.0, 0) in found
    assert (1.0, 3.0, 0) in found
    assert (-0.5, 0.0, 1) in found
    assert (1.0, 4.0, 1) in found
    assert not [span for span in found if span[2] == 2]


def test_a_row_without_bars_says_so() -> None:
    with drawn(STACK) as axes:
        assert [text.get_text() for text in axes.texts] == [NOT_MEASURED]
    with drawn(GROUPS) as axes:
        assert not axes.texts


def test_bars_side_by_side_keep_to_their_row() -> None:
    with drawn(GROUPS) as axes:
        found = spans(axes)
        intervals = [line.get_xdata() for line in axes.lines if line.get_linestyle() == "-"]
    assert len(found) == 3
    assert all(abs(middle - round(middle)) < 0.4 for *_, middle in found)
    assert [list(x) for x in intervals] == [[3.5, 4.5], [0.9, 1.2], [1.9, 2.1]]


def test_more_rows_take_more_height() -> None:
    wide = Bars(("A",) * 9, (BarSeries("x", (1.0,) * 9),), "x")
    assert wide.height > Bars(("A",), (BarSeries("x", (1.0,)),), "x").height


def test_a_diagram_has_its_boxes_arrows_and_words() -> None:
    with drawn(BLOCKS) as axes:
        boxes = [p for p in axes.patches if isinstance(p, Rectangle)]
        texts = {text.get_text() for text in axes.texts}
        assert not axes.axison
    assert [(p.get_x(), p.get_y()) for p in boxes] == [(1, 1), (6, 1)]
    assert {"$W X$", "forward", "words"} <= texts
    patches = [getattr(text, "arrow_patch", None) for text in axes.texts]
    assert sum(patch is not None for patch in patches) == 2


def test_sides_of_a_box_are_where_arrows_meet_it() -> None:
    box = Box(1, 1, 2, 4)
    assert box.left == (1, 3)
    assert box.right == (3, 3)
    assert box.middle == (2, 3)


@pytest.mark.parametrize("panel", [STACK, GROUPS, BLOCKS])
def test_the_same_drawing_gives_the_same_bytes(panel: Panel) -> None:
    first, second = (render(Drawing((panel,)), "study/fig-x") for _ in range(2))
    assert first == second
