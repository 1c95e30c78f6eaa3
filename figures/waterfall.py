"""From theory to measurement, a bar a step: start, signed terms, sum, measured, residual.

Rows run from top to bottom.  Each bar starts at zero or at the level that the steps before it have
reached, and carries its exact number at the right, so that no number depends on a length.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from figures import style
from figures.canvas import Drawn, Panel, Row
from figures.labels import name_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MORE: Final = style.colour(0)
LESS: Final = style.colour(4)
MEASURED: Final = style.colour(2)
UNEXPLAINED: Final = style.colour(1)

#: Letters on one line of a row's name.
_NAME_LETTERS: Final = 22
#: Inches: a row at least, a line of a name in the longest row, the title, the axis below.
_ROW, _NAME_LINE, _TITLE, _BELOW = 0.2, 0.13, 0.2, 0.62
#: Half the height of a bar (rows).
_HALF: Final = 0.28
#: Points between a number and the axes.
_GAP: Final = 5.5


@dataclass(frozen=True)
class Bar:
    """A named amount in the unit of the figure."""

    name: str
    amount: int


class _Step(NamedTuple):
    """A bar over its amount from ``base``; without a bar there is nothing to draw."""

    name: str
    text: str
    base: int
    bar: Bar | None
    colour: str


@dataclass(frozen=True)
class Waterfall(Panel):
    """A finished description: from ``start`` and ``terms`` to what was ``measured``.

    ``measured`` is None where nothing was measured, and the figure says so.  ``residual`` names
    what is left; without a name it has no row.  All bars and numbers are in ``unit``, of which
    ``per_label`` are one unit of the axis' label.
    """

    start: Bar
    terms: tuple[Bar, ...]
    measured: Bar | None
    residual: str
    unit: str
    x_label: str
    per_label: float = 1.0
    title: str = ""

    @property
    def total(self) -> Bar:
        """What theory gives with all terms."""
        return Bar("Sum", sum((term.amount for term in self.terms), self.start.amount))

    @property
    def left(self) -> Bar | None:
        """The residual, which leads from the sum to the measurement."""
        if self.measured is None or not self.residual:
            return None
        return Bar(self.residual, self.measured.amount - self.total.amount)

    def _steps(self) -> Iterator[_Step]:
        """The rows from top to bottom."""

        def step(bar: Bar, base: int, colour: str, plus: str = "") -> _Step:
            name = "\n".join(textwrap.wrap(bar.name, _NAME_LETTERS, break_on_hyphens=False))
            number = f"{abs(bar.amount):,}"
            sign = "\N{MINUS SIGN}" if bar.amount < 0 else plus if bar.amount else ""
            return _Step(name, f"{sign}{number}", base, bar, colour)

        yield step(self.start, 0, style.THEORY)
        level = self.start.amount
        for bar in self.terms:
            colour = MORE if bar.amount > 0 else LESS if bar.amount else style.INK
            yield step(bar, level, colour, "+")
            level += bar.amount
        yield step(self.total, 0, style.THEORY)
        if self.measured is None:
            yield _Step("Measured", "not measured", 0, None, MEASURED)
        else:
            yield step(self.measured, 0, MEASURED)
        if self.left:
            yield step(self.left, level, UNEXPLAINED if self.left.amount else style.INK, "+")

    @property
    def height(self) -> float:
        """The height in inches that leaves every row its room."""
        names = [step.name for step in self._steps()]
        lines = max(name.count("\n") + 1 for name in names)
        title = _TITLE if self.title else 0.0
        return round(_BELOW + title + len(names) * max(_ROW, _NAME_LINE * lines), 2)

    def draw(self, axes: Axes) -> Drawn:
        """The bars, each linked to the next, with names at the left and numbers at the right."""
        steps, reach = list(self._steps()), [0.0]
        for row, step in enumerate(steps):
            if step.bar:
                base = step.base / self.per_label
                end = (step.base + step.bar.amount) / self.per_label
                self._draw_bar(step, row, base, end, axes)
                if row + 1 < len(steps):
                    self._draw_link(row, end, axes)
                reach += [base, end]
        axes.set_xlabel(self.x_label)
        axes.grid(visible=False, axis="y")
        self._set_limits(min(reach), max(reach), axes)
        name_rows([step.name for step in steps], axes)
        self._number_rows(steps, axes)
        axes.set_title(self.title, loc="left")
        return []

    def _draw_bar(self, step: _Step, row: int, base: float, end: float, axes: Axes) -> None:
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
            color="white" if step.bar == self.total else step.colour,
            edgecolor=step.colour,
            linewidth=0.9,
            hatch="////" if step.colour == UNEXPLAINED else None,
        )

    def _draw_link(self, row: int, level: float, axes: Axes) -> None:
        """A thin line from the end of a bar to the next row."""
        axes.plot(
            [level, level],
            [row + _HALF, row + 1 - _HALF],
            color=style.INK,
            linewidth=0.5,
            dashes=(2, 1.5),
            zorder=0.9,
        )

    def _set_limits(self, low: float, high: float, axes: Axes) -> None:
        """From zero, or through it, to a little beyond the bars."""
        from matplotlib.ticker import MaxNLocator

        room = 0.06 * (high - low) or 1.0
        axes.set_xlim(low - room if low < 0 else -room / 3, high + room)
        axes.axvline(0.0, color=style.INK, linewidth=0.6)
        axes.spines["left"].set_visible(False)
        axes.xaxis.set_major_locator(MaxNLocator(nbins=3, steps=[1, 2, 5, 10]))

    def _number_rows(self, steps: list[_Step], axes: Axes) -> None:
        """The numbers under their unit in a column of their own at the right, flush right."""
        rows = [(-0.75, self.unit, style.THEORY)]
        rows += [
            (row, step.text, UNEXPLAINED if step.colour == UNEXPLAINED else style.INK)
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

    def rows(self) -> Iterator[Row]:
        """The bars."""
        bars = (self.start, *self.terms, self.total, self.measured, self.left)
        for bar in filter(None, bars):
            yield "", bar.name, None, None, self.unit, bar.amount, None, None
