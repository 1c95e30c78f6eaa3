"""Tables as LaTeX ``tabular``, built by PyLaTeX.

``_text`` escapes text, since PyLaTeX's own escaping turns ``-1.5`` into ``{-}1.5`` and misses some
characters.  The notes below a table are part of the document, so they are not written here.
"""

import math
from collections.abc import Sequence
from statistics import fmean
from textwrap import wrap
from typing import Final

from pylatex import Command, NoEscape, Tabular
from pylatex.utils import dumps_list

from report.core.text.escape import latex
from report.paper.tables import Column, Table

#: Characters per line of a table in one column of a two-column page.
_NARROW_LINE: Final = 62
#: Characters per line of a table across both columns of a two-column page.
_WIDE_LINE: Final = 128
#: Characters per line of a table on a page with one column.
_ONE_COLUMN_LINE: Final = 99
#: Characters of the longest heading that is never broken into lines.
_SHORT_HEADING: Final = 12
#: Characters of the longest text that is never broken into lines.
_SHORT_TEXT: Final = 22


def to_latex(table: Table, *, one_column: bool = False) -> str:
    """Write the table's body with booktabs rules.

    In a table that is too wide, headings are broken into lines first, then long cells.
    ``one_column`` means that the page has one column of text instead of two.
    """
    line = _WIDE_LINE if table.wide else _NARROW_LINE
    if one_column:
        line = _ONE_COLUMN_LINE
    names, widths = _layout(table, line)
    types = ""
    for column, width in zip(table.columns, widths, strict=True):
        paragraph = rf">{{\raggedright\arraybackslash}}p{{{width / line:.3f}\linewidth}}"
        types += paragraph if width else _alignment(column)
    # PyLaTeX would count the letters of a paragraph column's type as further columns.
    tabular = Tabular(types, width=len(table.columns), booktabs=True)
    tabular.add_row(list(map(_heading, table.columns, names)))
    tabular.add_hline()
    for row in table.texts():
        tabular.add_row([_cell(text, mark) for text, mark in row])
    return f"{tabular.dumps()}\n"


def _heading(column: Column, name: Sequence[str]) -> NoEscape | Tabular:
    """Write a heading, with its unit on a separate line to keep narrow columns narrow."""
    *lines, last = [_text(text) for text in (*name, column.shown_unit) if text] or [_text("")]
    if not lines:
        return last
    heading = Tabular(f"@{{}}{_alignment(column)}@{{}}", pos="b", width=1)
    heading.content_separator = ""
    for text in lines:
        heading.add_row([text])
    heading.append(last)
    return heading


def _cell(text: str, mark: str) -> NoEscape:
    """Write a cell with the letter of its note, if any."""
    marks = [Command("textsuperscript", _text(mark))] if mark else []
    return dumps_list([_text(text), *marks], token="")


def _text(text: str) -> NoEscape:
    return NoEscape(latex(text))


def _alignment(column: Column) -> str:
    return "r" if column.is_numeric else "l"


def _layout(table: Table, line: int) -> tuple[list[list[str]], list[float]]:
    """Return the lines of each heading, and the width (characters) of each column.

    The width is 0 for columns whose texts are not broken into lines.  Broken columns share the
    remaining width in proportion to the root mean square of the lengths of their texts, so that a
    single long text is broken before many texts of middle length.
    """
    width_left: float = line - 2 * len(table.columns)
    lengths = [[0] for _ in table.columns]
    for row in table.texts():
        for column_lengths, (text, _) in zip(lengths, row, strict=True):
            column_lengths.append(len(text))
    widths = list(map(max, lengths))
    names = [[column.name] for column in table.columns]
    if sum(map(max, widths, (len(column.name) for column in table.columns))) > width_left:
        names = [
            wrap(column.name, max(width, _SHORT_HEADING), break_long_words=False) or [""]
            for column, width in zip(table.columns, widths, strict=True)
        ]
    natural = [max(width, *map(len, name)) for width, name in zip(widths, names, strict=True)]
    weights = []
    for column, width, (_, *texts) in zip(table.columns, natural, lengths, strict=True):
        breaks = not column.is_numeric and width > _SHORT_TEXT and texts
        weight = math.sqrt(fmean(n * n for n in texts)) if breaks else 0.0
        # The root keeps columns with texts of middle length readable on a one-column page.
        weights.append(math.sqrt(weight) if line == _ONE_COLUMN_LINE else weight)
    if sum(natural) <= width_left or not any(weights):
        return names, [0.0] * len(natural)
    width_left -= sum(n for n, weight in zip(natural, weights, strict=True) if not weight)
    total = sum(weights)
    broken_columns = sum(weight > 0 for weight in weights)
    least_width = 0 if line == _ONE_COLUMN_LINE else min(_SHORT_TEXT, width_left / broken_columns)
    return names, [
        max(width_left * weight / total, least_width) if weight else 0.0 for weight in weights
    ]
