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
from typing import Any, Final, Generic, TypeVar

from figures.panels import Drawing
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
class _Declared:
    """A function of one part's subject, with the id by which templates print its result.

    A claim has a ``title`` and ``numbers``; a table or a figure has ``options`` of its layout.
    """

    part: Part[Any]
    id: str
    function: Callable[[Any], Any]
    style: Style | None = None
    title: str = ""
    numbers: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class _Declarations:
    """Declarations of a study, in the order of its module."""

    values: dict[str, _Declared] = field(default_factory=dict)
    texts: dict[str, _Declared] = field(default_factory=dict)
    claims: dict[str, _Declared] = field(default_factory=dict)
    tables: dict[str, _Declared] = field(default_factory=dict)
    figures: dict[str, _Declared] = field(default_factory=dict)
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
        return self._decorator(self._declarations.values, _underscored, style=style)

    def values(
        self, style: Style | None = None, /, **functions: Callable[[Subject], Quantity]
    ) -> None:
        """Declare numbers that functions with names of their own compute, such as methods."""
        for id, function in functions.items():
            _add(self._declarations.values, _Declared(self, id, function, style))

    def mapping(self, style: Style | None = None) -> Callable[[Function], Function]:
        """Declare all numbers of the mapping that a function returns, by their names.

        The part must have a subject in every paper, since the function alone tells the names.
        """
        return self._decorator(self._declarations.values, _place, style=style)

    def text(self) -> Callable[[Function], Function]:
        """Declare words that are no number, such as the name of a machine; empty without one."""
        return self._decorator(self._declarations.texts, _underscored)

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
        return self._decorator(self._declarations.claims, _hyphened, title=title, numbers=numbers)

    def table(
        self,
        name: str = "",
        *,
        wide: bool = False,
        digits: Mapping[str, int] = MappingProxyType({}),
    ) -> Callable[[Function], Function]:
        """Declare a table, whose function yields the cells of each row by their headings.

        A heading may end with the unit in which its numbers are printed: ``Time (µs)``.
        ``name`` replaces the function's, which a value may have already.  ``digits`` maps headings
        to significant digits, for columns whose numbers have no interval.
        """
        options = {"wide": wide, "digits": digits}

        def id_of(function: Callable[..., Any]) -> str:
            return f"tbl-{name or _hyphened(function)}"

        return self._decorator(self._declarations.tables, id_of, options=options)

    def shared_table(self) -> Callable[[Function], Function]:
        """Declare a table with an id of its own, made by shared code, or None."""
        return self._decorator(self._declarations.tables, _place)

    def figure(
        self, name: str = "", *, key: bool = False, **size: Any
    ) -> Callable[[Function], Function]:
        """Declare a figure, whose function yields its panels; ``size`` are fields of ``Drawing``.

        ``name`` replaces the function's, which a value may have already.
        Lists of papers show the ``key`` figure.
        """

        def declared(function: Function) -> Function:
            id, options = f"fig-{name or _hyphened(function)}", size | {"place": _place(function)}
            _add(self._declarations.figures, _Declared(self, id, function, options=options))
            if key:
                self._declarations.key_figure = id
            return function

        return declared

    def _decorator(
        self,
        declarations: dict[str, _Declared],
        id_of: Callable[[Callable[..., Any]], str],
        **fields: Any,
    ) -> Callable[[Function], Function]:
        """Make a decorator that adds a function to ``declarations`` under its id."""

        def declared(function: Function) -> Function:
            _add(declarations, _Declared(self, id_of(function), function, **fields))
            return function

        return declared


def _nothing(data: Any) -> tuple[()]:
    return ()


