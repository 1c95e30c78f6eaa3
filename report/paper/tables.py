"""The table: one frozen object that every output prints.

Cells hold raw numbers; a column knows its unit and the unit in which it is shown.  A missing cell
carries its reason, prints as a dash and becomes a note below the table.
"""

from __future__ import annotations

from dataclasses import dataclass
from string import ascii_lowercase
from textwrap import wrap
from typing import Any, Final, TypeAlias

from figures.characters import visible
from report.missing import Missing
from report.statistics.estimates import CONFIDENCE, Estimate
from report.system.spreadsheet import csv_of
from report.text.escape import escape
from report.text.format import (
    MISSING,
    Number,
    Scale,
    bounded,
    interval_text,
    is_range,
    number_text,
    plain,
    scale_to,
)

Cell: TypeAlias = Number | Estimate | Missing | str


@dataclass(frozen=True)
class Column:
    """A column: its heading, the unit of its raw numbers (``1`` for counts, empty for text).

    ``shown`` is the unit in which numbers are printed, such as ``ms`` for ``s``; ``digits`` how
    many significant ones a number without an interval has, where not the usual ones.
    """

    name: str
    unit: str = ""
    shown: str | None = None
    digits: int | None = None

    @property
    def scale(self) -> Scale:
        """How raw numbers become printed ones."""
        return scale_to(self.shown, self.unit) if self.shown else Scale(1.0, self.unit)

    @property
    def heading(self) -> str:
        """Name and unit, as printed."""
        unit = self.scale.unit
        return self.name if unit in ("", "1") else f"{self.name} ({unit})"

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers, which are set flush right."""
        return self.unit != ""


@dataclass(frozen=True)
class Table:
    """A numbered table of a paper; ``id`` starts with ``tbl-``, every row has a cell a column.

    Caption and notes are plain text: names of devices stand in them, and no markup.
    """

    id: str
    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    wide: bool = False

    def __post_init__(self) -> None:
        if not self.id.startswith("tbl-"):
            raise ValueError(f"table {self.id}: the id of a table starts with tbl-")
        for number, row in enumerate(self.rows, start=1):
            if len(row) != len(self.columns):
                raise ValueError(
                    f"table {self.id}: row {number} has {len(row)} cells for "
                    f"{len(self.columns)} columns"
                )

    @property
    def reasons(self) -> tuple[str, ...]:
        """The reasons of missing cells, each once, in the order of their marks a, b, c …"""
        found = (cell.reason for row in self.rows for cell in row if isinstance(cell, Missing))
        return tuple(dict.fromkeys(found))

    def cell_text(self, cell: Cell, column: Column) -> str:
        """A cell as plain text, without the mark of a missing one."""
        if isinstance(cell, Missing):
            return MISSING
        if isinstance(cell, str):
            return cell
        if column.digits and not isinstance(cell, Estimate):
            return plain(float(cell * column.scale.factor), column.digits)
        text = number_text(cell, column.scale)
        if not isinstance(cell, Estimate):
            # Zeros at its end would claim digits that it does not have.
            return text.rstrip("0").rstrip(".") if "." in text else text
        return f"{text} {interval_text(cell, column.scale)}" if bounded(cell) else text

    def mark(self, cell: Cell) -> str:
        """The letter that leads from a missing cell to its note, else nothing."""
        return _letter(self.reasons.index(cell.reason)) if isinstance(cell, Missing) else ""

    def note_texts(self) -> tuple[tuple[str, str], ...]:
        """All notes as (mark, text): the table's own, unmarked, then those of missing cells."""
        own = tuple(("", note) for note in (*self.notes, *self._level()))
        missing = tuple((_letter(i), reason) for i, reason in enumerate(self.reasons))
        return own + missing

    def _level(self) -> tuple[str, ...]:
        """At which levels the intervals hold, where some do not reach the one of all papers."""
        cells = (cell for row in self.rows for cell in row if isinstance(cell, Estimate))
        known = [cell for cell in cells if bounded(cell)]
        usual = round(100 * CONFIDENCE)
        levels = {min(round(100 * c.confidence), usual) for c in known if not is_range(c)}
        notes = []
        if min(levels, default=usual) < usual:
            ends = sorted({min(levels), max(levels)})
            notes.append(f"Intervals hold at {' to '.join(map(str, ends))} %.")
        if any(map(is_range, known)):
            notes.append("Round brackets: the range of few measurements, no interval.")
        return tuple(notes)

    def as_json(self) -> dict[str, Any]:
        """Columns and rows of raw numbers; an interval takes two columns of its own."""
        with_interval = [
            any(isinstance(row[i], Estimate) for row in self.rows) for i in range(len(self.columns))
        ]
        columns: list[dict[str, str]] = []
        for column, expand in zip(self.columns, with_interval, strict=True):
            names = [column.name]
            if expand:
                names += [f"{column.name}, low", f"{column.name}, high"]
            columns += [{"name": name, "unit": column.unit} for name in names]
        rows = [
            [
                number
                for cell, expand in zip(row, with_interval, strict=True)
                for number in _raw(cell, expand)
            ]
            for row in self.rows
        ]
        return {
            "caption": self.caption,
            "columns": columns,
            "rows": rows,
            "notes": [text for _, text in self.note_texts()],
            "sources": list(self.sources),
        }


