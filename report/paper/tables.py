"""The table: one frozen object that every output prints.

Cells hold raw numbers; a column knows its unit and the unit in which it is shown.  A missing cell
carries its reason, prints as a dash and becomes a note below the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from figures.characters import visible
from report.core.errors import StudyCodeError
from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate
from report.core.system.spreadsheet import csv_of
from report.core.text.escape import markdown
from report.core.text.format import MISSING, Number, Scale, bounded, plain, printed, scale_to
from report.quantity.evaluation import number
from report.quantity.expression import Quantity

Cell: TypeAlias = Number | Estimate | Missing | str
#: What a cell of a table may hold: a quantity, or what needs no computing.
Content: TypeAlias = Quantity | Cell

#: A heading that ends with the unit in which its numbers are printed.
_SHOWN: Final = re.compile(r"(.+) \((\S+)\)")


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
        return f"{self.name} {self.shown_unit}".rstrip()

    @property
    def shown_unit(self) -> str:
        """The unit in brackets, if there is one."""
        unit = self.scale.unit
        return "" if unit in ("", "1") else f"({unit})"

    @property
    def numeric(self) -> bool:
        """Whether the column holds numbers, which are set flush right."""
        return self.unit != ""

    def text(self, cell: Cell) -> str:
        """A cell as plain text, without the mark of a missing one."""
        if isinstance(cell, Missing):
            return MISSING
        if isinstance(cell, str):
            return cell
        if self.digits and not isinstance(cell, Estimate):
            return plain(float(cell * self.scale.factor), self.digits)
        parts = printed(cell, self.scale)
        return f"{parts.number} {parts.bounds}".rstrip()


@dataclass(frozen=True)
class Table:
    """A numbered table of a paper; ``id`` starts with ``tbl-``, every row has a cell a column.

    Caption and notes are plain text: names of devices stand in them, and no markup.
    """

    id: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    wide: bool = False
    caption: str = ""

    def __post_init__(self) -> None:
        if not self.id.startswith("tbl-"):
            raise ValueError(f"table {self.id}: the id of a table starts with tbl-")

    @property
    def marks(self) -> dict[str, str]:
        """The reasons of missing cells, each once, with the letter that leads to its note."""
        cells = (cell for row in self.rows for cell in row if isinstance(cell, Missing))
        return {why: _letter(n) for n, why in enumerate(dict.fromkeys(c.reason for c in cells))}

    def texts(self) -> list[list[tuple[str, str]]]:
        """The cells as plain text, each with the letter that leads a missing one to its note."""
        marks = self.marks
        return [
            [
                (column.text(cell), marks[cell.reason] if isinstance(cell, Missing) else "")
                for column, cell in zip(self.columns, row, strict=True)
            ]
            for row in self.rows
        ]

    def note_texts(self) -> tuple[tuple[str, str], ...]:
        """All notes as (mark, text): the table's own, unmarked, then those of missing cells."""
        own = (("", note) for note in (*self.notes, *self._level()))
        return (*own, *((mark, reason) for reason, mark in self.marks.items()))

    def _level(self) -> tuple[str, ...]:
        """At which levels the intervals hold, where some do not reach the one of all papers."""
        cells = (cell for row in self.rows for cell in row if isinstance(cell, Estimate))
        usual = round(100 * CONFIDENCE)
        levels = {min(round(100 * cell.confidence), usual) for cell in cells if bounded(cell)}
        if min(levels, default=usual) == usual:
            return ()
        ends = sorted({min(levels), max(levels)})
        return (f"Intervals hold at {' to '.join(map(str, ends))} %.",)

    def as_json(self) -> dict[str, Any]:
        """Columns and rows of raw numbers; an interval takes two columns of its own."""
        widths = [
            3 if any(isinstance(row[i], Estimate) for row in self.rows) else 1
            for i in range(len(self.columns))
        ]
        return {
            "caption": self.caption,
            "columns": [
                {"name": f"{column.name}{end}", "unit": column.unit}
                for column, width in zip(self.columns, widths, strict=True)
                for end in ("", ", low", ", high")[:width]
            ],
            "rows": [
                [n for cell, width in zip(row, widths, strict=True) for n in _raw(cell)[:width]]
                for row in self.rows
            ],
            "notes": [text for _, text in self.note_texts()],
            "sources": list(self.sources),
        }


