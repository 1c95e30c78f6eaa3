"""Study as its author declares it: functions on parts of its data, named as in its template.

A part is a kind of subject: the run of one CPU or GPU, the source, measurements of others, or a
pair of runs.  A declaration on a part is computed from that subject alone, so a paper can show it
for the run that its edition chose, and a report for any other run::

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

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
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
from report.quantity.expression import Quantity, Statement, absent, exact
from report.quantity.ranges import Range
from report.quantity.verdicts import Several, all_of
from report.theory.reconciliation import Reconciliation

__all__ = ["Content", "Part", "Study", "audit_row"]

Data = TypeVar("Data")
Subject = TypeVar("Subject")
Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")

#: Result of a value's function, or of a mapping's: quantities by their ids.
Numbers: TypeAlias = Quantity | Mapping[str, Quantity]
#: Result of a claim's function: a comparison, or several that have to hold together.
Claimed: TypeAlias = Statement | Several | Iterable[Statement | Several]
#: Cells of a table's rows by heading.  A heading may end with the unit in which its numbers are
#: printed: ``Time (µs)``.
Rows: TypeAlias = Iterable[Mapping[str, Content]]

#: Kind of a part → subject of its claims.
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
    """A function of one part's subject, with the id by which templates print its result."""

    part: Part[Any]
    id: str
    function: Callable[[Any], Result]
    style: Style | None = None
    title: str = ""
    #: Ids of the values that a claim decides.
    numbers: tuple[str, ...] = ()
    #: The function returns a mapping of numbers by their ids.
    mapping: bool = False

    def of(self, data: Any, otherwise: Result) -> Result:
        """Compute the result for the part's subject in ``data``; ``otherwise`` if it has none."""
        subject = getattr(data, self.part.name) if self.part.name else data
        return otherwise if subject is None else self.function(subject)


@dataclass
class _Declarations:
    """Declarations of a study, in the order of its module."""

    values: dict[str, _Declared[Numbers]] = field(default_factory=dict)
    texts: dict[str, _Declared[Any]] = field(default_factory=dict)
    claims: dict[str, _Declared[Claimed]] = field(default_factory=dict)
    tables: dict[str, _Declared[Table | None]] = field(default_factory=dict)
    figures: dict[str, _Declared[Figure | None]] = field(default_factory=dict)
    key_figure: str = ""


