"""A study as its author declares it: functions of parts of the data, named as templates name them.

A part is a kind of subject: the run of one CPU or GPU, the source, measurements of others, or a
pair of runs.  Everything declared on a part is computed from that subject alone, so that the paper
shows it of the run that its edition chose, and a report shows it of any other run::

    study = Study(Paper, check_subject)
    cpu: Part[Run] = study.part("cpu")


    @cpu.value("percent")
    def best_share(run):
        return run.best() / run.peak_rate("matrix_product")


    @cpu.claim("A wide layer runs at a higher rate than a narrow one")
    def wider_is_faster(run): ...

The name of a function is the identifier in templates: ``v.best_share``, ``wider-is-faster``,
``tbl-rates``, ``fig-rates``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from figures.panels import Drawing, Panel
from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.store import Stored
from report.core.text.format import Style
from report.evidence.audit import Check
from report.evidence.runs import Run
from report.paper.claims import judge
from report.paper.findings import Claim, Figure, Findings, Inputs
from report.paper.machines import MachineComparison, with_all_machines
from report.paper.tables import Content, Table, table_of
from report.paper.values import Value, declare
from report.quantity.expression import Quantity, absent, exact
from report.quantity.verdicts import Range, Several, Statement, all_of
from report.theory.reconciliation import Reconciliation

__all__ = ["Content", "Part", "Study", "audit_row"]

Data = TypeVar("Data")
Subject = TypeVar("Subject")
Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

#: What a claim's function returns: a comparison, or several that have to hold together.
Claimed: TypeAlias = Statement | Several | Iterable[Statement | Several]
#: How a claim is judged: as papers print it, or in the detail that reports print.
Judge: TypeAlias = Callable[[str, Statement | Several], Claim]
#: The cells of a table's rows by heading.  A heading may end with the unit in which its numbers are
#: printed: ``Time (µs)``.
Rows: TypeAlias = Iterable[Mapping[str, Content]]

#: The kind of a part → what its claims are about.
_ABOUT: Final[Mapping[str, str]] = {
    "cpu": "a CPU",
    "gpu": "a GPU",
    "source": "the source",
    "others": "measurements of others",
    "pair": "a pair of runs",
    "": "all data of the paper",
}

_NO_RUN: Final[Quantity] = absent(
    "no run", "1", "no run of the experiment is in the data directory"
)
_NOTHING: Final = Statement(absent("comparison", "1", "nothing to compare was recorded"), Range())


@dataclass(frozen=True)
class _Declared(Generic[Result]):
    """A function of one part's subject, with the name by which templates print its result."""

    part: Part[Any]
    id: str
    function: Callable[[Any], Result]
    style: Style | None = None
    title: str = ""

    def of(self, data: Any, otherwise: Result) -> Result:
        """The result for the part's subject in ``data``, ``otherwise`` where they have none."""
        subject = getattr(data, self.part.name) if self.part.name else data
        return otherwise if subject is None else self.function(subject)


@dataclass
class _Declarations:
    """All that a study declares, in the order of its module."""

    values: dict[str, _Declared[Quantity]] = field(default_factory=dict)
    texts: dict[str, _Declared[Any]] = field(default_factory=dict)
    claims: dict[str, _Declared[Claimed]] = field(default_factory=dict)
    tables: dict[str, _Declared[Table | None]] = field(default_factory=dict)
    figures: dict[str, _Declared[Figure | None]] = field(default_factory=dict)
    key_figure: str = ""


