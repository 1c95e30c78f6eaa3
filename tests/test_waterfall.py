"""The waterfall: where its bars stand, that its residual is always drawn, that nothing overlaps."""

from __future__ import annotations

from collections.abc import Iterator

import matplotlib as mpl
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from figures.drawing import style
from figures.drawing.waterfall import LESS, MEASURED, MORE, UNEXPLAINED, draw
from figures.waterfall import Bar, Waterfall
from tests import canvas


def waterfall(
    start: int,
    terms: dict[str, int],
    measured: int | None,
    *,
    title: str = "",
) -> Waterfall:
    end = start + sum(terms.values())
    left = None if measured is None else measured - end
    name = "Residual, unexplained" if left else "Residual"
    return Waterfall(
        Bar("Theory", start, f"{start:,}"),
        tuple(Bar(term, amount, f"{amount:+,}") for term, amount in terms.items()),
        Bar("Sum", end, f"{end:,}"),
        None if measured is None else Bar("Measured", measured, f"{measured:,}"),
        None if left is None else Bar(name, left, f"{left:+,}"),
        "FLOP",
        "From zero (GFLOP)",
        title=title,
    )


#: Terms of 0.17 % of the start, as in the first study.
TINY = waterfall(5_435_817_984, {"Bias": 9_437_184, "Scaling": 9_437_184}, 5_454_692_352)
LARGE = waterfall(100, {"More": 50, "Less": -30}, 125)
ALL = {
    "tiny": TINY,
    "large": LARGE,
    "nothing measured": waterfall(100, {"More": 1}, None),
    "all zero": waterfall(0, {"More": 0}, 0),
    "from zero": waterfall(0, {"More": 5}, 5),
    "down to zero": waterfall(100, {"Less": -100}, 0),
    "below zero": waterfall(100, {"Less": -150}, -50),
    "no terms": waterfall(100, {}, 100),
}


def drawn(figure: Waterfall) -> Figure:
    """The figure in the width of a column, laid out as it is printed."""
    with canvas.drawn(draw, figure, style.COLUMN_INCHES, figure.height) as page:
        return page


def bars(axes: Axes) -> list[tuple[int, float, float, str]]:
    """Row, left end, right end and colour of every bar."""
    return [
        (
            round(bar.get_y() + bar.get_height() / 2),
            min(bar.get_x(), bar.get_x() + bar.get_width()),
            max(bar.get_x(), bar.get_x() + bar.get_width()),
            mpl.colors.to_hex(bar.get_edgecolor()),
        )
        for bar in axes.patches
        if isinstance(bar, Rectangle)
    ]


def texts(page: Figure) -> Iterator[Text]:
    for axes in page.axes:
        for text in (*axes.get_yticklabels(), *axes.texts, axes.xaxis.label, axes.title):
            if text.get_text():
                yield text


def written(page: Figure) -> list[str]:
    return [text.get_text() for text in texts(page)]


# ----------------------------------------------------------------------------------- where bars are


def test_bars_start_where_the_steps_before_them_end() -> None:
    (axes,) = drawn(LARGE).axes
    assert bars(axes) == [
        (0, 0, 100, style.THEORY),
        (1, 100, 150, MORE),
        (2, 120, 150, LESS),
        (3, 0, 120, style.THEORY),
        (4, 0, 125, MEASURED),
        (5, 120, 125, UNEXPLAINED),
    ]


# ------------------------------------------------------------------------------------- the residual


@pytest.mark.parametrize("name", ALL)
def test_the_residual_has_its_row_and_its_number(name: str) -> None:
    figure = ALL[name]
    page = drawn(figure)
    if figure.residual is None:
        assert "not measured" in written(page)
        return
    assert figure.residual.name in [text.replace("\n", " ") for text in written(page)]
    assert figure.residual.text in written(page)
