"""Many machines in one paper: a few of them in detail, all of them in one table and one figure.

A study says what it compares of machines by a ``Comparison``, as ``COMPARED`` in its ``study``
module; without one they are compared by their ceilings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from report.errors import StudyError
from report.evidence.runs import Run, labels
from report.missing import Missing
from report.paper.findings import Figure, Findings, Inputs
from report.paper.tables import Content, table_of
from report.paper.values import declare
from report.quantity.evaluation import estimate, point
from report.quantity.expression import Quantity, absent, exact
from report.records.store import Stored
from report.text.escape import markdown

#: So many machines have room in the figure.
DRAWN: Final = 40
#: Two numbers need no figure.
_FEWEST: Final = 3
#: Where a machine stands of which nothing is known: below all others.
_UNKNOWN: Final = float("-inf")
_NOTHING: Final[Quantity] = absent("nothing", "1", "nothing is compared")
_CEILINGS: Final = {"Arithmetic (GFLOP/s)": "matrix_product", "Memory (GB/s)": "copy"}

AnyRun = TypeVar("AnyRun", bound=Run)


@dataclass(frozen=True)
class Comparison(Generic[AnyRun]):
    """What a study compares of machines: the ``measure`` of a run, under a ``heading`` of tables.

    It orders the machines, and is drawn.  ``reference`` is the number that tells a gain from a
    loss, such as 1 of a ratio.
    """

    run: Callable[[Stored, str], AnyRun]
    heading: str = ""
    measure: Callable[[AnyRun], Quantity] = lambda run: _NOTHING
    reference: float | None = None


class _Machine(NamedTuple):
    """A machine: its record, its cells by heading, and its place by what is measured, if it is."""

    name: str
    file: str
    cells: dict[str, Content]
    measured: Quantity
    height: float


def described(inputs: Inputs) -> Inputs:
    """The inputs with the machines that play a role, in the order of the roles."""
    records = {stored.file: stored for stored in inputs.cast.values()}
    return replace(inputs, records=tuple(records.values()))


def with_all_machines(
    findings: Findings, inputs: Inputs, few: Inputs, comparison: Comparison[Any]
) -> Findings:
    """``findings`` of a ``few`` machines, with what compares all those of ``inputs``."""
    named = zip(inputs.records, labels(inputs.records), strict=True)
    machines = sorted((_machine(*each, comparison) for each in named), key=lambda m: -m.height)
    known = [machine for machine in machines if machine.height > _UNKNOWN]
    roles = {stored.file for stored in few.records}
    detailed = [machine for machine in machines if machine.file in roles]
    counts = {"machines": machines, "machines_detailed": detailed, "machines_known": known}
    file, *files = (machine.file for machine in machines)
    values = {
        id: declare(id, exact("records of the paper", "1", len(each), file, tuple(files)))
        for id, each in counts.items()
    }
    ends = {"machines_highest": known[0], "machines_lowest": known[-1]} if known else {}
    values |= {id: declare(id, machine.measured) for id, machine in ends.items()}
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    table = replace(table, sources=inputs.files)
    figures = {}
    if len(known) >= _FEWEST:
        factor = table.columns[-1].scale.factor
        figures["fig-machines"] = _figure(known, detailed, comparison, factor)
    compared = {
        **{id.removeprefix("machines_"): markdown(m.name) for id, m in ends.items()},
        "left_out": len(known) > DRAWN,
        "detailed": [markdown(machine.name) for machine in detailed],
    }
    return replace(
        findings,
        values={**findings.values, **values},
        tables={**findings.tables, table.id: table},
        figures={**findings.figures, **figures},
        facts={**findings.facts, "comparison": compared},
    )


def _machine(stored: Stored, name: str, comparison: Comparison[Any]) -> _Machine:
    """A machine whose measure is absent where its record does not fit the study."""
    # One name for all, so that what they lack is one note of the table and not one each.
    run, environment = comparison.run(stored, "this machine"), stored.record.environment
    cells: dict[str, Content] = {
        "Machine": name.replace(environment.threads_text, "", 1),
        "Processor or GPU": environment.gpu.model if environment.gpu else environment.cpu.model,
        "Threads": environment.threads,
    }
    # Without intervals, which a paper about the machine has.
    for heading, operation in _CEILINGS.items():
        rate = run.peak_rate(operation)
        best = point(rate)
        cells[heading] = best if isinstance(best, Missing) else exact(heading, str(rate.unit), best)
    measured, height = _NOTHING, _UNKNOWN
    try:
        measured = comparison.measure(run)
        found = point(measured)
        content: Content = measured
        height = _UNKNOWN if isinstance(found, Missing) else found
    except StudyError as error:
        content = Missing(str(error))
    if comparison.heading:
        cells[comparison.heading] = content
    return _Machine(name, stored.file, cells, measured, height)


def _figure(
    known: Sequence[_Machine],
    detailed: Sequence[_Machine],
    comparison: Comparison[Any],
    factor: float,
) -> Figure:
    """A row for each machine in order; of too many, those in detail and at both ends."""
    ends = (m for pair in zip(known, reversed(known), strict=True) for m in pair)
    first = dict.fromkeys(m.name for m in (*(m for m in known if m in detailed), *ends))
    drawn = [m for m in known if m.name in [*first][:DRAWN]]
    found = [e for m in drawn if not isinstance(e := estimate(m.measured), Missing)]
    low, value, high = (
        tuple(factor * getattr(each, end) for each in found) for end in ("low", "value", "high")
    )
    panel = Dots(
        tuple(machine.name for machine in drawn),
        (DotSeries("", value, low=low, high=high),),
        comparison.heading,
        reference=comparison.reference,
        log=all(machine.height > 0 for machine in known),
    )
    place = f"{__name__}._figure"
    return Figure("fig-machines", Drawing((panel,), height=panel.height, place=place))
