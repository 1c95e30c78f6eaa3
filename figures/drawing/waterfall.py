"""Draws from theory to measurement, a bar a step.

All bars of the left panel start at zero or at the level that the steps before them have reached.
Where the terms are too small to be seen there, a second panel draws them alone: its zero is the
start, its scale is its own, and its label says so.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from figures.drawing import style
from figures.drawing.fonts import ink_width
from figures.waterfall import Axis, Bar, Waterfall

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Letters on one line of the label of a narrow panel.
LABEL_LETTERS: Final = 12

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
    """A bar over ``amount`` from ``base``, or from the panel's zero where ``base`` is None.

    Without an ``amount`` there is nothing to draw.
    """

    text: str
    base: float | None
    amount: float | None
    colour: str
    hollow: bool = False

    def ends(self, origin: float) -> tuple[float, float] | None:
        """Where the bar begins and ends in a panel whose zero is ``origin``."""
        if self.amount is None:
            return None
        if self.base is None:
            return 0.0, self.amount - origin
        return self.base - origin, self.base + self.amount - origin


def _row(bar: Bar, base: float | None, colour: str, hollow: bool = False) -> _Row:
    return _Row(bar.text, base, bar.amount, colour, hollow)


def _rows(figure: Waterfall) -> tuple[_Row, ...]:
    steps = zip(figure.terms, figure.levels, strict=False)
    rows = (
        _row(figure.start, None, style.THEORY),
        *(_row(bar, base, _sign_colour(bar)) for bar, base in steps),
        _row(figure.total, None, style.THEORY, hollow=True),
    )
    if figure.measured is None or figure.residual is None:
        return (*rows, _Row("not measured", None, None, MEASURED))
    # The residual leads from the sum to the measurement.
    colour = UNEXPLAINED if figure.residual.amount else style.INK
    residual = _row(figure.residual, figure.total.amount, colour)
    return (*rows, _row(figure.measured, None, MEASURED), residual)


def _sign_colour(bar: Bar) -> str:
    return MORE if bar.amount > 0 else LESS if bar.amount < 0 else style.INK


def draw(figure: Waterfall, axes: Axes) -> None:
    """Draw ``figure`` in the place of ``axes``, which it divides where terms are enlarged."""
    rows = _rows(figure)
    if figure.enlarged:
        left, right = _divided(axes)
        _draw_panel(rows, left, _narrow(figure.whole), origin=0.0)
        _draw_panel(rows, right, _narrow(figure.detail), origin=figure.start.amount)
        right.set_yticks([])
    else:
        left = right = axes
        _draw_panel(rows, axes, figure.whole, origin=0.0)
    _name_rows(figure.names, left)
    _number_rows(rows, figure.unit, right)
    left.set_title(figure.title, loc="left")


def _narrow(axis: Axis) -> Axis:
    """``axis`` with a label for a narrow panel."""
    return replace(axis, label=textwrap.fill(axis.label, LABEL_LETTERS))


def _divided(axes: Axes) -> tuple[Axes, Axes]:
    """Two axes side by side where ``axes`` was."""
    place, figure = axes.get_subplotspec(), axes.get_figure(root=True)
    if place is None or figure is None:
        raise ValueError("a waterfall with enlarged terms needs axes of a grid of subplots")
    axes.remove()
    halves = place.subgridspec(1, 2, width_ratios=(1, 1.25), wspace=0.06)
    return figure.add_subplot(halves[0, 0]), figure.add_subplot(halves[0, 1])


def _draw_panel(rows: Sequence[_Row], axes: Axes, axis: Axis, origin: float) -> None:
    """The bars in units of ``axis``, less ``origin``, each linked to the next."""
    reach = [0.0]
    for position, row in enumerate(rows):
        ends = row.ends(origin)
        if ends is None:
            continue
        base, end = (level / axis.per_unit for level in ends)
        _draw_bar(row, position, base, end, axes)
        if position + 1 < len(rows):
            _draw_link(position, end, axes)
        reach += [base, end]
    axes.set_xlabel(axis.label)
    axes.set_ylim(len(rows) - 0.45, -0.55)
    axes.grid(visible=False, axis="y")
    _set_limits(min(reach), max(reach), axes)


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


def _name_rows(names: Sequence[str], axes: Axes) -> None:
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.tick_params(axis="y", length=0)


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
