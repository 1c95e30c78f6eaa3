"""Declarations of a study: functions on parts of its data, whose names templates use.

A part is a kind of subject: the run of a CPU or GPU, the source, measurements of others, or a pair
of runs.  The result of a declaration depends on the subject alone.  So a paper can print it for the
run that the paper uses, and a replication report for any other run.  The name of a function is the
identifier in templates: ``v.best_share``, ``wider-is-faster``, ``tbl-rates``, ``fig-rates``.
``docs/adding-a-study.md`` has examples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

from figures.panels import Drawing
from report.core.errors import StudyError
from report.core.records.store import Stored
from report.core.text.format import Style
from report.evidence.audit import Check
from report.evidence.runs import Run
from report.paper.claims import Claim, judge
from report.paper.findings import Figure, Findings, Inputs
from report.paper.machines import MachineComparison, with_all_machines
from report.paper.tables import Content, Table, table_of
from report.paper.values import Value, declare
from report.quantity.expression import Quantity, Statement, missing_number
from report.quantity.ranges import Range
from report.theory.reconciliation import Reconciliation

__all__ = ["Content", "Part", "Study"]

Data = TypeVar("Data")
Subject = TypeVar("Subject")
Function = TypeVar("Function", bound=Callable[..., Any])

#: Kind of a part → what its claims are about, in words.
_SUBJECT_IN_WORDS: Final[Mapping[str, str]] = {
    "cpu": "a CPU",
    "gpu": "a GPU",
    "source": "the source",
    "others": "measurements of others",
    "tables": "tables that programs in benchmarks/ measured for the paper",
    "pair": "a pair of runs",
    "": "all data of the paper",
}

#: Field of ``Findings`` → prefix of its ids.
_ID_PREFIXES: Final = {"tables": "tbl-", "figures": "fig-", "claims": ""}

#: Value of a part without a subject.
_NO_RUN: Final[Quantity] = missing_number("no run", "1", "no record holds such cases")
#: Reason for a claim without comparisons.
NO_CASES: Final = "needed cases or counts are missing"
_NO_COMPARISON: Final = Statement(missing_number("no run", "1", NO_CASES), Range())


@dataclass(frozen=True)
class _Declared:
    """A quantity, or a function of the subject of ``part``; templates print it by the ``id``.

    Claims have a ``title`` and ``numbers``, the ids of the values they are about; tables and
    figures have layout ``options``.  ``key`` marks the figure that lists of papers show.  The
    function of ``many`` values returns a mapping from id to quantity.
    """

    part: Part[Any]
    id: str
    content: Any
    style: Style | None = None
    title: str = ""
    numbers: tuple[str, ...] = ()
    key: bool = False
    many: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


#: Field of ``Findings`` → id → declaration, in the order of the study's module.
_Declarations: TypeAlias = dict[str, dict[str, _Declared]]


class Part(Generic[Subject]):
    """One part of a study's data, and the decorators that declare functions of it."""

    def __init__(self, name: str, kind: str, declarations: _Declarations) -> None:
        """Make the part whose subject is the attribute ``name`` of the paper's data.

        The attribute is None if the data lack the subject.  ``kind`` is a key of
        ``_SUBJECT_IN_WORDS``.
        """
        self.name, self.kind, self._declarations = name, kind, declarations

    def value(self, style: Style | None = None) -> Callable[[Function], Function]:
        """Declare a number of the text."""
        return self._decorator("values", style=style)

    def values(
        self, style: Style | None = None, /, **declared: Quantity | Callable[[Subject], Quantity]
    ) -> None:
        """Declare numbers by id: quantities, or functions with other names, such as methods."""
        for id, content in declared.items():
            self._add("values", id, content, style=style)

    def mapping(self, style: Style | None = None) -> Callable[[Function], Function]:
        """Declare all numbers of the mapping (id → quantity) that a function returns.

        The part must have a subject in every paper, since only the function knows the ids.
        """
        return self._decorator("values", style=style, many=True)

    def text(self) -> Callable[[Function], Function]:
        """Declare words, such as the name of a machine; they are empty without a subject."""
        return self._decorator("texts")

    def texts(self, **functions: Callable[[Subject], Any]) -> None:
        """Declare words by id, for functions with other names, such as methods of the subject."""
        for id, function in functions.items():
            self._add("texts", id, function)

    def claim(self, title: str, numbers: tuple[str, ...] = ()) -> Callable[[Function], Function]:
        """Declare a claim: a comparison such as ``run.gain() > 1``, or several comparisons.

        ``title`` is one sentence that can be read alone.  ``numbers`` are the ids of the values
        that the claim is about; an abstract may print only these values of its headline's claims.
        Without a subject the claim is not measured.
        """
        return self._decorator("claims", title=title, numbers=numbers)

    def table(
        self,
        name: str = "",
        *,
        wide: bool = False,
        digits: Mapping[str, int] = MappingProxyType({}),
    ) -> Callable[[Function], Function]:
        """Declare a table; the function yields its rows as mappings from heading to cell.

        A heading may end with the unit in which its numbers are printed: ``Time (µs)``.
        ``name`` replaces the name of the function in the id.  ``digits`` maps headings to
        significant digits, for columns whose numbers have no interval.  The function may also
        return a finished ``Table`` with its id, or None.
        """
        return self._decorator("tables", name, options={"wide": wide, "digits": digits})

    def figure(
        self, name: str = "", *, key: bool = False, **size: Any
    ) -> Callable[[Function], Function]:
        """Declare a figure; the function yields its panels, and ``size`` are fields of ``Drawing``.

        ``name`` replaces the name of the function in the id.  Lists of papers show the ``key``
        figure.
        """
        return self._decorator("figures", name, key=key, options=size)

    def _decorator(
        self, section: str, name: str = "", **fields: Any
    ) -> Callable[[Function], Function]:
        """Return a decorator that declares a function, by its own name unless ``name`` is given."""

        def decorator(function: Function) -> Function:
            # The function of the value ``from`` is called ``from_``.
            self._add(section, name or function.__name__.strip("_"), function, **fields)
            return function

        return decorator

    def _add(self, section: str, name: str, content: Any, **fields: Any) -> None:
        """Declare content of a ``section`` of ``Findings``; refuse an id that is declared."""
        prefix = _ID_PREFIXES.get(section)
        id = name if prefix is None else prefix + name.replace("_", "-")
        declarations = self._declarations.setdefault(section, {})
        if id in declarations:
            raise _duplicate_error(id)
        declarations[id] = _Declared(self, id, content, **fields)


