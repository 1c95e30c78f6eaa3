"""Tables of papers: one frozen object that every output format prints.

Cells hold raw numbers; columns hold the unit of the raw numbers and the printed unit.  A missing
cell is printed as a dash, with its reason as a note below the table.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from string import ascii_lowercase
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from figures.characters import escape_invisible
from report.core.errors import StudyCodeError
from report.core.missing import Missing
from report.core.statistics.estimates import CONFIDENCE, Estimate
from report.core.system.spreadsheet import csv_of
from report.core.text.escape import markdown
from report.core.text.format import (
    MISSING,
    Number,
    Scale,
    has_printed_interval,
    plain_number,
    printed_parts,
    scale_to,
)
from report.paper.values import Evaluated
from report.quantity.evaluation import printed_number
from report.quantity.expression import Quantity

#: An evaluated cell: a number, an estimate with interval, the reason of its absence, or a text.
TableCell: TypeAlias = Evaluated | str
#: A cell as a study declares it: a quantity, or an evaluated cell.
Content: TypeAlias = Quantity | TableCell

#: A heading that ends with the unit in which its numbers are printed.
_HEADING_WITH_UNIT: Final = re.compile(r"(.+) \((\S+)\)")


@dataclass(frozen=True)
class Column:
    """A column of a table.

    ``name``: heading without unit.  ``unit``: unit of the raw numbers (``1`` for counts, empty for
    text).  ``shown``: printed unit, such as ``ms`` for ``s``; None for the raw unit.  ``digits``:
    significant digits of numbers without an interval; None for the default.
    """

    name: str
    unit: str = ""
    shown: str | None = None
    digits: int | None = None

    @property
    def scale(self) -> Scale:
        """Scale from raw to printed numbers."""
        return scale_to(self.shown, self.unit) if self.shown else Scale(1.0, self.unit)

    @property
    def heading(self) -> str:
        """Name and unit, as printed."""
        return f"{self.name} {self.shown_unit}".rstrip()

    @property
    def shown_unit(self) -> str:
        """Unit in brackets, empty for counts and text."""
        unit = self.scale.unit
        return "" if unit in ("", "1") else f"({unit})"

    @property
    def is_numeric(self) -> bool:
        """True if the column holds numbers, which are aligned to the right."""
        return self.unit != ""

    def text(self, cell: TableCell, *, outward: bool = False) -> str:
        """Return a cell as plain text, with ends of intervals rounded to nearest or ``outward``."""
        if isinstance(cell, Missing):
            return MISSING
        if isinstance(cell, str):
            return cell
        if self.digits and not isinstance(cell, Estimate):
            return plain_number(float(cell * self.scale.factor), self.digits)
        parts = printed_parts(cell, self.scale, outward=outward)
        return f"{parts.number} {parts.bounds}".rstrip()


@dataclass(frozen=True)
class Table:
    """A numbered table of a paper; ``id`` starts with ``tbl-``, rows have one cell per column.

    Caption and notes are plain text without markup.  ``sources``: files with the numbers.
    ``wide``: wider than one text column of the page.  ``outward``: round ends of intervals outward.
    """

    id: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    wide: bool = False
    caption: str = ""
    outward: bool = False

    @property
    def note_letters(self) -> dict[str, str]:
        """Reason of missing cells → letter of its note: a to z, then aa, bb and so on."""
        letters: dict[str, str] = {}
        for cell in chain(*self.rows):
            if isinstance(cell, Missing):
                repeats, number = divmod(len(letters), len(ascii_lowercase))
                letters.setdefault(cell.reason, ascii_lowercase[number] * (repeats + 1))
        return letters

    def texts(self) -> list[list[tuple[str, str]]]:
        """Return all cells as (text, letter of the note); only missing cells have a note."""
        letters, rows = self.note_letters, []
        for row in self.rows:
            texts = []
            for column, cell in zip(self.columns, row, strict=True):
                letter = letters[cell.reason] if isinstance(cell, Missing) else ""
                texts.append((column.text(cell, outward=self.outward), letter))
            rows.append(texts)
        return rows

    def note_texts(self) -> tuple[tuple[str, str], ...]:
        """List all notes as (letter, text): notes without letter, then reasons of missing cells."""
        general_notes = (("", note) for note in (*self.notes, *self._level_note()))
        return (*general_notes, *((letter, reason) for reason, letter in self.note_letters.items()))

    def _level_note(self) -> tuple[str, ...]:
        """Return a note on the confidence of the intervals, if some are below ``CONFIDENCE``."""
        usual_level, levels = round(100 * CONFIDENCE), set()
        for cell in chain(*self.rows):
            if isinstance(cell, Estimate) and has_printed_interval(cell) and cell.level:
                levels.add(min(round(100 * cell.level), usual_level))
        if min(levels, default=usual_level) == usual_level:
            return ()
        ends = sorted({min(levels), max(levels)})
        return (f"Intervals hold at {' to '.join(map(str, ends))} %.",)

    def as_json(self) -> dict[str, Any]:
        """Content of the table with raw numbers; intervals add two columns for their ends."""
        rows: list[list[Number | str | None]] = [[] for _ in self.rows]
        columns = []
        for column, *cells in zip(self.columns, *self.rows, strict=True):
            width = 3 if any(isinstance(cell, Estimate) for cell in cells) else 1
            for end in ("", ", low", ", high")[:width]:
                columns.append({"name": f"{column.name}{end}", "unit": column.unit})
            for row, cell in zip(rows, cells, strict=True):
                if isinstance(cell, Estimate):
                    row.extend((cell.value, cell.low, cell.high))
                else:
                    row.extend((None if isinstance(cell, Missing) else cell, None, None)[:width])
        return {
            "caption": self.caption,
            "columns": columns,
            "rows": rows,
            "notes": [text for _, text in self.note_texts()],
            "sources": list(self.sources),
        }


def table_of(
    id: str,
    rows: Sequence[Mapping[str, Content]],
    *,
    wide: bool = False,
    digits: Mapping[str, int] = MappingProxyType({}),
) -> Table:
    """Make a table from rows that map headings to cells (see ``Part.table``).

    Raises ``StudyCodeError`` for rows with different headings, and for a column with two units or
    with a heading whose unit does not fit.
    """
    headings = list(rows[0]) if rows else []
    cells, sources = [], dict[str, None]()
    for row in rows:
        if list(row) != headings:
            raise StudyCodeError(
                f"{id}: a row has the headings {list(row)}, the first row {headings}; "
                "give all rows the same headings in the same order."
            )
        for content in row.values():
            sources |= dict.fromkeys(content.sources if isinstance(content, Quantity) else ())
        cells.append(
            tuple(printed_number(c) if isinstance(c, Quantity) else c for c in row.values())
        )
    columns = []
    for heading in headings:
        columns.append(_column(heading, [row[heading] for row in rows], digits.get(heading)))
    return Table(id, tuple(columns), tuple(cells), sources=tuple(sources), wide=wide)


def _column(heading: str, contents: Sequence[Content], digits: int | None) -> Column:
    """Derive a column from its heading and cells; raise ``StudyCodeError`` as ``table_of`` does."""
    units = {_unit(content) for content in contents if not isinstance(content, Missing)}
    if len(units) > 1:
        names = {"": "text", "1": "plain numbers"}
        mixed = " and ".join(names.get(unit, unit) for unit in sorted(units))
        raise StudyCodeError(f"the column {heading!r} mixes {mixed}; give all its cells one unit.")
    if not units:  # All cells are missing.
        return Column(heading, unit="1", digits=digits)
    unit, parts = units.pop(), _HEADING_WITH_UNIT.fullmatch(heading)
    if not unit or not parts:
        return Column(heading, unit, digits=digits)
    name, shown = parts.groups()
    try:
        scale_to(shown, unit)
    except ValueError as error:
        raise StudyCodeError(f"the heading {heading!r}: {error}") from error
    return Column(name, unit, shown, digits)


def _unit(content: Content) -> str:
    """Return the unit of a cell: "1" for a plain number, empty for text."""
    if isinstance(content, Quantity):
        return str(content.unit)
    return "1" if isinstance(content, int | float) else ""


def to_markdown(table: Table, caption: str) -> str:
    """Write the table as a Quarto cross-reference div; ``caption`` is markdown."""
    rows = [
        [markdown(column.heading) for column in table.columns],
        ["---:" if column.is_numeric else ":---" for column in table.columns],
    ]
    for row in table.texts():
        rows.append([markdown(text) + (f"^{letter}^" if letter else "") for text, letter in row])
    notes = [(f"^{mark}^ " if mark else "") + markdown(text) for mark, text in table.note_texts()]
    lines = [f"::: {{#{table.id}{' .wide' if table.wide else ''}}}"]
    lines += [f"| {' | '.join(cells)} |" for cells in rows]
    lines += [""]
    if notes:
        lines += ["::: {.table-notes}", " ".join(notes), ":::", ""]
    return "\n".join([*lines, caption, ":::"])


def to_csv(table: Table) -> str:
    """Write the raw numbers of a table as CSV, for readers who compute with the numbers."""
    data = table.as_json()
    headings = [f"{c['name']} [{c['unit']}]" if c["unit"] else c["name"] for c in data["columns"]]
    return escape_invisible(csv_of([headings, *data["rows"]]))