def _raw(cell: Cell) -> tuple[Number | str | None, ...]:
    """A cell with the ends of its interval."""
    if isinstance(cell, Estimate):
        return cell.value, cell.low, cell.high
    return None if isinstance(cell, Missing) else cell, None, None


def _letter(index: int) -> str:
    """a to z, then aa, bb and so on."""
    rounds, letter = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[letter] * (rounds + 1)


def table_of(
    id: str,
    rows: Sequence[Mapping[str, Content]],
    *,
    wide: bool = False,
    digits: Mapping[str, int] = MappingProxyType({}),
) -> Table:
    """A table of rows that have their cells by heading, as ``Study.table`` says.

    Raises ``StudyError`` for rows with other headings than the first one, and for a column of two
    units.
    """
    heads = list(rows[0]) if rows else []
    for row in rows:
        if list(row) != heads:
            found = f"a row has the headings {list(row)}, the first one {heads}"
            raise StudyCodeError(f"{id}: {found}")
    contents = tuple(
        tuple(number(each) if isinstance(each, Quantity) else each for each in row.values())
        for row in rows
    )
    used = (each for row in rows for each in row.values() if isinstance(each, Quantity))
    return Table(
        id,
        tuple(_column(head, [row[head] for row in rows], digits.get(head)) for head in heads),
        contents,
        sources=tuple(dict.fromkeys(file for quantity in used for file in quantity.sources)),
        wide=wide,
    )


def _column(head: str, contents: Sequence[Content], digits: int | None) -> Column:
    """Raises ``StudyError`` for quantities of two units in one column."""
    units = {_unit(each) for each in contents if not isinstance(each, Missing)}
    if len(units) > 1:
        raise StudyCodeError(f"the column {head!r} holds {' and '.join(sorted(units))}")
    unit, shown = "".join(units), _SHOWN.fullmatch(head)
    if unit and shown:
        try:
            scale_to(shown[2], unit)
        except ValueError as error:
            raise StudyCodeError(f"the heading {head!r}: {error}") from error
        return Column(shown[1], unit, shown[2], digits)
    return Column(head, unit if units else "1", None, digits)


def _unit(content: Content) -> str:
    """The unit of a cell; none of text."""
    if isinstance(content, Quantity):
        return str(content.unit)
    return "1" if isinstance(content, int | float) else ""


def to_markdown(table: Table, caption: str) -> str:
    """The table as a Quarto cross-reference div; ``caption`` is markdown."""
    lines = [
        [markdown(column.heading) for column in table.columns],
        ["---:" if column.numeric else ":---" for column in table.columns],
    ]
    for row in table.texts():
        lines.append([markdown(text) + (f"^{mark}^" if mark else "") for text, mark in row])
    notes = [(f"^{mark}^ " if mark else "") + markdown(text) for mark, text in table.note_texts()]
    return "\n".join([
        f"::: {{#{table.id}{' .wide' if table.wide else ''}}}",
        *(f"| {' | '.join(line)} |" for line in lines),
        "",
        *(["::: {.table-notes}", " ".join(notes), ":::", ""] if notes else []),
        caption,
        ":::",
    ])  # fmt: skip


def to_csv(table: Table) -> str:
    """The raw numbers, for a reader who wants to compute with them."""
    data = table.as_json()
    heads = [f"{c['name']} [{c['unit']}]" if c["unit"] else c["name"] for c in data["columns"]]
    return visible(csv_of([heads, *data["rows"]]))
