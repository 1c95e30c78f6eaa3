"""A table as a LaTeX ``tabular``: PyLaTeX builds it from the cells.

PyLaTeX's own escaping turns ``-1.5`` into ``{-}1.5`` and lets some signs through, so that text is
escaped by ours, in ``_text``.  Notes stand in the document, which every format prints below the
table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from textwrap import wrap
from typing import Final

from pylatex import Command, NoEscape, Tabular
from pylatex.utils import dumps_list

from report.core.text.escape import latex
from report.paper.tables import Column, Table

#: Characters of a table's type that fit side by side into a column of the page and into both, and
#: into the line of a page with one column.
_NARROW: Final = 62
_WIDE: Final = 128
_ONE_COLUMN: Final = 99
#: Names and texts up to these widths are never broken.
_SHORT_NAME: Final = 12
_SHORT_TEXT: Final = 22


def to_latex(table: Table, *, one_column: bool = False) -> str:
    """The table's body with booktabs rules.

    Where it is wider than its line, names of columns are broken, and then the text of long cells.
    ``one_column`` says that the text of the page has one column and not two.
    """
    line = _ONE_COLUMN if one_column else _WIDE if table.wide else _NARROW
    names, shares = _layout(table, line)
    types = (
        rf">{{\raggedright\arraybackslash}}p{{{share / line:.3f}\linewidth}}"
        if share
        else _side(column)
        for column, share in zip(table.columns, shares, strict=True)
    )
    # width: PyLaTeX would count the letters of a paragraph column's type.
    tabular = Tabular("".join(types), width=len(shares), booktabs=True)
    tabular.add_row([_heading(*each) for each in zip(table.columns, names, strict=True)])
    tabular.add_hline()
    for row in table.texts():
        tabular.add_row([_cell(text, mark) for text, mark in row])
    return f"{tabular.dumps()}\n"


def _heading(column: Column, name: Sequence[str]) -> NoEscape | Tabular:
    """A heading with its unit on a line of its own, so that narrow columns stay narrow."""
    *lines, last = [_text(text) for text in (*name, column.shown_unit) if text] or [_text("")]
    if not lines:
        return last
    heading = Tabular(f"@{{}}{_side(column)}@{{}}", pos="b", width=1)
    heading.content_separator = ""
    for text in lines:
        heading.add_row([text])
    heading.append(last)
    return heading


def _cell(text: str, mark: str) -> NoEscape:
    """A cell with the letter that leads to its note, if there is one."""
    marks = [Command("textsuperscript", _text(mark))] if mark else []
    return dumps_list([_text(text), *marks], token="")


def _text(text: str) -> NoEscape:
    return NoEscape(latex(text))


def _side(column: Column) -> str:
    return "r" if column.numeric else "l"


def _layout(table: Table, line: int) -> tuple[list[list[str]], list[float]]:
    """The lines of each column's name, and the characters of those whose text breaks, else 0.

    What others leave is shared among these by the root mean square of their texts' lengths: one
    long text breaks, and not all the texts beside it.
    """
    left: float = line - 2 * len(table.columns)
    lengths = [[len(text) for text, _ in column] for column in zip(*table.texts(), strict=True)]
    lengths = lengths or [[0]] * len(table.columns)
    cells = [max(each) for each in lengths]
    names = [[column.name] for column in table.columns]
    if sum(max(n, len(column.name)) for n, column in zip(cells, table.columns, strict=True)) > left:
        names = [
            wrap(column.name, max(width, _SHORT_NAME), break_long_words=False) or [""]
            for column, width in zip(table.columns, cells, strict=True)
        ]
    natural = [max(n, *map(len, name)) for n, name in zip(cells, names, strict=True)]
    long = [
        0.0 if column.numeric or width <= _SHORT_TEXT else math.sqrt(fmean(n * n for n in each))
        for column, width, each in zip(table.columns, natural, lengths, strict=True)
    ]
    if sum(natural) <= left or not any(long):
        return names, [0.0] * len(natural)
    left -= sum(n for n, share in zip(natural, long, strict=True) if not share)
    shares = [max(left * share / sum(long), _SHORT_TEXT) if share else 0.0 for share in long]
    return names, shares
