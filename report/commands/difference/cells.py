"""Which cells of a table differ between two states of it.

Rows are matched by the names and settings at their beginning and columns by their names, so that a
row that was put in between changes nothing but itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from report.commands.difference.prints import Step, cell_text, step
from report.paper.tables import Cell, Column, Table
from report.statistics.estimates import Estimate

#: The name of a column or the words that name a row, and how many of the same came before it.
Key: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class CellChange:
    """A cell of a row and a column that both sides have."""

    row: str
    column: str
    old: str
    new: str
    step: Step


@dataclass(frozen=True)
class TableChange:
    """What differs in one table; a side without the table has no caption.

    ``unseen`` counts numbers that differ beyond the digits printed.
    """

    id: str
    old: str | None
    new: str | None
    cells: tuple[CellChange, ...] = ()
    rows_added: tuple[str, ...] = ()
    rows_removed: tuple[str, ...] = ()
    columns_added: tuple[str, ...] = ()
    columns_removed: tuple[str, ...] = ()
    notes_added: tuple[str, ...] = ()
    notes_removed: tuple[str, ...] = ()
    unseen: int = 0

    @property
    def visible(self) -> bool:
        """Whether a reader of the paper would see any of it."""
        return self.old != self.new or any(
            (
                self.cells,
                self.rows_added,
                self.rows_removed,
                self.columns_added,
                self.columns_removed,
                self.notes_added,
                self.notes_removed,
            )
        )


def table_changes(old: Mapping[str, Table], new: Mapping[str, Table]) -> tuple[TableChange, ...]:
    """The tables that differ, in today's order, then those that are gone."""
    found = (_table_change(old.get(id), new.get(id), id) for id in {**new, **old})
    return tuple(change for change in found if change.visible or change.unseen)


def _table_change(old: Table | None, new: Table | None, id: str) -> TableChange:
    if old is None or new is None:
        return TableChange(id, old.caption if old else None, new.caption if new else None)
    width = _key_width(old, new)
    old_rows, new_rows = _rows(old, width), _rows(new, width)
    old_columns, new_columns = _columns(old), _columns(new)
    pairs = [
        _Pair(_words(row), old_columns[name], new_columns[name], old_rows[row], new_rows[row])
        for row in new_rows
        if row in old_rows
        for name in new_columns
        if name in old_columns
    ]
    differing = [pair for pair in pairs if pair.cells[0] != pair.cells[1]]
    changes = [pair.change(old, new) for pair in differing]
    return TableChange(
        id,
        old.caption,
        new.caption,
        cells=tuple(change for change in changes if change.old != change.new),
        rows_added=_only(new_rows, old_rows),
        rows_removed=_only(old_rows, new_rows),
        columns_added=_only(new_columns, old_columns),
        columns_removed=_only(old_columns, new_columns),
        notes_added=tuple(note for note in new.notes if note not in old.notes),
        notes_removed=tuple(note for note in old.notes if note not in new.notes),
        unseen=sum(change.old == change.new for change in changes),
    )


@dataclass(frozen=True)
class _Pair:
    """A row and a column of both tables: places of the column, and the cells of the row."""

    row: str
    old_column: int
    new_column: int
    old_row: Sequence[Cell]
    new_row: Sequence[Cell]

    @property
    def cells(self) -> tuple[Cell, Cell]:
        return self.old_row[self.old_column], self.new_row[self.new_column]

    def change(self, old: Table, new: Table) -> CellChange:
        one, other = old.columns[self.old_column], new.columns[self.new_column]
        before, after = self.cells
        return CellChange(
            self.row,
            other.heading,
            cell_text(old, before, one),
            cell_text(new, after, other),
            step(before, after, comparable=one.unit == other.unit),
        )


def _rows(table: Table, width: int) -> dict[Key, tuple[Cell, ...]]:
    """The rows by what their first ``width`` cells say."""
    names = _numbered(_row_name(table, row, width) for row in table.rows)
    return dict(zip(names, table.rows, strict=True))


def _row_name(table: Table, row: Sequence[Cell], width: int) -> str:
    """The first cells in words; a count has the name of its column before it."""
    pairs = list(zip(table.columns, row, strict=True))[:width]
    words = (
        f"{column.name} {cell_text(table, cell, column)}"
        if column.numeric
        else cell_text(table, cell, column)
        for column, cell in pairs
    )
    return ", ".join(words) or "row"


def _columns(table: Table) -> dict[Key, int]:
    """The places of the columns by their names."""
    names = _numbered(column.name for column in table.columns)
    return {name: place for place, name in enumerate(names)}


def _numbered(names: Iterable[str]) -> list[Key]:
    seen: Counter[str] = Counter()
    found: list[Key] = []
    for name in names:
        found.append((name, seen[name]))
        seen[name] += 1
    return found


def _key_width(old: Table, new: Table) -> int:
    """How many cells at the beginning of a row it takes to tell the rows of both tables apart."""
    most = _naming(old, new)
    for width in range(1, most):
        if all(_distinct(table, width) for table in (old, new)):
            return width
    return most


def _naming(old: Table, new: Table) -> int:
    """How many columns at the beginning hold texts and counts, as names and settings do."""
    count = 0
    for place, (one, other) in enumerate(zip(old.columns, new.columns, strict=False)):
        if one.name != other.name or not (_names(old, one, place) and _names(new, other, place)):
            break
        count += 1
    return count


def _names(table: Table, column: Column, place: int) -> bool:
    measured = any(isinstance(row[place], Estimate | float) for row in table.rows)
    return column.unit in ("", "1") and not measured


def _distinct(table: Table, width: int) -> bool:
    return all(count == 0 for _, count in _rows(table, width))


def _only(one: Iterable[Key], other: Iterable[Key]) -> tuple[str, ...]:
    there = set(other)
    return tuple(_words(key) for key in one if key not in there)


def _words(key: Key) -> str:
    name, before = key
    return f"{name} (no. {before + 1})" if before else name
