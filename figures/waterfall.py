"""Draw waterfalls from theory to measurement: start, signed terms, sum, measured, residual.

Rows run from top to bottom.  A bar starts at zero or at the sum of the previous ones.  Its exact
number is written at the right, so that no reader has to measure a length.
"""

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
#: Distance between a number and the axes (pt).
_GAP: Final = 5.5


class _Row(NamedTuple):
    """A row with its number, and a bar that starts at ``base``, if any."""

    name: str
    text: str
    base: int
    bar: Bar | None
    colour: str


def _rows(panel: Waterfall) -> Iterator[_Row]:
    """Yield the rows from top to bottom."""
    yield _row(panel.start, 0, style.THEORY)
    level = panel.start.amount
    for bar in panel.terms:
        yield _row(bar, level, _MORE if bar.amount > 0 else _LESS if bar.amount else style.INK, "+")
        level += bar.amount
    yield _row(panel.total, 0, style.THEORY)
    if panel.measured is None:
        yield _Row("Measured", "not measured", 0, None, _MEASURED)
    else:
        yield _row(panel.measured, 0, _MEASURED)
    if left := panel.left:
        yield _row(left, level, _UNEXPLAINED if left.amount else style.INK, "+")


def _row(bar: Bar, base: int, colour: str, plus: str = "") -> _Row:
    sign = "\N{MINUS SIGN}" if bar.amount < 0 else plus if bar.amount else ""
    return _Row("\n".join(bar.lines), f"{sign}{abs(bar.amount):,}", base, bar, colour)


def draw(panel: Waterfall, axes: Axes) -> Drawn:
    """Draw linked bars, with names at the left and numbers at the right."""
    steps, reach = list(_rows(panel)), [0.0]
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


def _draw_bar(panel: Waterfall, step: _Row, row: int, base: float, end: float, axes: Axes) -> None:
    if base == end:
        # Zero is a result too, drawn as a line.
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
    """Draw a thin line from the end of a bar to the next row."""
    axes.plot(
        [level, level],
        [row + _HALF, row + 1 - _HALF],
        color=style.INK,
        linewidth=0.5,
        dashes=(2, 1.5),
        zorder=0.9,
    )


def _set_limits(low: float, high: float, axes: Axes) -> None:
    """Set the axis to include zero and a margin beyond the bars."""
    room = 0.06 * (high - low) or 1.0
    axes.set_xlim(low - room if low < 0 else -room / 3, high + room)
    axes.axvline(0.0, color=style.INK, linewidth=0.6)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))


def _number_rows(unit: str, steps: list[_Row], axes: Axes) -> None:
    """Write the unit and the numbers in a right-aligned column at the right of the axes."""
    rows = [(-0.75, unit, style.THEORY)]
    for row, step in enumerate(steps):
        colour = _UNEXPLAINED if step.colour == _UNEXPLAINED else style.INK
        rows.append((row, step.text, colour))
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
    for text in texts:
        text.xyann = (_GAP + width, 0.0)
