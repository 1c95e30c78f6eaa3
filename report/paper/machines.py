"""Machines as papers and pages print them: those of a paper, and many in one table and one figure.

A study declares what it compares of many machines by a ``Comparison``; without one they are
compared by their ceilings alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Generic, NamedTuple, TypeVar

from figures.panels import Dots, Drawing
from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.choice import plan_text
from report.core.records.record import Environment, Host
from report.core.records.store import Stored
from report.core.text.escape import markdown
from report.core.text.format import quantity_text
from report.evidence.ceilings import in_binary
from report.evidence.runs import Run, labels
from report.instruments import gates
from report.paper.findings import Figure, Findings, Inputs
from report.paper.plots import dot_series
from report.paper.tables import Cell, Content, Table, table_of
from report.paper.values import declare
from report.quantity.evaluation import number, point
from report.quantity.expression import Quantity, absent, exact

#: So many machines have room in the figure.
DRAWN: Final = 40
#: Two numbers need no figure.
_FEWEST: Final = 3
#: Where a machine stands of which nothing is known: below all others.
_UNKNOWN: Final = float("-inf")
#: Ceilings that studies measure: as pages name them, and as the table of all machines does.
_CEILINGS: Final = {
    "matrix_product": ("Matrix product", "Arithmetic (GFLOP/s)"),
    "copy": ("Copy bandwidth", "Memory (GB/s)"),
}
#: What the site's list of machines says of each.
_SHOWN: Final = ("Device", "Cores and threads", "Memory", "Framework", "Operating system")

AnyRun = TypeVar("AnyRun", bound=Run)


def setup(runs: Sequence[Run]) -> Table:
    """What the records of ``runs`` say of their machines; no row of what none of them says."""
    columns = {
        run.label: {**properties(run.stored.record.environment), **_measuring(run.stored)}
        for run in runs
    }
    names = next(iter(columns.values()), ("No run was made.",))
    rows = [
        {"Property": name} | {label: found[name] for label, found in columns.items()}
        for name in names
        if not columns or any(not isinstance(found[name], Missing) for found in columns.values())
    ]
    files = tuple(own.file for run in runs for own in run.stored.runs)
    return replace(table_of("tbl-setup", rows, wide=True), sources=files)


def properties(environment: Environment) -> dict[str, Cell]:
    """A machine and its software, as papers and pages print them."""
    cpu, gpu, host = environment.cpu, environment.gpu, environment.host
    unknown = Missing("not recorded")
    memory = f"{environment.memory_bytes / 2**30:.1f} GiB"
    tf32 = "TF32 allowed" if gpu and environment.precision.cudnn_tf32 else "no TF32"
    return {
        "Device": f"{gpu.model}, beside {cpu.model}" if gpu else cpu.model,
        "Cores and threads": f"{cpu.cores_available} cores available, {environment.threads} used",
        "Memory": f"{gpu.memory_bytes / 2**30:.1f} GiB, beside {memory}" if gpu else memory,
        "Identity": (host and _identity(host)) or unknown,
        "Caches": (host and _caches(host)) or unknown,
        "C library": (host and host.c_library) or unknown,
        "Vector extensions": ", ".join(cpu.vector_extensions) or "none",
        "Frequency governor": cpu.governor or unknown,
        "Operating system": environment.operating_system,
        "Framework": f"PyTorch {environment.torch.version}, Python {environment.python}",
        "Driver, CUDA, cuDNN": f"{gpu.driver or 'unknown'}, {gpu.cuda}, {gpu.cudnn or 'none'}"
        if gpu
        else Missing(environment.missing.get("gpu", unknown.reason)),
        "Arithmetic": f"{environment.precision.default_dtype}, {tf32}",
    }


def _identity(host: Host) -> str:
    numbers = {"family": host.family, "model": host.model, "stepping": host.stepping}
    parts = [f"{name} {number}" for name, number in numbers.items() if number is not None]
    virtual = host.virtualisation not in (None, "none")
    return ", ".join([*parts, *([f"virtual ({host.virtualisation})"] if virtual else [])])


def _caches(host: Host) -> str:
    data = (cache for cache in host.caches if cache.kind != "instruction")
    return ", ".join(f"L{cache.level} {in_binary(cache.size_bytes)}" for cache in data)


def _measuring(stored: Stored) -> dict[str, Cell]:
    """How often cases were measured, and how many of those times something else disturbed."""
    record, protocol = stored.record, stored.record.protocol
    processes = [f"{n} ({policy})" for policy, n in protocol.processes.items()]
    disturbed = gates.disturbed(run.record for run in stored.runs)
    return {
        "Processes planned": ", ".join(processes) or Missing("not recorded"),
        "Samples a case": f"{protocol.minimum_samples} to {protocol.maximum_samples}, "
        f"after {protocol.warmup_calls} warm-up calls",
        "Disturbed": "{} of {}".format(*disturbed) if disturbed else Missing("not monitored"),
        "Measured": f"{record.started[:10]}, {plan_text(stored)}",
    }


def machines(records: Iterable[Stored]) -> list[dict[str, Any]]:
    """What the site says of the machine of each record, with the ceilings measured on it."""
    return [_of_site(stored, stored.record.environment) for stored in records]


def _of_site(stored: Stored, environment: Environment) -> dict[str, Any]:
    run, facts, ceilings = Run(stored, environment.label), properties(environment), {}
    for operation, (words, _) in _CEILINGS.items():
        rate = run.peak_rate(operation)
        best = number(rate)
        known = "" if isinstance(best, Missing) else quantity_text(best, str(rate.unit))
        ceilings[words] = known
    return {
        "key": environment.key,
        "label": environment.label,
        "facts": [(name, facts[name]) for name in _SHOWN],
        "ceilings": ceilings,
        "measured": max(each.record.started for each in stored.runs)[:10],
    }


@dataclass(frozen=True)
class Comparison(Generic[AnyRun]):
    """What a study compares of machines: the ``measure`` of a run, under a ``heading`` of tables.

    It orders the machines, and is drawn.  ``reference`` is the number that separates a gain from a
    loss, such as 1 of a ratio.
    """

    run: Callable[[Stored, str], AnyRun]
    heading: str = ""
    measure: Callable[[AnyRun], Quantity] = lambda run: absent("measure", "1", "none is named")
    reference: float | None = None


class _Machine(NamedTuple):
    """A machine: its record, its cells by heading, and what is compared of it."""

    name: str
    file: str
    cells: dict[str, Content]
    measured: Quantity

    @property
    def height(self) -> float:
        """Its place among all machines."""
        found = point(self.measured)
        return _UNKNOWN if isinstance(found, Missing) else found


def with_all_machines(
    findings: Findings, everything: Inputs, detailed: Inputs, comparison: Comparison[Any]
) -> Findings:
    """``findings`` of the machines in ``detailed``, with what compares those of ``everything``."""
    named = zip(everything.records, labels(everything.records), strict=True)
    machines = sorted((_machine(*each, comparison) for each in named), key=lambda m: -m.height)
    known = [machine for machine in machines if machine.height > _UNKNOWN]
    in_roles = {stored.file for stored in detailed.records}
    few = [machine for machine in machines if machine.file in in_roles]
    file, *files = (machine.file for machine in machines)
    counts = {"machines": machines, "machines_detailed": few, "machines_known": known}
    quantities = {
        id: exact("records of the paper", "1", len(each), file, tuple(files))
        for id, each in counts.items()
    }
    ends = {"highest": known[0], "lowest": known[-1]} if known else {}
    measured = {f"machines_{end}": machine.measured for end, machine in ends.items()}
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    table = replace(table, sources=everything.files)
    figures = {}
    if len(known) >= _FEWEST:
        figures["fig-machines"] = _figure(known, few, comparison, table.columns[-1].scale.unit)
    compared = {
        **{end: markdown(machine.name) for end, machine in ends.items()},
        "left_out": len(known) > DRAWN,
        "detailed": [markdown(machine.name) for machine in few],
    }
    values = {id: declare(id, each) for id, each in (quantities | measured).items()}
    return replace(
        findings,
        values={**findings.values, **values},
        tables={**findings.tables, table.id: table},
        figures={**findings.figures, **figures},
        facts={**findings.facts, "comparison": compared},
    )


def _machine(stored: Stored, name: str, comparison: Comparison[Any]) -> _Machine:
    """A machine whose measure is missing where its record does not fit the study."""
    # One name for all, so that what they lack is one note of the table and not one each.
    run, environment = comparison.run(stored, "this machine"), stored.record.environment
    cells: dict[str, Content] = {
        "Machine": name.replace(environment.threads_text, "", 1),
        "Processor or GPU": environment.gpu.model if environment.gpu else environment.cpu.model,
        "Threads": environment.threads,
    }
    # Without intervals, which a paper about the machine has.
    for operation, (_, heading) in _CEILINGS.items():
        rate = run.peak_rate(operation)
        best = point(rate)
        cells[heading] = best if isinstance(best, Missing) else exact(heading, str(rate.unit), best)
    content: Content
    try:
        content = measured = comparison.measure(run)
    except StudyError as error:
        content, measured = Missing(str(error)), absent("measure", "1", str(error))
    if comparison.heading:
        cells[comparison.heading] = content
    return _Machine(name, stored.file, cells, measured)


def _figure(
    known: Sequence[_Machine], few: Sequence[_Machine], comparison: Comparison[Any], unit: str
) -> Figure:
    """A row for each machine in order; of too many, those in detail and at both ends."""
    ends = (m for pair in zip(known, reversed(known), strict=True) for m in pair)
    first = dict.fromkeys(m.name for m in (*(m for m in known if m in few), *ends))
    drawn = [m for m in known if m.name in [*first][:DRAWN]]
    panel = Dots(
        tuple(machine.name for machine in drawn),
        (dot_series("", [machine.measured for machine in drawn], unit),),
        comparison.heading,
        reference=comparison.reference,
        log=all(machine.height > 0 for machine in known),
    )
    place = f"{__name__}._figure"
    return Figure("fig-machines", Drawing((panel,), height=panel.height, place=place))
