"""Many machines in one paper: a few of them in detail, all of them in one table and one figure.

A study says what it compares of machines by a ``Comparison``, as ``COMPARED`` in its ``study``
module; without one they are compared by their ceilings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, TypeAlias, TypeVar

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.errors import StudyError
from report.evidence.runs import Run, labels
from report.missing import Missing
from report.paper.findings import Figure, Findings, Inputs
from report.paper.tables import Cell, Column, Table
from report.paper.values import Value, declare, exact
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent, declared
from report.quantity.verdicts import Statement, expect
from report.records.store import Stored
from report.statistics.estimates import Estimate
from report.text.escape import markdown
from report.text.format import scale_to

#: Of so many machines the figure gives names.
NAMED: Final = 8
#: Two numbers need no figure.
_FEWEST: Final = 3
#: So many machines stand in one table; the next ones stand in another.
ROWS: Final = 40

AnyRun = TypeVar("AnyRun", bound=Run)
#: What was found of a machine: the number of each measure.
Found: TypeAlias = int | float | Estimate | Missing


@dataclass(frozen=True)
class Measure(Generic[AnyRun]):
    """One property of a machine; ``shown`` is the unit in print.

    ``reference`` is the number that tells a gain from a loss, such as 1 of a ratio.
    """

    name: str
    unit: str
    get: Callable[[AnyRun], Quantity]
    shown: str | None = None
    reference: float | None = None


@dataclass(frozen=True)
class Comparison(Generic[AnyRun]):
    """What a study compares of machines; the first of ``measures`` is drawn, and orders them."""

    run: Callable[[Stored, str], AnyRun]
    measures: tuple[Measure[AnyRun], ...] = ()


_CEILINGS: Final[tuple[Measure[Any], ...]] = (
    Measure("Arithmetic", "FLOP/s", lambda run: run.peak_rate("matrix_product"), "GFLOP/s"),
    Measure("Memory", "B/s", lambda run: run.peak_rate("copy"), "GB/s"),
)


@dataclass(frozen=True)
class _Machine:
    """A row: the machine's name, its record, and what each measure is, ceilings apart.

    ``drawn`` is the quantity of the first measure.
    """

    name: str
    stored: Stored
    drawn: Quantity | None
    found: tuple[Found, ...]
    ceilings: tuple[Found, ...]

    @property
    def first(self) -> Found:
        return self.found[0]

    @property
    def height(self) -> float:
        """Where the machine stands in the order of the first measure; below all if unknown."""
        found = self.first
        if isinstance(found, Missing):
            return float("-inf")
        return found.value if isinstance(found, Estimate) else float(found)


# -------------------------------------------------------------------------------- in detail


def described(inputs: Inputs) -> Inputs:
    """The inputs with the machines that play a role, in the order of the roles."""
    described = {stored.file: stored for stored in inputs.cast.values()}
    return replace(inputs, records=tuple(described.values()))


# ------------------------------------------------------------------------------ all of them


def with_all_machines(
    findings: Findings, inputs: Inputs, few: Inputs, comparison: Comparison[Any]
) -> Findings:
    """``findings`` of a ``few`` machines, with what compares all those of ``inputs``."""
    machines = _machines(inputs, comparison)
    detailed = {stored.file for stored in few.records}
    tables = {table.id: table for table in _tables(machines, comparison)}
    figure = _figure(machines, detailed, comparison)
    values = _values(machines, detailed, comparison)
    return replace(
        findings,
        values={**findings.values, **{value.id: value for value in values}},
        tables={**findings.tables, **tables},
        figures={**findings.figures, **({figure.id: figure} if figure else {})},
        facts={
            **findings.facts,
            "files": list(inputs.files),
            "comparison": {
                **_extremes(machines, comparison),
                "detailed": [markdown(m.name) for m in machines if m.stored.file in detailed],
                "tables": list(tables),
            },
        },
    )


def _machines(inputs: Inputs, comparison: Comparison[Any]) -> list[_Machine]:
    """The machines in the order of the first measure, highest first."""
    names = labels(inputs.records)
    found = [_machine(s, name, comparison) for s, name in zip(inputs.records, names, strict=True)]
    return sorted(found, key=lambda machine: -machine.height) if comparison.measures else found


def _machine(stored: Stored, name: str, comparison: Comparison[Any]) -> _Machine:
    # One name for all, so that what they lack is one note of the table and not one each.
    run = comparison.run(stored, "this machine")
    found = [_measured(measure, run) for measure in comparison.measures]
    return _Machine(
        name,
        stored,
        found[0][0] if found else None,
        tuple(each for _, each in found),
        tuple(_measured(measure, run)[1] for measure in _CEILINGS),
    )


def _measured(measure: Measure[Any], run: Run) -> tuple[Quantity, Found]:
    """A measure of a machine with its number; absent where the record does not fit the study."""
    try:
        quantity = declared(measure.get(run), measure.unit)
        return quantity, number(quantity)
    except StudyError as error:
        why = str(error)
        return absent(measure.name, measure.unit, why), Missing(why)


def _tables(machines: Sequence[_Machine], comparison: Comparison[Any]) -> list[Table]:
    """All machines, a row each, in tables of at most ``ROWS``."""
    columns = (
        Column("Machine"),
        Column("Processor or GPU"),
        Column("Threads", "1"),
        *(Column(m.name, m.unit, m.shown) for m in (*_CEILINGS, *comparison.measures)),
    )
    parts = [machines[start : start + ROWS] for start in range(0, len(machines), ROWS)]
    return [
        Table(
            "tbl-machines" if place == 1 else f"tbl-machines-{place}",
            "",
            columns,
            tuple(_row(machine) for machine in part),
            sources=tuple(run.file for machine in part for run in machine.stored.runs),
            wide=True,
        )
        for place, part in enumerate(parts, start=1)
    ]


def _row(machine: _Machine) -> tuple[Cell, ...]:
    environment = machine.stored.record.environment
    return (
        machine.name.replace(environment.threads_text, "", 1),
        environment.gpu.model if environment.gpu else environment.cpu.model,
        environment.threads,
        *map(_middle, machine.ceilings),
        *machine.found,
    )


def _middle(found: Found) -> Cell:
    """A ceiling without its interval, which the machine's own paper tells."""
    return (
        replace(found, low=found.value, high=found.value) if isinstance(found, Estimate) else found
    )


