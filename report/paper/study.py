"""A study as its author declares it: values, tables, claims and figures of the paper's data.

Every function takes the paper's data, which one function makes from the records::

    study = Study(Survey)


    @study.value("percent")
    def best_share(p):
        return p.rate / p.ceiling


    @study.table("tbl-rates", rows=lambda p: p.widths)
    def rates(p, width):
        return {"Width": width, "Time (µs)": p.time(width)}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from figures.canvas import Drawing, Panel
from report.errors import StudyError
from report.evidence.audit import Check
from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Figure, Findings, Inputs
from report.paper.tables import Cell, Column, Table
from report.paper.values import declare
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import Several, Statement
from report.text.format import Style, scale_to
from report.theory.reconciliation import Reconciliation

#: What a cell of a table may hold: a quantity, or what needs no computing.
Content: TypeAlias = Quantity | Cell

Data = TypeVar("Data")
Made = TypeVar("Made", bound=Callable[..., Any])
Result = TypeVar("Result")

_NOTHING: Final = "no run of the experiment is in the data directory"
#: What is printed of a machine that is not there.
_NO_RUN: Final = absent("no run", "1", _NOTHING)
#: A heading that ends with the unit in which its numbers are printed.
_SHOWN: Final = re.compile(r"(.+) \((\S+)\)")


class Study(Generic[Data]):
    """What a paper prints, declared by functions of the paper's data."""

    def __init__(self, data: Callable[[Inputs], Data]) -> None:
        """``data`` makes the paper's data; raises ``StudyError`` for records that do not fit."""
        self._data = data
        self._values: dict[str, tuple[Callable[[Data], Quantity], Style | None]] = {}
        self._tables: list[Callable[[Data], Table | None]] = []
        self._claims: dict[str, Callable[[Data], Statement | Several]] = {}
        self._figures: list[Callable[[Data], Figure]] = []
        self._texts: dict[str, Callable[[Data], Any]] = {}
        self._reconciliations: Callable[[Data], Iterable[Reconciliation]] = lambda p: ()
        self._audits: Callable[[Data], Iterable[Check]] = lambda p: ()

    def value(self, style: Style | None = None) -> Callable[[Made], Made]:
        """A number of the text, under the name of the function, which returns a quantity."""

        def declared(function: Made) -> Made:
            self.values({function.__name__: function}, style)
            return function

        return declared

    def values(
        self,
        functions: Mapping[str, Callable[[Any], Quantity]],
        style: Style | None = None,
        of: Callable[[Data], Any] = lambda p: p,
    ) -> None:
        """Numbers of the text by their names; missing where there is nothing they are ``of``."""
        for id, function in functions.items():
            _refuse_second(id, self._values)
            self._values[id] = partial(_of, of, function), style

    def texts(self, functions: Mapping[str, Callable[[Data], Any]]) -> None:
        """Words of the template that are no numbers, such as the names of machines."""
        self._texts.update(functions)

    def reconciliations(self, function: Made) -> Made:
        """Declares the function that gives all reconciliations of the paper."""
        self._reconciliations = function
        return function

    def audits(self, function: Made) -> Made:
        """Declares the function that gives all checks of what the source printed."""
        self._audits = function
        return function

    def table(
        self,
        id: str,
        rows: Callable[[Data], Iterable[Any]],
        *,
        wide: bool = False,
        digits: Mapping[str, int] = MappingProxyType({}),
    ) -> Callable[[Made], Made]:
        """A table with a row for each of ``rows``; the function returns its cells by heading.

        A heading may end with the unit in which its numbers are printed: ``Time (µs)``.  ``digits``
        are the significant ones of columns whose numbers have no interval to round them by.
        """

        def declared(function: Made) -> Made:
            self._tables.append(
                lambda p: table_of(
                    id, [function(p, row) for row in rows(p)], wide=wide, digits=digits
                )
            )
            return function

        return declared

    def add_table(self, make: Callable[[Data], Table | None]) -> None:
        """A table that is made elsewhere, such as that of the machines, if it is there."""
        self._tables.append(make)

    def claim(self, id: str, of: Callable[[Data], Any] = lambda p: p) -> Callable[[Made], Made]:
        """A claim of the paper; the function returns what has to hold, such as ``p.gain > 1``.

        Nothing holds where there is nothing that it is ``of``.
        """

        def declared(function: Callable[[Any], Statement | Several]) -> Any:
            _refuse_second(id, self._claims)
            self._claims[id] = lambda p: _of(of, function, p, _NO_RUN > 0)
            return function

        return declared

    def figure(self, id: str, **size: Any) -> Callable[[Made], Made]:
        """A figure; the function yields its panels. ``size`` are fields of ``Drawing``."""

        def declared(function: Made) -> Made:
            self._figures.append(lambda p: _figure(id, function, p, size))
            return function

        return declared

    def findings(self, inputs: Inputs) -> Findings:
        """All that the paper prints; raises ``StudyError`` for records that do not fit it."""
        p, files = self._data(inputs), inputs.files
        tables = [make(p) for make in self._tables]
        figures = [make(p) for make in self._figures]
        return Findings(
            values={id: declare(id, make(p), style) for id, (make, style) in self._values.items()},
            tables={t.id: replace(t, sources=t.sources or files) for t in tables if t and t.rows},
            figures={f.id: replace(f, sources=files) for f in figures if f.drawing.panels},
            claims={id: judge(id, make(p)) for id, make in self._claims.items()},
            reconciliations={r.id: r for r in self._reconciliations(p)},
            audits=tuple(self._audits(p)),
            facts={
                "measured": bool(files),
                **{id: make(p) for id, make in self._texts.items()},
            },
        )


