"""A study as its author declares it: values, tables, claims and figures of the paper's data.

Every function takes the paper's data, which one function makes from the records::

    study = Study(Survey)
    study.values({"best_share": lambda p: p.rate / p.ceiling}, "percent")


    @study.table("tbl-rates", rows=lambda p: p.widths)
    def rates(p, width):
        return {"Width": width, "Time (µs)": p.time(width)}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from figures.panels import Drawing
from report.errors import StudyError
from report.evidence.audit import Check
from report.evidence.runs import Run
from report.missing import Missing
from report.paper.claims import judge
from report.paper.findings import Figure, Findings, Inputs
from report.paper.machines import Comparison, with_all_machines
from report.paper.tables import Content, Table, table_of
from report.paper.values import declare
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import Range, Several, Statement, all_of
from report.records.store import Stored
from report.text.format import Style
from report.theory.reconciliation import Reconciliation

__all__ = ["Content", "Study", "audit_row"]

Data = TypeVar("Data")
Made = TypeVar("Made", bound=Callable[..., Any])
Result = TypeVar("Result")

#: What a claim's function gives: a comparison, or several that have to hold together.
Claimed: TypeAlias = Statement | Several | Iterable[Statement | Several]

#: What is printed of a machine that is not there, and what claims are without any data.
_NO_RUN: Final[Quantity] = absent(
    "no run", "1", "no run of the experiment is in the data directory"
)
_NOTHING: Final = Statement(absent("comparison", "1", "nothing to compare was recorded"), Range())


class Study(Generic[Data]):
    """What a paper prints, declared by functions of the paper's data."""

    def __init__(
        self,
        data: Callable[[Inputs], Data],
        check: Callable[[Stored], None] = lambda stored: None,
        compared: Comparison[Any] | None = None,
        *,
        reconciliations: Callable[[Data], Iterable[Reconciliation]] = lambda p: (),
        audits: Callable[[Data], Iterable[Check]] = lambda p: (),
    ) -> None:
        """``data`` makes the paper's data; ``check`` raises ``StudyError`` for a record of others.

        ``compared`` is what the paper compares of all machines, of which it describes a few;
        without it these are their ceilings.  ``reconciliations`` are all of the paper, and
        ``audits`` the checks of what its source printed.
        """
        self._data, self._check, self._compared = data, check, compared or Comparison(Run)
        self._reconciliations, self._audits = reconciliations, audits
        self._values: dict[str, tuple[Callable[[Data], Quantity], Style | None]] = {}
        self._claims: dict[str, Callable[[Data], Claimed]] = {}
        self._texts: dict[str, Callable[[Data], Any]] = {}
        self._tables: list[Callable[[Data], Table | None]] = []
        self._figures: list[Callable[[Data], Figure]] = []

    def values(
        self,
        functions: Mapping[str, Callable[[Any], Quantity]],
        style: Style | None = None,
        of: Callable[[Data], Any] = lambda p: p,
    ) -> None:
        """Numbers of the text by their names; missing where there is nothing they are ``of``."""
        for id, function in functions.items():
            _declare(self._values, id, (_where_known(function, of, _NO_RUN), style))

    def texts(self, functions: Mapping[str, Callable[[Data], Any]]) -> None:
        """Words of the template that are no numbers, such as the names of machines."""
        self._texts.update(functions)

    def table(
        self,
        id: str,
        rows: Callable[[Any], Iterable[Any]],
        of: Callable[[Data], Any] = lambda p: p,
        *,
        wide: bool = False,
        digits: Mapping[str, int] = MappingProxyType({}),
    ) -> Callable[[Made], Made]:
        """A table with a row for each of ``rows``, if there is what it is ``of``.

        The function returns the cells of a row by their headings.  A heading may end with the unit
        in which its numbers are printed: ``Time (µs)``.  ``digits`` are the significant ones of
        columns whose numbers have no interval to round them by.
        """

        def declared(function: Made) -> Made:
            nothing: Sequence[Mapping[str, Content]] = ()
            cells = _where_known(lambda part: [function(part, r) for r in rows(part)], of, nothing)
            self.add_table(lambda p: table_of(id, cells(p), wide=wide, digits=digits))
            return function

        return declared

    def add_table(self, make: Callable[[Data], Table | None]) -> None:
        """A table that is made elsewhere, such as that of the machines, if it is there."""
        self._tables.append(make)

    def claims(
        self,
        functions: Mapping[str, Callable[[Any], Claimed]],
        of: Callable[[Data], Any] = lambda p: p,
    ) -> None:
        """What has to hold, by names: a comparison such as ``p.gain > 1``, or several, all of them.

        Nothing holds where there is nothing that it is ``of``, or nothing to compare.
        """
        for id, function in functions.items():
            _declare(self._claims, id, _where_known(function, of, Statement(_NO_RUN, Range())))

    def figure(
        self, id: str, of: Callable[[Data], Any] = lambda p: p, **size: Any
    ) -> Callable[[Made], Made]:
        """A figure, if there is what it is ``of``; the function yields its panels.

        ``size`` are fields of ``Drawing``.
        """

        def declared(function: Made) -> Made:
            place = f"{function.__module__}.{function.__name__}"
            panels = _where_known(lambda part: tuple(function(part)), of, ())
            self._figures.append(lambda p: Figure(id, Drawing(panels(p), place=place, **size)))
            return function

        return declared

    def findings(self, everything: Inputs) -> Findings:
        """All that the paper prints; raises ``StudyError`` for records that do not fit it.

        It describes the machines that play a role.  A table names the files of its quantities,
        else all that the study read of these.
        """
        for run in (run for stored in everything.records for run in stored.runs):
            self._check(run)
        inputs = everything.in_roles()
        found = self._of(inputs)
        if len(inputs.records) == len(everything.records):
            return found
        return with_all_machines(found, everything, inputs, self._compared)

    def _of(self, inputs: Inputs) -> Findings:
        p, files = self._data(inputs), inputs.files
        values = {id: declare(id, found(p), style) for id, (found, style) in self._values.items()}
        tables = [table for make in self._tables if (table := make(p)) and table.rows]
        figures = [make(p) for make in self._figures]
        return Findings(
            {id: replace(v, sources=inputs.shards(v.sources)) for id, v in values.items()},
            {t.id: replace(t, sources=inputs.shards(t.sources) or files) for t in tables},
            {f.id: f for f in figures if f.drawing.panels},
            {id: judge(id, _joined(found(p))) for id, found in self._claims.items()},
            reconciliations={r.id: r for r in self._reconciliations(p)},
            audits=tuple(self._audits(p)),
            facts={"measured": bool(files)} | {id: make(p) for id, make in self._texts.items()},
        )


def _where_known(
    function: Callable[[Any], Result], of: Callable[[Data], Any], otherwise: Result
) -> Callable[[Data], Result]:
    """What ``function`` gives of a part of the paper's data, ``otherwise`` without that part."""
    return lambda p: otherwise if (part := of(p)) is None else function(part)


def _declare(declared: dict[str, Result], id: str, make: Result) -> None:
    """Raises ``StudyError`` for a name that stands twice."""
    if id in declared:
        raise StudyError(f"The study declares {id} twice; rename one of both.")
    declared[id] = make


def _joined(found: Claimed) -> Statement | Several:
    """One statement: all of several."""
    if isinstance(found, Statement | Several):
        return found
    statements = tuple(found)
    return all_of(*statements) if statements else _NOTHING


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
