"""Many machines in one paper: a few of them in detail, all of them in one table and one figure.

A study says what it compares of machines by a ``Comparison``, as ``COMPARED`` in its ``study``
module; without one they are compared by their ceilings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.errors import StudyError
from report.evidence.runs import Run, labels
from report.missing import Missing
from report.paper.findings import Figure, Findings, Inputs
from report.paper.tables import Cell, Column, Table
from report.paper.values import declare, exact
from report.quantity.evaluation import estimate, number, point
from report.quantity.expression import Quantity, absent, declared
from report.records.store import Stored
from report.text.escape import markdown
from report.text.format import scale_to

#: Of so many machines the figure gives names.
NAMED: Final = 8
#: Two numbers need no figure.
_FEWEST: Final = 3
#: So many machines stand in one table; the next ones stand in another.
ROWS: Final = 40

AnyRun = TypeVar("AnyRun", bound=Run)


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


class _Machine(NamedTuple):
    """A row: the machine's name, its record, its ceilings, and what each measure is."""

    name: str
    stored: Stored
    ceilings: tuple[Quantity, ...]
    measured: tuple[Quantity, ...]

    @property
    def height(self) -> float:
        """Where the machine stands in the order of the first measure; below all if unknown."""
        found = point(self.measured[0]) if self.measured else Missing("nothing is compared")
        return float("-inf") if isinstance(found, Missing) else found


def described(inputs: Inputs) -> Inputs:
    """The inputs with the machines that play a role, in the order of the roles."""
    records = {stored.file: stored for stored in inputs.cast.values()}
    return replace(inputs, records=tuple(records.values()))


def with_all_machines(
    findings: Findings, inputs: Inputs, few: Inputs, comparison: Comparison[Any]
) -> Findings:
    """``findings`` of a ``few`` machines, with what compares all those of ``inputs``."""
    machines = _machines(inputs, comparison)
    roles = {stored.file for stored in few.records}
    detailed = [machine for machine in machines if machine.stored.file in roles]
    known = [m for m in machines if m.height > float("-inf")]
    tables = {table.id: table for table in _tables(machines, comparison)}
    files = tuple(machine.stored.file for machine in machines)
    counts = {
        "machines": len(machines),
        "machines_detailed": len(detailed),
        "machines_known": len(known),
    }
    values = {
        id: exact(id, id.replace("_", " ").capitalize(), amount, "1", "records of the paper", files)
        for id, amount in counts.items()
    }
    ends = {"machines_highest": known[0], "machines_lowest": known[-1]} if known else {}
    values |= {id: declare(id, machine.measured[0]) for id, machine in ends.items()}
    figures = (
        {"fig-machines": _figure(known, detailed, comparison)} if len(known) >= _FEWEST else {}
    )
    compared = {
        **{id.removeprefix("machines_"): markdown(m.name) for id, m in ends.items()},
        "unnamed": len(known) > NAMED,
        "detailed": [markdown(machine.name) for machine in detailed],
        "tables": list(tables),
    }
    return replace(
        findings,
        values={**findings.values, **values},
        tables={**findings.tables, **tables},
        figures={**findings.figures, **figures},
        facts={**findings.facts, "files": list(inputs.files), "comparison": compared},
    )


def _machines(inputs: Inputs, comparison: Comparison[Any]) -> list[_Machine]:
    """The machines in the order of the first measure, highest first."""
    found = []
    for stored, name in zip(inputs.records, labels(inputs.records), strict=True):
        # One name for all, so that what they lack is one note of the table and not one each.
        run = comparison.run(stored, "this machine")
        ceilings, measured = (
            tuple(_measured(measure, run) for measure in each)
            for each in (_CEILINGS, comparison.measures)
        )
        found.append(_Machine(name, stored, ceilings, measured))
    return sorted(found, key=lambda machine: -machine.height)


def _measured(measure: Measure[Any], run: Run) -> Quantity:
    """A measure of a machine; absent where the record does not fit the study."""
    try:
        quantity = declared(measure.get(run), measure.unit)
        estimate(quantity)  # finds an error of the record now
        return quantity
    except StudyError as error:
        return absent(measure.name, measure.unit, str(error))


def _tables(machines: Sequence[_Machine], comparison: Comparison[Any]) -> Iterable[Table]:
    """All machines, a row each, in tables of at most ``ROWS``."""
    columns = (
        Column("Machine"),
        Column("Processor or GPU"),
        Column("Threads", "1"),
        *(Column(m.name, m.unit, m.shown) for m in (*_CEILINGS, *comparison.measures)),
    )
    for start in range(0, len(machines), ROWS):
        part = machines[start : start + ROWS]
        yield Table(
            f"tbl-machines-{start // ROWS + 1}" if start else "tbl-machines",
            "",
            columns,
            tuple(map(_row, part)),
            sources=tuple(run.file for machine in part for run in machine.stored.runs),
            wide=True,
        )


def _row(machine: _Machine) -> tuple[Cell, ...]:
    environment = machine.stored.record.environment
    return (
        machine.name.replace(environment.threads_text, "", 1),
        environment.gpu.model if environment.gpu else environment.cpu.model,
        environment.threads,
        # Without intervals, which a paper about the machine has.
        *map(point, machine.ceilings),
        *map(number, machine.measured),
    )


def _figure(
    known: Sequence[_Machine], detailed: Sequence[_Machine], comparison: Comparison[Any]
) -> Figure:
    """A row for each named machine, in order, and one in grey for all others."""
    measure = comparison.measures[0]
    # Those in detail have names, then those at both ends of the order.
    ends = (m for pair in zip(known, reversed(known), strict=True) for m in pair)
    first = {m.name: m for m in (*(m for m in known if m in detailed), *ends)}
    named = [m for m in known if m.name in [*first][:NAMED]]
    others = [m for m in known if m not in named]
    factor = scale_to(measure.shown, measure.unit).factor if measure.shown else 1.0
    found = [e for m in named if not isinstance(e := estimate(m.measured[0]), Missing)]
    last = (None,) * bool(others)
    grey = (tuple(factor * m.height for m in others),) if others else ()
    panel = Dots(
        (*(m.name for m in named), *([f"{len(others)} others"] if others else [])),
        (
            DotSeries("", (*(None for _ in named), *grey), muted=True),
            DotSeries(
                "",
                (*(factor * each.value for each in found), *last),
                low=(*(factor * each.low for each in found), *last),
                high=(*(factor * each.high for each in found), *last),
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