class Part(Generic[Subject]):
    """One part of a study's data, and the decorators that declare functions of it."""

    def __init__(self, name: str, kind: str, declarations: _Declarations) -> None:
        """Set the attribute ``name`` of the paper's data that holds the subject, or None.

        ``kind`` is the kind of records that the part can be computed from (see ``_ABOUT``).
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
            _add(self._declarations.values, _Declared[Numbers](self, id, function, style))

    def mapping(self, style: Style | None = None) -> Callable[[Function], Function]:
        """Declare all numbers of the mapping that a function returns, by their names.

        The part must have a subject in every paper, since the function alone tells the names.
        """

        def declared(function: Function) -> Function:
            place = f"{function.__module__}.{function.__name__}"
            declaration = _Declared[Numbers](self, place, function, style, mapping=True)
            _add(self._declarations.values, declaration)
            return function

        return declared

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

    def claim(self, title: str, numbers: tuple[str, ...] = ()) -> Callable[[Function], Function]:
        """Declare a claim: a comparison such as ``run.gain() > 1``, or several.

        ``title`` is one sentence that can be read alone.  ``numbers`` are the ids of the values
        that the claim decides; an abstract prints those of its headline claims and no others.
        Without a subject no claim holds.
        """

        def declared(function: Function) -> Function:
            id = _id(function)
            claim = _Declared[Claimed](self, id, function, title=title, numbers=numbers)
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

        ``name`` replaces the function's, which a value may have already.  ``digits`` maps headings
        to significant digits, for columns whose numbers have no interval.
        """

        def declared(function: Callable[[Subject], Rows]) -> Callable[[Subject], Rows]:
            id = f"tbl-{name or _id(function)}"

            def table(subject: Subject) -> Table:
                return table_of(id, tuple(function(subject)), wide=wide, digits=digits)

            _add(self._declarations.tables, _Declared[Table | None](self, id, table))
            return function

        return declared

    def shared_table(self) -> Callable[[Function], Function]:
        """Declare a table with an id of its own, made by shared code, or None."""

        def declared(function: Function) -> Function:
            place = f"{function.__module__}.{function.__name__}"
            _add(self._declarations.tables, _Declared[Table | None](self, place, function))
            return function

        return declared

    def figure(
        self, name: str = "", *, key: bool = False, **size: Any
    ) -> Callable[[Callable[[Subject], Iterable[Panel]]], Callable[[Subject], Iterable[Panel]]]:
        """Declare a figure, whose function yields its panels; ``size`` are fields of ``Drawing``.

        ``name`` replaces the function's, which a value may have already.
        Lists of papers show the ``key`` figure.
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


def _accept(stored: Stored) -> None:
    """Accept every record."""


def _nothing(data: Any) -> tuple[()]:
    return ()


class Study(Part[Data]):
    """Declarations of all that a paper prints, on its parts or on all its data together."""

    def __init__(
        self,
        data: Callable[[Inputs], Data],
        check: Callable[[Stored], None] = _accept,
        compared: MachineComparison[Any] | None = None,
        *,
        reconciliations: Callable[[Data], Iterable[Reconciliation]] = _nothing,
        audits: Callable[[Data], Iterable[Check]] = _nothing,
    ) -> None:
        """Set the functions that make the paper's parts.

        ``data`` makes its data.  ``check`` raises ``StudyError`` for a record that does not fit.
        ``compared`` is the measure by which all machines are compared, by default measured peak
        rates.  ``reconciliations`` makes those of the paper, ``audits`` the checks of the numbers
        that its source printed.
        """
        super().__init__("", "", _Declarations())
        self._data, self._check, self.compared = data, check, compared or MachineComparison(Run)
        self._reconciliations, self._audits = reconciliations, audits

    def part(self, name: str, kind: str = "") -> Part[Any]:
        """Make a part of the data, whose subject is the attribute ``name`` of the paper's data.

        ``kind`` is ``cpu``, ``gpu``, ``source``, ``others`` or ``pair``, by default the name.  A
        report on one record evaluates the parts of its device's kind.
        """
        return Part(name, kind or name, self._declarations)

    def show(self, name: str, *ids: str) -> None:
        """Print values of a part also for the run in the attribute ``name``, as ``name_id``."""
        other = Part[Any](name, "pair", self._declarations)
        for id in ids:
            value = self._declarations.values[id]
            _add(self._declarations.values, replace(value, part=other, id=f"{name}_{id}"))

    def constants(self, style: Style | None = None, /, **quantities: Quantity) -> None:
        """Declare numbers that follow from theory alone."""
        for id, quantity in quantities.items():
            function = partial(_constant, quantity)
            _add(self._declarations.values, _Declared[Numbers](self, id, function, style))

    def findings(self, everything: Inputs) -> Findings:
        """Evaluate all declarations on the records that have a role; compare all machines.

        The sources of a table are the files of its quantities, or else all files of these records.
        Raises ``StudyError`` for records that do not fit the study.
        """
        self._check_all(everything.records)
        inputs = everything.in_roles()
        findings = self._evaluate(inputs)
        if len(inputs.records) == len(everything.records):
            return findings
        return with_all_machines(findings, everything, inputs, self.compared)

    def evaluate(
        self, everything: Inputs, stored: Stored, *, claims_only: bool = False
    ) -> Findings:
        """Evaluate the declarations on a CPU or GPU from the one record ``stored`` alone.

        Raises ``StudyError`` for a record that does not fit the study.
        """
        self._check_all((stored,))
        kind = "gpu" if stored.record.environment.gpu else "cpu"
        inputs = replace(everything, records=(stored,), roles={})
        if claims_only:
            return Findings({}, {}, {}, claims=self._claims(self._data(inputs), kind))
        return self._evaluate(inputs, kind)

    def _check_all(self, records: Iterable[Stored]) -> None:
        for stored in records:
            for run in stored.runs:
                self._check(run)

    def _evaluate(self, inputs: Inputs, kind: str = "") -> Findings:
        """Evaluate all declarations, or only those on parts of one ``kind``."""
        data, files, declared = self._data(inputs), inputs.files, self._declarations
        values: dict[str, Value] = {}
        for value in _values(declared.values, data, kind):
            if value.id in values:
                raise _declared_twice(value.id)
            values[value.id] = replace(value, sources=inputs.shards(value.sources))
        tables = {}
        for table in _results(declared.tables, data, None, kind).values():
            if table and table.rows:
                sources = inputs.shards(table.sources) or files
                tables[table.id] = replace(table, sources=sources)
        figures = {}
        for id, figure in _results(declared.figures, data, None, kind).items():
            if figure and figure.drawing.panels:
                figures[id] = figure
        # Reconciliations and audits belong to the whole paper, not to one record.
        reconciliations = () if kind else self._reconciliations(data)
        return Findings(
            values=values,
            tables=tables,
            figures=figures,
            claims=self._claims(data, kind),
            reconciliations={r.id: r for r in reconciliations},
            audits=() if kind else tuple(self._audits(data)),
            facts={"measured": bool(files)} | _results(declared.texts, data, "", kind),
            key_figure=declared.key_figure,
        )

    def _claims(self, data: Any, kind: str) -> dict[str, Claim]:
        """Judge all claims, or only those on parts of one ``kind``."""
        claims = {}
        no_run = Statement(_NO_RUN, Range())
        for id, claimed in _results(self._declarations.claims, data, no_run, kind).items():
            item = self._declarations.claims[id]
            judged = judge(id, _joined(claimed))
            claims[id] = replace(
                judged, title=item.title, about=_ABOUT[item.part.kind], numbers=item.numbers
            )
        return claims


def _results(
    declared: Mapping[str, _Declared[Result]], data: Any, otherwise: Result, kind: str
) -> dict[str, Result]:
    """Compute each declaration by its id, or only those on parts of one ``kind``."""
    return {
        id: item.of(data, otherwise)
        for id, item in declared.items()
        if kind in ("", item.part.kind)
    }


def _values(declared: Mapping[str, _Declared[Numbers]], data: Any, kind: str) -> Iterator[Value]:
    """Evaluate numbers in order; raises ``StudyError`` for a mapping on a part without subject."""
    for id, result in _results(declared, data, _NO_RUN, kind).items():
        item = declared[id]
        if isinstance(result, Mapping):
            for name, quantity in result.items():
                yield declare(name, quantity, item.style)
        elif item.mapping:
            raise StudyError(
                f"{id} declares a mapping on {item.part.name}, which these data lack; declare its "
                "values one by one."
            )
        else:
            yield declare(id, result, item.style)


def _constant(quantity: Quantity, data: Any) -> Quantity:
    return quantity


def _id(function: Callable[..., Any], separator: str = "-") -> str:
    """Return a function's name as an id, without outer underscores as in ``not_``."""
    return function.__name__.strip("_").replace("_", separator)


def _add(declared: dict[str, _Declared[Result]], item: _Declared[Result]) -> None:
    """Add a declaration; raises ``StudyError`` for an id that is declared twice."""
    if item.id in declared:
        raise _declared_twice(item.id)
    declared[item.id] = item


def _declared_twice(id: str) -> StudyError:
    return StudyError(f"The study declares {id} twice; rename one of the two.")


def _joined(claimed: Claimed) -> Statement | Several:
    """Join several statements to the one that all hold."""
    if isinstance(claimed, Statement | Several):
        return claimed
    statements = tuple(claimed)
    return all_of(*statements) if statements else _NOTHING


def audit_row(p: Any, item: Check) -> dict[str, Content]:
    """Make a table's row for a check: printed value, recomputed value and verdict.

    ``p`` are the data of a paper, with an attribute ``inputs``.
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
