"""Values and tables as a study declares them: names beside getters, everything else derived.

A getter returns a quantity; its number, its interval, its formula and its sources follow from it,
so that heading and cell, name and computation cannot drift apart.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from report.missing import Missing
from report.paper.tables import Cell, Column, Table
from report.paper.values import Value, declare
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, declared
from report.text.format import Style

Row = TypeVar("Row")
Subject = TypeVar("Subject")

#: What a getter may return: a quantity, or a cell that needs no computing.
Content: TypeAlias = Quantity | Cell


def values_of(
    subject: Subject | None,
    getters: Mapping[str, Callable[[Subject], Quantity]],
    otherwise: Missing,
    percent: Container[str] = (),
    rounded: Container[str] = (),
) -> tuple[Value, ...]:
    """The value of every getter; missing for the reason ``otherwise`` where there is no subject.

    Name, unit, formula and sources are those of the quantities; ``percent`` are printed as shares,
    ``rounded`` as what is measured although they are exact.
    """

    def found(id: str) -> Quantity:
        return absent(id, "1", otherwise.reason) if subject is None else getters[id](subject)

    def style(id: str) -> Style | None:
        return "percent" if id in percent else "measured" if id in rounded else None

    return tuple(declare(id, found(id), style(id)) for id in getters)


def cells(*contents: Content) -> tuple[Cell, ...]:
    """The cells of a row, with the numbers of quantities."""
    return tuple(number(each) if isinstance(each, Quantity) else each for each in contents)


@dataclass(frozen=True)
class Field(Generic[Row]):
    """A column with the getter of its cells; all else is as that of ``Column``."""

    name: str
    unit: str
    get: Callable[[Row], Content]
    shown: str | None = None
    digits: int | None = None


@dataclass(frozen=True)
class Difference:
    """A column that is the column ``above`` less the column ``below``, both of quantities."""

    above: str
    below: str


def table(
    id: str,
    rows: Iterable[Row],
    fields: Sequence[Field[Row] | Difference],
    *,
    notes: tuple[str, ...] = (),
    sources: tuple[str, ...] = (),
    wide: bool = False,
) -> Table:
    """The table of ``rows``, without a caption, which the template gives it.

    Its sources are those of its quantities, after ``sources``.  Raises ``UnitError`` for a quantity
    in another unit than its column, and for a difference of two units.
    """
    getters = {field.name: field for field in fields if isinstance(field, Field)}
    columns = tuple(_column(field, getters) for field in fields)
    cells, used = [], list(sources)
    for row in rows:
        contents = [_content(row, field, getters) for field in fields]
        used += [s for c in contents if isinstance(c, Quantity) for s in c.sources]
        cells.append(tuple(map(_cell, contents, columns)))
    return Table(id, "", columns, tuple(cells), notes, tuple(dict.fromkeys(used)), wide)


def _column(field: Field[Row] | Difference, getters: dict[str, Field[Row]]) -> Column:
    if isinstance(field, Field):
        return Column(field.name, field.unit, field.shown, field.digits)
    above = getters[field.above]
    return Column(f"{field.above} − {field.below.lower()}", above.unit, above.shown)


def _content(row: Row, field: Field[Row] | Difference, getters: dict[str, Field[Row]]) -> Content:
    if isinstance(field, Field):
        return field.get(row)
    above, below = getters[field.above].get(row), getters[field.below].get(row)
    assert isinstance(above, Quantity) and isinstance(below, Quantity), field
    return above - below


def _cell(content: Content, column: Column) -> Cell:
    return number(declared(content, column.unit)) if isinstance(content, Quantity) else content
