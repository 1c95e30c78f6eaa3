"""From theory to measurement, a bar a step: start, signed terms, sum, measured, residual.

Rows run from top to bottom and carry their exact numbers at the right, so that no number depends
on the length of a bar.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

#: Letters on one line of a row's name.
NAME_LETTERS: Final = 22

#: Inches: a row at least, a line of a name in the longest row, the title, the axis below.
_ROW, _NAME_LINE, _TITLE, _BELOW = 0.2, 0.13, 0.2, 0.62


@dataclass(frozen=True)
class Bar:
    """A named amount in the unit of the figure, and the text that is printed for it."""

    name: str
    amount: float
    text: str


@dataclass(frozen=True)
class Waterfall:
    """A finished description: ``start`` and ``terms`` make ``total``, ``residual`` is left.

    ``measured`` and ``residual`` are None where nothing was measured; the figure says so.  All bars
    and numbers are in ``unit``, of which ``per_label`` are one unit of the axis' label.
    """

    start: Bar
    terms: tuple[Bar, ...]
    total: Bar
    measured: Bar | None
    residual: Bar | None
    unit: str
    x_label: str
    per_label: float = 1.0
    title: str = ""

    @property
    def levels(self) -> tuple[float, ...]:
        """What is reached after the start and after each term; the last one is the sum."""
        amounts = (term.amount for term in self.terms)
        return tuple(accumulate(amounts, initial=self.start.amount))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the rows from top to bottom, broken into lines."""
        last = (
            (self.measured.name, self.residual.name)
            if self.measured and self.residual
            else ("Measured",)
        )
        names = (self.start.name, *(term.name for term in self.terms), self.total.name, *last)
        return tuple(map(_wrapped, names))

    @property
    def height(self) -> float:
        """The height in inches that leaves every row its room."""
        lines = max(name.count("\n") + 1 for name in self.names)
        title = _TITLE if self.title else 0.0
        return round(_BELOW + title + len(self.names) * max(_ROW, _NAME_LINE * lines), 2)


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, NAME_LETTERS, break_on_hyphens=False))
