"""Draws from theory to measurement, a bar a step.

All bars start at zero or at the level that the steps before them have reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from figures.drawing import style
from figures.drawing.fonts import ink_width
from figures.waterfall import Bar, Waterfall

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MORE: Final = style.colour(0)
LESS: Final = style.colour(4)
MEASURED: Final = style.colour(2)
UNEXPLAINED: Final = style.colour(1)

_BAR: Final = 0.56
_LINE: Final = 0.9
#: Points between a number and the axes.
_GAP: Final = 5.5


@dataclass(frozen=True)
class _Row:
    """A bar over ``amount`` from ``base``; without an ``amount`` there is nothing to draw."""

    text: str
    base: float
    amount: float | None
    colour: str
    hollow: bool = False


def _row(bar: Bar, base: float, colour: str, hollow: bool = False) -> _Row:
    return _Row(bar.text, base, bar.amount, colour, hollow)


def _rows(figure: Waterfall) -> tuple[_Row, ...]:
    steps = zip(figure.terms, figure.levels, strict=False)
    rows = (
        _row(figure.start, 0, style.THEORY),
        *(_row(bar, base, _sign_colour(bar)) for bar, base in steps),
        _row(figure.total, 0, style.THEORY, hollow=True),
    )
    if figure.measured is None or figure.residual is None:
        return (*rows, _Row("not measured", 0, None, MEASURED))
    # The residual leads from the sum to the measurement.
    colour = UNEXPLAINED if figure.residual.amount else style.INK
    residual = _row(figure.residual, figure.total.amount, colour)
    return (*rows, _row(figure.measured, 0, MEASURED), residual)


def _sign_colour(bar: Bar) -> str:
    return MORE if bar.amount > 0 else LESS if bar.amount < 0 else style.INK


def draw(figure: Waterfall, axes: Axes) -> None:
    """Draw ``figure`` on ``axes``, each bar linked to the next."""
    rows = _rows(figure)
    reach = [0.0]
    for position, row in enumerate(rows):
        if row.amount is None:
            continue
        base, end = (level / figure.per_label for level in (row.base, row.base + row.amount))
        _draw_bar(row, position, base, end, axes)
        if position + 1 < len(rows):
            _draw_link(position, end, axes)
        reach += [base, end]
    axes.set_xlabel(figure.x_label)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    _set_limits(min(reach), max(reach), axes)
    axes.set_yticks(range(len(figure.names)), labels=list(figure.names))
    axes.tick_params(axis="y", length=0)
    _number_rows(rows, figure.unit, axes)
    axes.set_title(figure.title, loc="left")


def _draw_bar(row: _Row, position: int, base: float, end: float, axes: Axes) -> None:
    if base == end:
        # Nothing is a result too: a line where the bar would begin.
        half = _BAR / 2
        axes.plot(
            [end, end],
            [position - half, position + half],
            color=row.colour,
            linewidth=1.6,
            solid_capstyle="butt",
            clip_on=False,
        )
        return
    axes.barh(
        position,
        end - base,
        left=base,
        height=_BAR,
        color="white" if row.hollow else row.colour,
        edgecolor=row.colour,
        linewidth=_LINE,
        hatch="////" if row.colour == UNEXPLAINED else None,
    )


def _draw_link(position: int, level: float, axes: Axes) -> None:
    """A thin line from the end of a bar to the next row."""
    half = _BAR / 2
    axes.plot(
        [level, level],
        [position + half, position + 1 - half],
        color=style.INK,
        linewidth=0.5,
        dashes=(2, 1.5),
        zorder=0.9,
    )


def _set_limits(low: float, high: float, axes: Axes) -> None:
    """From zero, or through it, to a little beyond the bars."""
    from matplotlib.ticker import MaxNLocator

    room = 0.06 * (high - low) or 1.0
    axes.set_xlim(low - room if low < 0 else -room / 3, high + room)
    axes.axvline(0.0, color=style.INK, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))


def _number_rows(rows: Sequence[_Row], unit: str, axes: Axes) -> None:
    """The numbers under their unit in a column of their own at the right, flush right."""
    width = max(ink_width(row.text, style.SMALL) for row in rows)
    _write(unit, -0.75, width, style.THEORY, axes)
    for position, row in enumerate(rows):
        colour = UNEXPLAINED if row.colour == UNEXPLAINED else style.INK
        _write(row.text, position, width, colour, axes)


def _write(text: str, position: float, width: float, colour: str, axes: Axes) -> None:
    axes.annotate(
        text,
        xy=(1.0, position),
        xycoords=("axes fraction", "data"),
        xytext=(_GAP + width, 0.0),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=style.SMALL,
        color=colour,
        annotation_clip=False,
    )
