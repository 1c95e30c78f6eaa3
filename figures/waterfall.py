"""From theory to measurement, a bar a step: start, signed terms, sum, measured, residual.

Rows run from top to bottom.  Each bar starts at zero or at the level that the steps before it have
reached, and carries its exact number at the right, so that no number depends on a length.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from figures import style
from figures.labels import Drawn, name_rows
from figures.panels import Bar, Waterfall

_MORE: Final = style.colour(0)
_LESS: Final = style.colour(4)
_MEASURED: Final = style.colour(2)
_UNEXPLAINED: Final = style.colour(1)

#: Half the height of a bar (rows).
_HALF: Final = 0.28
#: Points between a number and the axes.
_GAP: Final = 5.5


class _Step(NamedTuple):
    """A bar over its amount from ``base``; without a bar there is nothing to draw."""

    name: str
    text: str
    base: int
    bar: Bar | None
    colour: str


def _steps(panel: Waterfall) -> Iterator[_Step]:
    """The rows from top to bottom."""
    yield _step(panel.start, 0, style.THEORY)
    level = panel.start.amount
    for bar in panel.terms:
        yield _step(
            bar, level, _MORE if bar.amount > 0 else _LESS if bar.amount else style.INK, "+"
        )
        level += bar.amount
    yield _step(panel.total, 0, style.THEORY)
    if panel.measured is None:
        yield _Step("Measured", "not measured", 0, None, _MEASURED)
    else:
        yield _step(panel.measured, 0, _MEASURED)
    if left := panel.left:
        yield _step(left, level, _UNEXPLAINED if left.amount else style.INK, "+")


def _step(bar: Bar, base: int, colour: str, plus: str = "") -> _Step:
    sign = "\N{MINUS SIGN}" if bar.amount < 0 else plus if bar.amount else ""
    return _Step("\n".join(bar.lines), f"{sign}{abs(bar.amount):,}", base, bar, colour)


def draw(panel: Waterfall, axes: Axes) -> Drawn:
    """The bars, each linked to the next, with names at the left and numbers at the right."""
    steps, reach = list(_steps(panel)), [0.0]
    for row, step in enumerate(steps):
        if step.bar:
            base = step.base / panel.per_label
            end = (step.base + step.bar.amount) / panel.per_label
            _draw_bar(panel, step, row, base, end, axes)
            if row + 1 < len(steps):
                _draw_link(row, end, axes)
            reach += [base, end]
    axes.set_xlabel(panel.x_label)
    axes.grid(visible=False, axis="y")
    _set_limits(min(reach), max(reach), axes)
    name_rows([step.name for step in steps], axes)
    _number_rows(panel.unit, steps, axes)
    axes.set_title(panel.title, loc="left")
    return []


def _draw_bar(panel: Waterfall, step: _Step, row: int, base: float, end: float, axes: Axes) -> None:
    if base == end:
        # Nothing is a result too: a line where the bar would begin.
        axes.plot(
            [end, end],
            [row - _HALF, row + _HALF],
            color=step.colour,
            linewidth=1.6,
            solid_capstyle="butt",
            clip_on=False,
        )
        return
    axes.barh(
        row,
        end - base,
        left=base,
        height=2 * _HALF,
        color="white" if step.bar == panel.total else step.colour,
        edgecolor=step.colour,
        linewidth=0.9,
        hatch="////" if step.colour == _UNEXPLAINED else None,
    )


def _draw_link(row: int, level: float, axes: Axes) -> None:
    """A thin line from the end of a bar to the next row."""
    axes.plot(
        [level, level],
        [row + _HALF, row + 1 - _HALF],
        color=style.INK,
        linewidth=0.5,
        dashes=(2, 1.5),
        zorder=0.9,
    )


def _set_limits(low: float, high: float, axes: Axes) -> None:
    """From zero, or through it, to a little beyond the bars."""
    room = 0.06 * (high - low) or 1.0
    axes.set_xlim(low - room if low < 0 else -room / 3, high + room)
    axes.axvline(0.0, color=style.INK, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))


def _number_rows(unit: str, steps: list[_Step], axes: Axes) -> None:
    """The numbers under their unit in a column of their own at the right, flush right."""
    rows = [(-0.75, unit, style.THEORY)]
    rows += [
        (row, step.text, _UNEXPLAINED if step.colour == _UNEXPLAINED else style.INK)
        for row, step in enumerate(steps)
    ]
    texts = [
        axes.annotate(
            text,
            xy=(1.0, row),
            xycoords=("axes fraction", "data"),
            xytext=(0.0, 0.0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=style.SMALL,
            color=colour,
            annotation_clip=False,
        )
        for row, text, colour in rows
    ]
    whole = axes.get_figure(root=True)
    assert whole
    width = max(text.get_window_extent().width for text in texts[1:]) * 72 / whole.dpi
    for each in texts:
        each.xyann = (_GAP + width, 0.0)