def _no_items(data: Any) -> tuple[()]:
    return ()


class Study(Part[Data]):
    """Declarations of everything that a paper prints, on its parts or on its whole data."""

    def __init__(
        self,
        data: Callable[[Inputs], Data],
        check: Callable[[Stored], object] = _no_items,
        compared: MachineComparison[Any] | None = None,
        *,
        reconciliations: Callable[[Data], Iterable[Reconciliation]] = _no_items,
        audits: Callable[[Data], Iterable[Check]] = _no_items,
    ) -> None:
        """Set the functions of the study.

        ``data`` makes the paper's data.  ``check`` raises ``StudyError`` for a record that does not
        fit the study.  ``compared`` says by which measure all machines are compared, by default by
        none.  ``reconciliations`` makes the paper's reconciliations, and ``audits`` the checks of
        the numbers that its source printed.
        """
        super().__init__("", "", {})
        self._data, self._check, self.compared = data, check, compared or MachineComparison(Run)
        self._reconciliations, self._audits = reconciliations, audits

    def part(self, name: str, kind: str = "") -> Part[Any]:
        """Make a part whose subject is the attribute ``name`` of the paper's data.

        ``kind`` is a key of ``_SUBJECT_IN_WORDS``; the default is the name.
        A report on one record evaluates only parts whose kind is the record's device.
        """
        return Part(name, kind or name, self._declarations)

    def show(self, name: str, *ids: str) -> None:
        """Declare the values ``ids`` again, as ``name_id``, for the run in attribute ``name``."""
        part = Part[Any](name, "pair", self._declarations)
        for id in ids:
            value = self._declarations["values"][id]
            part._add("values", f"{name}_{id}", value.content, style=value.style)

    def findings(self, everything: Inputs) -> Findings:
        """Evaluate all declarations on the records that have a role in the paper.

        If there are other records, also compares all machines.  Raises ``StudyError`` for records
        that do not fit the study.
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
        """Evaluate the declarations about one CPU or GPU, from its record ``stored`` alone.

        Raises ``StudyError`` for a record that does not fit the study.
        """
        self._check_all((stored,))
        kind = "gpu" if stored.record.environment.gpu else "cpu"
        inputs = replace(everything, records=(stored,), roles={})
        if claims_only:
            return Findings({}, {}, {}, claims=self._claims(self._data(inputs), kind))
        return self._evaluate(inputs, kind)

    def _check_all(self, records: Iterable[Stored]) -> None:
        """Raise ``StudyError`` for the first record that does not fit the study."""
        for stored in records:
            for run in stored.runs:
                self._check(run)

    def _evaluate(self, inputs: Inputs, kind: str = "") -> Findings:
        """Evaluate all declarations, or only those on parts of one ``kind``."""
        data = self._data(inputs)
        figures, key_figure = {}, ""
        for item, panels in self._results("figures", data, (), kind):
            key_figure = item.id if item.key else key_figure
            place = f"{item.content.__module__}.{item.content.__name__}"
            drawing = Drawing(tuple(panels), place=place, **item.options)
            if drawing.panels:
                figures[item.id] = Figure(item.id, drawing)
        texts = {item.id: text for item, text in self._results("texts", data, "", kind)}
        # Reconciliations and audits belong to the whole paper, not to one record.
        reconciliations = () if kind else self._reconciliations(data)
        return Findings(
            values=self._values(data, inputs, kind),
            tables=self._tables(data, inputs, kind),
            figures=figures,
            claims=self._claims(data, kind),
            reconciliations={r.id: r for r in reconciliations},
            audits=() if kind else tuple(self._audits(data)),
            facts={"measured": bool(inputs.files)} | texts,
            key_figure=key_figure,
        )

    def _results(
        self, section: str, data: Data, without_subject: Any, kind: str
    ) -> Iterator[tuple[_Declared, Any]]:
        """Yield each declaration on parts of a ``kind`` with its result.

        The result is ``without_subject`` if the data lack the subject of the part.
        """
        for item in self._declarations.get(section, {}).values():
            if kind in ("", item.part.kind):
                subject = getattr(data, item.part.name) if item.part.name else data
                if subject is None:
                    yield item, without_subject
                else:
                    yield item, item.content(subject) if callable(item.content) else item.content

    def _values(self, data: Data, inputs: Inputs, kind: str) -> dict[str, Value]:
        """Evaluate values; raise ``StudyError`` for a mapping on a part without a subject."""
        values: dict[str, Value] = {}
        for item, result in self._results("values", data, _NO_RUN, kind):
            if item.many and result is _NO_RUN:
                raise StudyError(
                    f"{item.id} declares a mapping on {item.part.name}, which these data lack; "
                    "declare its values one by one."
                )
            quantities = result if item.many else {item.id: result}
            for id, quantity in quantities.items():
                if id in values:
                    raise _duplicate_error(id)
                value = declare(id, quantity, item.style)
                values[id] = replace(value, sources=inputs.shards(value.sources))
        return values

    def _tables(self, data: Data, inputs: Inputs, kind: str) -> dict[str, Table]:
        """Make the tables that have rows; a table without quantities names all files as sources."""
        tables: dict[str, Table] = {}
        for item, result in self._results("tables", data, (), kind):
            table = result
            if not isinstance(result, Table):
                table = table_of(item.id, tuple(result), **item.options) if result else None
            if table and table.rows:
                sources = inputs.shards(table.sources) or inputs.files
                tables[table.id] = replace(table, sources=sources)
        return tables

    def _claims(self, data: Data, kind: str) -> dict[str, Claim]:
        claims = {}
        for item, result in self._results("claims", data, _NO_COMPARISON, kind):
            statements = (result,) if isinstance(result, Statement) else tuple(result)
            claims[item.id] = replace(
                judge(item.id, statements or (_NO_COMPARISON,)),
                title=item.title,
                about=_SUBJECT_IN_WORDS[item.part.kind],
                numbers=item.numbers,
            )
        return claims


def _duplicate_error(id: str) -> StudyError:
    return StudyError(f"The study declares {id} twice; rename one of the two.")