class Study(Part[Data]):
    """Declarations of all that a paper prints, on its parts or on all its data together."""

    def __init__(
        self,
        data: Callable[[Inputs], Data],
        check: Callable[[Stored], object] = _nothing,
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
            self.values(style, **{id: partial(_constant, quantity)})

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
        tables: dict[str, Table] = {}
        for item, result in _results(declared.tables, data, None, kind):
            table = (
                table_of(item.id, tuple(result or ()), **item.options) if item.options else result
            )
            if table and table.rows:
                sources = inputs.shards(table.sources) or files
                tables[table.id] = replace(table, sources=sources)
        figures: dict[str, Figure] = {}
        for item, panels in _results(declared.figures, data, (), kind):
            drawing = Drawing(tuple(panels), **item.options)
            if drawing.panels:
                figures[item.id] = Figure(item.id, drawing)
        texts = {item.id: text for item, text in _results(declared.texts, data, "", kind)}
        # Reconciliations and audits belong to the whole paper, not to one record.
        reconciliations = () if kind else self._reconciliations(data)
        return Findings(
            values=values,
            tables=tables,
            figures=figures,
            claims=self._claims(data, kind),
            reconciliations={r.id: r for r in reconciliations},
            audits=() if kind else tuple(self._audits(data)),
            facts={"measured": bool(files)} | texts,
            key_figure=declared.key_figure,
        )

    def _claims(self, data: Any, kind: str) -> dict[str, Claim]:
        """Judge all claims, or only those on parts of one ``kind``."""
        claims = {}
        no_run = Statement(_NO_RUN, Range())
        for item, claimed in _results(self._declarations.claims, data, no_run, kind):
            statement = claimed
            if not isinstance(claimed, Statement | Several):
                statements = tuple(claimed)
                statement = all_of(*statements) if statements else _NOTHING
            claims[item.id] = replace(
                judge(item.id, statement),
                title=item.title,
                about=_ABOUT[item.part.kind],
                numbers=item.numbers,
            )
        return claims


def _results(
    declared: Mapping[str, _Declared], data: Any, otherwise: Any, kind: str
) -> Iterator[tuple[_Declared, Any]]:
    """Compute each declaration, or only those on parts of one ``kind``.

    The result is ``otherwise`` for a part without a subject in ``data``.
    """
    for item in declared.values():
        if kind in ("", item.part.kind):
            subject = getattr(data, item.part.name) if item.part.name else data
            yield item, otherwise if subject is None else item.function(subject)


def _values(declared: Mapping[str, _Declared], data: Any, kind: str) -> Iterator[Value]:
    """Evaluate numbers in order; raises ``StudyError`` for a mapping on a part without subject."""
    for item, result in _results(declared, data, _NO_RUN, kind):
        if isinstance(result, Mapping):
            for name, quantity in result.items():
                yield declare(name, quantity, item.style)
        elif "." in item.id:
            raise StudyError(
                f"{item.id} declares a mapping on {item.part.name}, which these data lack; declare "
                "its values one by one."
            )
        else:
            value = declare(item.id, result, item.style)
            yield replace(value, description=_first_line(item.function))


def _first_line(function: Callable[..., Any]) -> str:
    """Return the first line of a function's docstring, in small letters and without markup."""
    line = (getattr(function, "func", function).__doc__ or "").partition("\n")[0]
    return line[:1].lower() + line[1:].rstrip(".").replace("``", "")


def _constant(quantity: Quantity, data: Any) -> Quantity:
    return quantity


def _underscored(function: Callable[..., Any]) -> str:
    """Return a function's name without outer underscores as in ``not_``."""
    return function.__name__.strip("_")


def _hyphened(function: Callable[..., Any]) -> str:
    return _underscored(function).replace("_", "-")


def _place(function: Callable[..., Any]) -> str:
    """Return module and name of a function, the id of declarations that are not printed by it."""
    return f"{function.__module__}.{function.__name__}"


def _add(declared: dict[str, _Declared], item: _Declared) -> None:
    """Add a declaration; raises ``StudyError`` for an id that is declared twice."""
    if item.id in declared:
        raise _declared_twice(item.id)
    declared[item.id] = item


def _declared_twice(id: str) -> StudyError:
    return StudyError(f"The study declares {id} twice; rename one of the two.")


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