class Part(Generic[Subject]):
    """One part of a study's data, and the decorators that declare functions of it."""

    def __init__(self, name: str, kind: str, declarations: _Declarations) -> None:
        """``name`` is the attribute of the paper's data that holds the subject, or None there.

        ``kind`` says of which records the part can be computed, and what its claims are about.
        """
        self.name, self.kind, self._declarations = name, kind, declarations

    def value(self, style: Style | None = None) -> Callable[[Function], Function]:
        """Declare a number of the text."""

        def declared(function: Function) -> Function:
            self.values(style, **{_id(function, "_"): function})
            return function

        return declared

    def values(
        self, style: Style | None = None, /, **functions: Callable[[Subject], Quantity]
    ) -> None:
        """Declare numbers that functions with names of their own compute, such as methods."""
        for id, function in functions.items():
            _add(self._declarations.values, _Declared(self, id, function, style))

    def text(self) -> Callable[[Function], Function]:
        """Declare words that are no number, such as the name of a machine; empty without one."""

        def declared(function: Function) -> Function:
            self.texts(**{_id(function, "_"): function})
            return function

        return declared

    def texts(self, **functions: Callable[[Subject], Any]) -> None:
        """Declare words that functions with names of their own return."""
        for id, function in functions.items():
            _add(self._declarations.texts, _Declared(self, id, function))

    def claim(self, title: str) -> Callable[[Function], Function]:
        """Declare what has to hold: a comparison such as ``run.gain() > 1``, or several.

        ``title`` is one sentence that can be read alone.  Nothing holds without a subject.
        """

        def declared(function: Function) -> Function:
            id = _id(function)
            claim = _Declared[Claimed](self, id, function, title=title)
            _add(self._declarations.claims, claim)
            return function

        return declared

    def table(
        self,
        name: str = "",
        *,
        wide: bool = False,
        digits: Mapping[str, int] = MappingProxyType({}),
    ) -> Callable[[Callable[[Subject], Rows]], Callable[[Subject], Rows]]:
        """Declare a table, whose function yields the cells of each row by their headings.

        ``name`` stands for the function's where a value has that; ``digits`` are the significant
        ones of columns whose numbers have no interval.
        """

        def declared(function: Callable[[Subject], Rows]) -> Callable[[Subject], Rows]:
            id = f"tbl-{name or _id(function)}"

            def table(subject: Subject) -> Table:
                return table_of(id, tuple(function(subject)), wide=wide, digits=digits)

            _add(self._declarations.tables, _Declared[Table | None](self, id, table))
            return function

        return declared

    def shared_table(self) -> Callable[[Function], Function]:
        """Declare a table that shared code makes with its own identifier, or None."""

        def declared(function: Function) -> Function:
            place = f"{function.__module__}.{function.__name__}"
            _add(self._declarations.tables, _Declared[Table | None](self, place, function))
            return function

        return declared

    def figure(
        self, name: str = "", *, key: bool = False, **size: Any
    ) -> Callable[[Callable[[Subject], Iterable[Panel]]], Callable[[Subject], Iterable[Panel]]]:
        """Declare a figure, whose function yields its panels; ``size`` are fields of ``Drawing``.

        ``name`` stands for the function's where that is taken.
        The ``key`` figure stands for the paper where papers are listed.
        """

        def declared(
            function: Callable[[Subject], Iterable[Panel]],
        ) -> Callable[[Subject], Iterable[Panel]]:
            id = f"fig-{name or _id(function)}"
            place = f"{function.__module__}.{function.__name__}"

            def figure(subject: Subject) -> Figure:
                return Figure(id, Drawing(tuple(function(subject)), place=place, **size))

            _add(self._declarations.figures, _Declared[Figure | None](self, id, figure))
            if key:
                self._declarations.key_figure = id
            return function

        return declared