def _of(
    of: Callable[[Data], Any],
    function: Callable[[Any], Result],
    p: Data,
    otherwise: Any = _NO_RUN,
) -> Result:
    """What ``function`` makes of a part of the paper's data; ``otherwise`` without that part."""
    part = of(p)
    return otherwise if part is None else function(part)


def _refuse_second(id: str, declared: Mapping[str, object]) -> None:
    """Raises ``StudyError`` for a name that stands twice."""
    if id in declared:
        raise StudyError(f"The study declares {id} twice; rename one of both.")


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
            raise StudyError(f"{id}: a row has the headings {list(row)}, the first one {heads}.")
    contents = tuple(
        tuple(number(each) if isinstance(each, Quantity) else each for each in row.values())
        for row in rows
    )
    used = (each for row in rows for each in row.values() if isinstance(each, Quantity))
    return Table(
        id,
        "",
        tuple(_column(head, [row[head] for row in rows], digits.get(head)) for head in heads),
        contents,
        sources=tuple(dict.fromkeys(file for quantity in used for file in quantity.sources)),
        wide=wide,
    )


def audit_row(p: Any, item: Check) -> dict[str, Content]:
    """The row of a check in a table: as printed, what its formula gives, and the verdict.

    ``p`` are the data of a paper that has its ``inputs``.
    """
    derived = item.derived
    return {
        "Printed where": derived.place,
        "Formula": item.formula,
        "Printed": derived.text,
        "Recomputed": exact("recomputed", "1", item.recomputed, p.inputs.reported_file),
        "Printed ÷ recomputed": Missing("nothing to divide by")
        if item.factor is None
        else item.factor,
        "Unit": "" if derived.unit == "1" else derived.unit,
        "Finding": item.finding,
    }


def _column(head: str, contents: Sequence[Content], digits: int | None) -> Column:
    """Raises ``StudyError`` for quantities of two units in one column."""
    units = {_unit(each) for each in contents if not isinstance(each, Missing)}
    if len(units) > 1:
        raise StudyError(f"The column {head} holds {' and '.join(sorted(units))}.")
    unit, shown = "".join(units), _SHOWN.fullmatch(head)
    if unit and shown:
        scale_to(shown[2], unit)
        return Column(shown[1], unit, shown[2], digits)
    return Column(head, unit if units else "1", None, digits)


def _unit(content: Content) -> str:
    """The unit of a cell; none of text."""
    if isinstance(content, Quantity):
        return str(content.unit)
    return "1" if isinstance(content, int | float) else ""


def _figure(
    id: str, function: Callable[[Data], Iterable[Panel]], p: Data, size: Mapping[str, Any]
) -> Figure:
    place = f"{function.__module__}.{function.__name__}"
    return Figure(id, "", "", Drawing(tuple(function(p)), place=place, **size))