def _raw(cell: Cell, expand: bool) -> list[Number | str | None]:
    if isinstance(cell, Estimate):
        return [cell.value, cell.low, cell.high]
    raw = None if isinstance(cell, Missing) else cell
    return [raw, None, None] if expand else [raw]


def _letter(index: int) -> str:
    """a to z, then aa, ab and so on."""
    before, last = divmod(index, len(ascii_lowercase))
    return (_letter(before - 1) if before else "") + ascii_lowercase[last]


def to_markdown(table: Table, caption: str | None = None) -> str:
    """The table as a Quarto cross-reference div holding a pipe table, notes and caption.

    ``caption`` is markdown that a template has for it.
    """

    def cell(value: Cell, column: Column) -> str:
        text = escape(table.cell_text(value, column), "markdown")
        mark = table.mark(value)
        return f"{text}^{mark}^" if mark else text

    lines = [_pipe([escape(column.heading, "markdown") for column in table.columns])]
    lines.append(_pipe(["---:" if column.numeric else ":---" for column in table.columns]))
    for row in table.rows:
        cells = [cell(value, column) for value, column in zip(row, table.columns, strict=True)]
        lines.append(_pipe(cells))
    notes = [
        (f"^{mark}^ " if mark else "") + escape(text, "markdown")
        for mark, text in table.note_texts()
    ]
    block = [f"::: {{#{table.id}{' .wide' if table.wide else ''}}}", *lines, ""]
    if notes:
        block += ["::: {.table-notes}", " ".join(notes), ":::", ""]
    words = escape(table.caption, "markdown") if caption is None else caption
    return "\n".join([*block, words, ":::"])