def _known(machines: Sequence[_Machine], comparison: Comparison[Any]) -> list[_Machine]:
    """The machines of which the first measure is known."""
    if not comparison.measures:
        return []
    return [machine for machine in machines if not isinstance(machine.first, Missing)]


def _extremes(machines: Sequence[_Machine], comparison: Comparison[Any]) -> dict[str, Any]:
    """Where the drawn measure is highest and lowest, and whether some machines have no name there.

    Nothing if it is known nowhere.
    """
    known = _known(machines, comparison)
    if not known:
        return {}
    return {
        "highest": markdown(known[0].name),
        "lowest": markdown(known[-1].name),
        "unnamed": len(known) > NAMED,
    }


def _values(
    machines: Sequence[_Machine], detailed: set[str], comparison: Comparison[Any]
) -> list[Value]:
    """How many machines there are, and how the first measure lies on them."""
    known, files = _known(machines, comparison), tuple(m.stored.file for m in machines)

    def count(id_: str, amount: int) -> Value:
        name = id_.replace("_", " ").capitalize()
        return exact(id_, name, amount, "1", "records of the paper", files)

    found = [
        count("machines", len(machines)),
        count("machines_detailed", len(detailed)),
        count("machines_others", len(machines) - len(detailed)),
    ]
    if not known:
        return found
    found += [
        *(
            declare(f"machines_{end}", machine.drawn)
            for end, machine in (("highest", known[0]), ("lowest", known[-1]))
            if machine.drawn is not None
        ),
        count("machines_known", len(known)),
    ]
    reference = comparison.measures[0].reference
    if reference is not None:
        above, below = (_holding(f"{sign} {reference:.10g}", known) for sign in "><")
        found += [
            count("machines_above", above),
            count("machines_below", below),
            count("machines_undecided", len(known) - above - below),
        ]
    return found


def _holding(expectation: str, machines: Sequence[_Machine]) -> int:
    """On how many machines the first measure is supported to be as expected."""
    drawn = [machine.drawn for machine in machines if machine.drawn is not None]
    return sum(Statement(each, expect(expectation)).judge() == "supported" for each in drawn)


# ------------------------------------------------------------------------------- the figure


def _figure(
    machines: Sequence[_Machine], detailed: set[str], comparison: Comparison[Any]
) -> Figure | None:
    """A row for each named machine, in order, and one in grey for all others."""
    known = _known(machines, comparison)
    if len(known) < _FEWEST:
        return None
    measure = comparison.measures[0]
    named = _named(known, detailed)
    others = [machine for machine in known if machine not in named]
    factor = scale_to(measure.shown, measure.unit).factor if measure.shown else 1.0
    ends = [tuple(factor * end for end in _ends(machine.first)) for machine in named]
    grey = tuple(factor * machine.height for machine in others)
    last: tuple[tuple[float, ...] | None, ...] = (grey,) if others else ()
    nothing = (None,) * len(last)
    panel = Dots(
        (*(machine.name for machine in named), *([f"{len(others)} others"] if others else [])),
        (
            DotSeries("", (*(None for _ in named), *last), muted=True),
            DotSeries(
                "",
                (*(value for _, value, _ in ends), *nothing),
                low=(*(low for low, _, _ in ends), *nothing),
                high=(*(high for _, _, high in ends), *nothing),
            ),
        ),
        measure.name
        if measure.unit == "1" and not measure.shown
        else f"{measure.name} ({measure.shown or measure.unit})",
        reference=measure.reference,
        log=all(machine.height > 0 for machine in known),
    )
    files = tuple(machine.stored.file for machine in known)
    return Figure("fig-machines", "", "", Drawing((panel,), height=panel.height), files)


def _named(known: Sequence[_Machine], detailed: set[str]) -> list[_Machine]:
    """The machines in detail, then those at both ends of the order until ``NAMED`` are named."""
    ends = [m for pair in zip(known, reversed(known), strict=True) for m in pair]
    first = sorted(ends, key=lambda machine: machine.stored.file not in detailed)
    wanted = list({m.stored.file: m for m in first})[:NAMED]
    return [machine for machine in known if machine.stored.file in wanted]


def _ends(found: Found) -> tuple[float, float, float]:
    """Low end, value and high end of a number that is known."""
    assert not isinstance(found, Missing)
    if isinstance(found, Estimate):
        return found.low, found.value, found.high
    return (float(found),) * 3