class Study(Part[Data]):
    """What a paper prints, declared on its parts, or on all data of the paper together."""

    def __init__(
        self,
        data: Callable[[Inputs], Data],
        check: Callable[[Stored], None] = lambda stored: None,
        compared: MachineComparison[Any] | None = None,
        *,
        reconciliations: Callable[[Data], Iterable[Reconciliation]] = lambda p: (),
        audits: Callable[[Data], Iterable[Check]] = lambda p: (),
    ) -> None:
        """``data`` makes the paper's data; ``check`` raises ``StudyError`` for a record of others.

        ``compared`` is what the paper compares of all machines, of which it describes a few;
        without it these are their ceilings.  ``reconciliations`` are all of the paper, and
        ``audits`` the checks of what its source printed.
        """
        super().__init__("", "", _Declarations())
        self._data, self._check, self.compared = data, check, compared or MachineComparison(Run)
        self._reconciliations, self._audits = reconciliations, audits

    def part(self, name: str, kind: str = "") -> Part[Any]:
        """A part of the data: the attribute ``name`` of what ``data`` makes.

        ``kind`` is the name unless it is said: ``cpu``, ``gpu``, ``source``, ``others`` or
        ``pair``.  A report of one record evaluates the parts whose kind is that of its device.
        """
        return Part(name, kind or name, self._declarations)

    def show(self, name: str, *ids: str) -> None:
        """Print values of a part for another run too: the attribute ``name``, as ``name_id``."""
        other = Part[Any](name, "pair", self._declarations)
        for id in ids:
            value = self._declarations.values[id]
            _add(self._declarations.values, replace(value, part=other, id=f"{name}_{id}"))

    def constants(self, style: Style | None = None, /, **quantities: Quantity) -> None:
        """Declare numbers that follow from theory alone."""
        for id, quantity in quantities.items():
            _add(self._declarations.values, _Declared(self, id, _constant(quantity), style))

    def findings(self, everything: Inputs, judged: Judge = judge) -> Findings:
        """All that the paper prints; raises ``StudyError`` for records that do not fit it.

        It describes the machines that play a role.  A table names the files of its quantities,
        else all that the study read of these.
        """
        for run in (run for stored in everything.records for run in stored.runs):
            self._check(run)
        inputs = everything.in_roles()
        findings = self._evaluate(inputs, judged=judged)
        if len(inputs.records) == len(everything.records):
            return findings
        return with_all_machines(findings, everything, inputs, self.compared)

    def evaluate(self, everything: Inputs, stored: Stored, judged: Judge = judge) -> Findings:
        """Findings of the declarations on a CPU or GPU, from the one record ``stored`` alone.

        Raises ``StudyError`` for a record that does not fit the study.
        """
        for run in stored.runs:
            self._check(run)
        kind = "gpu" if stored.record.environment.gpu else "cpu"
        return self._evaluate(replace(everything, records=(stored,), roles={}), kind, judged)

    def _evaluate(self, inputs: Inputs, kind: str = "", judged: Judge = judge) -> Findings:
        """Findings of all declarations, or of those on parts of one kind."""
        data, files, declared = self._data(inputs), inputs.files, self._declarations
        values = _results(declared.values, data, _NO_RUN, kind)
        tables = _results(declared.tables, data, None, kind)
        figures = _results(declared.figures, data, None, kind)
        claims = _results(declared.claims, data, Statement(_NO_RUN, Range()), kind)
        return Findings(
            values={
                id: _value(declared.values[id], quantity, inputs) for id, quantity in values.items()
            },
            tables={
                table.id: replace(table, sources=inputs.shards(table.sources) or files)
                for table in tables.values()
                if table and table.rows
            },
            figures={id: f for id, f in figures.items() if f and f.drawing.panels},
            claims={
                id: replace(
                    judged(id, _joined(claimed)),
                    title=declared.claims[id].title,
                    about=_ABOUT[declared.claims[id].part.kind],
                )
                for id, claimed in claims.items()
            },
            reconciliations={} if kind else {r.id: r for r in self._reconciliations(data)},
            audits=() if kind else tuple(self._audits(data)),
            facts={"measured": bool(files)} | _results(declared.texts, data, "", kind),
            key_figure=declared.key_figure,
        )


def _results(
    declared: Mapping[str, _Declared[Result]], data: Any, otherwise: Result, kind: str
) -> dict[str, Result]:
    """The result of each declaration by its id; of parts of one ``kind`` if that is said."""
    chosen = {id: item for id, item in declared.items() if kind in ("", item.part.kind)}
    return {id: item.of(data, otherwise) for id, item in chosen.items()}


def _value(declared: _Declared[Quantity], quantity: Quantity, inputs: Inputs) -> Value:
    value = declare(declared.id, quantity, declared.style)
    return replace(value, sources=inputs.shards(value.sources))


def _constant(quantity: Quantity) -> Callable[[Any], Quantity]:
    return lambda data: quantity


def _id(function: Callable[..., Any], separator: str = "-") -> str:
    """The name of a function as an identifier; underscores at its ends keep Python's own words."""
    return function.__name__.strip("_").replace("_", separator)


def _add(declared: dict[str, _Declared[Result]], item: _Declared[Result]) -> None:
    """Raises ``StudyError`` for an identifier that is declared twice."""
    if item.id in declared:
        raise StudyError(f"The study declares {item.id} twice; rename one of both.")
    declared[item.id] = item


def _joined(claimed: Claimed) -> Statement | Several:
    """One statement: all of several."""
    if isinstance(claimed, Statement | Several):
        return claimed
    statements = tuple(claimed)
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