def _pipe(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def to_latex(table: Table, *, one_column: bool = False) -> str:
    """The table's body as a ``tabular`` with booktabs rules, by PyLaTeX from escaped cells.

    ``one_column`` says that the text of the page has one column and not two.
    """
    from pylatex import NoEscape, Tabular

    def cell(value: Cell, column: Column) -> NoEscape:
        text = escape(table.cell_text(value, column), "latex")
        mark = table.mark(value)
        return NoEscape(rf"{text}\textsuperscript{{{mark}}}" if mark else text)

    line = _ONE_COLUMN if one_column else _CAPACITY[table.wide]
    heads = _heads(table, line, wrapped=one_column)
    widths = _widths(table, heads, line)
    spec = "".join(_column_type(width, column) for width, column in widths)
    # width: PyLaTeX would count the letters of a paragraph column's type.
    tabular = Tabular(spec, width=len(table.columns), booktabs=True)
    tabular.add_row([NoEscape(_stacked(*pair)) for pair in zip(table.columns, heads, strict=True)])
    tabular.add_hline()
    for row in table.rows:
        tabular.add_row([cell(v, c) for v, c in zip(row, table.columns, strict=True)])
    text: str = tabular.dumps()
    return text + "\n"


#: Characters of a table's type that fit side by side into one column of the page, and into both.
_CAPACITY: Final = {False: 62, True: 128}
#: The same for a page whose text has one column.
_ONE_COLUMN: Final = 99
#: Text columns up to this width are never broken, and those that are get this much at least where
#: they are few.
_SHORT, _NARROW, _FEW = 22, 20, 3


#: Heads of columns up to this width are never broken.
_SHORT_HEAD: Final = 12


def _heads(table: Table, line: int, *, wrapped: bool) -> list[list[str]]:
    """The lines of each column's name; ``wrapped`` breaks names that make the table too wide.

    ``line`` is the number of characters that fit side by side.
    """
    cells = [_widest(table, i) for i in range(len(table.columns))]
    names = [column.name for column in table.columns]
    natural = sum(max(len(name), cell) + 2 for name, cell in zip(names, cells, strict=True))
    if not wrapped or natural <= line:
        return [[name] for name in names]
    return [
        wrap(name, max(cell, _SHORT_HEAD), break_long_words=False, break_on_hyphens=False) or [""]
        for name, cell in zip(names, cells, strict=True)
    ]


def _widest(table: Table, index: int) -> int:
    """Characters of the widest cell of a column, without its head."""
    column = table.columns[index]
    return max((len(table.cell_text(row[index], column)) for row in table.rows), default=0)


def _widths(table: Table, heads: list[list[str]], line: int) -> list[tuple[float | None, Column]]:
    """The share of the line that each column is given; None where its text need not break."""
    sizes = [
        max(_widest(table, i), *(len(text) for text in head), 1) for i, head in enumerate(heads)
    ]
    breakable = [
        not column.numeric and size > _SHORT
        for size, column in zip(sizes, table.columns, strict=True)
    ]
    capacity = line - 2 * len(sizes)
    if sum(sizes) <= capacity or not any(breakable):
        return [(None, column) for column in table.columns]
    fixed = sum(size for size, breaks in zip(sizes, breakable, strict=True) if not breaks)
    left = max(capacity - fixed, _NARROW * min(sum(breakable), _FEW))
    words = [float(_longest_word(table, i) * breaks) for i, breaks in enumerate(breakable)]
    if sum(words) > left:  # words with hyphens break after all
        words = [word * left / sum(words) for word in words]
    # Beyond its longest word each gets what is left in proportion to what it could still use.
    rest = [
        (size - word) * breaks for size, word, breaks in zip(sizes, words, breakable, strict=True)
    ]
    spare = max(0.0, left - sum(words)) / max(1, sum(rest))
    return [
        ((word + spare * more) / line if breaks else None, column)
        for word, more, breaks, column in zip(words, rest, breakable, table.columns, strict=True)
    ]


def _longest_word(table: Table, index: int) -> int:
    """Characters of the longest word of a column, which does not break."""
    column = table.columns[index]
    texts = (column.name, *(table.cell_text(row[index], column) for row in table.rows))
    return max(len(word) for text in texts for word in text.split(" "))


def _column_type(share: float | None, column: Column) -> str:
    if share is not None:
        return rf">{{\raggedright\arraybackslash}}p{{{share:.3f}\linewidth}}"
    return "r" if column.numeric else "l"


def _stacked(column: Column, name: list[str]) -> str:
    """A heading with its unit on a line of its own, so that narrow columns stay narrow."""
    unit = column.scale.unit
    lines = [escape(text, "latex") for text in name]
    lines += [] if unit in ("", "1") else [f"({escape(unit, 'latex')})"]
    if len(lines) == 1:
        return lines[0]
    side = "r" if column.numeric else "l"
    return rf"\begin{{tabular}}[b]{{@{{}}{side}@{{}}}}" + r"\\".join(lines) + r"\end{tabular}"


def to_csv(table: Table) -> str:
    """The raw numbers, for a reader who wants to compute with them."""
    data = table.as_json()
    heads = [f"{c['name']} [{c['unit']}]" if c["unit"] else c["name"] for c in data["columns"]]
    return visible(csv_of([heads, *data["rows"]]))
