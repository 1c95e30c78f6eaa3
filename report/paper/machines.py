"""Machines as papers and pages print them: the machines of one paper, and a comparison of many.

A study's ``MachineComparison`` names the measure that is compared.  By default, only measured peak
rates are tabulated.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, Final, Generic, NamedTuple, TypeVar

from figures.panels import Dots, Drawing
from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.choice import plan_text
from report.core.records.record import Environment, Record
from report.core.records.store import Stored
from report.core.text.escape import markdown
from report.core.text.format import quantity_text
from report.evidence.ceilings import format_bytes
from report.evidence.runs import Run, device_labels, machine_id
from report.instruments import gates
from report.paper.findings import Figure, Findings, Inputs
from report.paper.plots import dot_series
from report.paper.tables import Content, Table, TableCell, table_of
from report.paper.values import declare
from report.quantity.evaluation import point_estimate, printed_number
from report.quantity.expression import Quantity, exact_number, missing_number

#: Largest number of machines that the figure draws.
MOST_DRAWN: Final = 40
#: Smallest number of machines that a sentence compares.
_FEWEST_IN_SENTENCE: Final = 3
#: Smallest number of machines that a figure compares; the table shows fewer machines better.
_FEWEST_DRAWN: Final = 6
#: Operation with a measured peak → name on pages, and heading in the table of all machines.
_MEASURED_PEAKS: Final = {
    "matrix_product": ("Matrix product", "Arithmetic (GFLOP/s)"),
    "copy": ("Copy bandwidth", "Memory (GB/s)"),
}
#: Properties (see ``properties``) that the site's list of machines shows.
_PROPERTIES_ON_SITE: Final = (
    "Device", "Cores and threads", "Memory", "Framework", "Operating system"
)  # fmt: skip

AnyRun = TypeVar("AnyRun", bound=Run)


def short_name(run: Run) -> str:
    """Return the name of a run's device as Markdown."""
    return markdown(run.short_label)


def setup(runs: Sequence[Run]) -> Table:
    """Tabulate the machines and settings of ``runs``, without properties that no record has."""
    cells_by_property: dict[str, dict[str, Content]] = {}
    for run in runs:
        described = properties(run.stored.record.environment) | _sampling(run.stored)
        # Labels may end with the machine's key; the time of the run says more to readers.
        started = run.stored.record.started[:16].replace("T", " ")
        label = run.label.replace(f"({run.key})", f"(run of {started})")
        for name, cell in described.items():
            cells_by_property.setdefault(name, {})[label] = cell
    rows: list[dict[str, Content]] = [] if runs else [{"Property": "No run was made."}]
    for name, cells in cells_by_property.items():
        if not all(isinstance(cell, Missing) for cell in cells.values()):
            rows.append({"Property": name, **cells})
    files = tuple(pooled.file for run in runs for pooled in run.stored.runs)
    return replace(table_of("tbl-setup", rows, wide=True), sources=files)


def properties(environment: Environment) -> dict[str, TableCell]:
    """Describe a machine and its software by the properties that papers and pages print."""
    cpu, gpu, host = environment.cpu, environment.gpu, environment.host
    unknown = Missing("not recorded")
    device, memory = cpu.model, f"{environment.memory_bytes / 2**30:.1f} GiB"
    driver: TableCell = Missing(environment.missing.get("gpu", unknown.reason))
    if gpu:
        device = f"{gpu.model}, beside {cpu.model}"
        memory = f"{gpu.memory_bytes / 2**30:.1f} GiB, beside {memory}"
        driver = f"{gpu.driver or 'unknown'}, {gpu.cuda}, {gpu.cudnn or 'none'}"
    identity, caches = list[str](), list[str]()
    if host:
        numbers = {"family": host.family, "model": host.model, "stepping": host.stepping}
        identity = [f"{name} {number}" for name, number in numbers.items() if number is not None]
        if host.virtualisation not in (None, "none"):
            identity.append(f"virtual ({host.virtualisation})")
        for cache in host.caches:
            if cache.kind != "instruction":
                caches.append(f"L{cache.level} {format_bytes(cache.size_bytes)}")
    tf32 = "TF32 allowed" if gpu and environment.precision.cudnn_tf32 else "no TF32"
    return {
        "Device": device,
        "Cores and threads": f"{cpu.cores_available} cores available, {environment.threads} used",
        "Memory": memory,
        "Identity": ", ".join(identity) or unknown,
        "Caches": ", ".join(caches) or unknown,
        "C library": (host and host.c_library) or unknown,
        "Vector extensions": ", ".join(cpu.vector_extensions) or "none",
        "Frequency governor": cpu.governor or unknown,
        "Operating system": environment.operating_system,
        "Framework": f"PyTorch {environment.torch.version}, Python {environment.python}",
        "Driver, CUDA, cuDNN": driver,
        "Arithmetic": f"{environment.precision.default_dtype}, {tf32}",
    }


def _sampling(stored: Stored) -> dict[str, TableCell]:
    """Describe how a record was sampled, and count its disturbed measurements."""
    record, protocol = stored.record, stored.record.protocol
    processes = [f"{count} ({policy})" for policy, count in protocol.processes.items()]
    return {
        "Processes planned": ", ".join(processes) or Missing("not recorded"),
        "Samples a case": f"{protocol.minimum_samples} to {protocol.maximum_samples}, "
        f"after {protocol.warmup_calls} warm-up calls",
        "Disturbed": disturbed_count([run.record for run in stored.runs]),
        "Measured": f"{record.started[:10]}, {plan_text(stored)}",
    }


def disturbed_count(records: Sequence[Record]) -> TableCell:
    """Print the share of disturbed timings, ``3 of 120``; of all rounds if none was monitored."""
    if counts := gates.count_disturbed(records):
        disturbed_timings, timings = counts
        return f"{disturbed_timings} of {timings}"
    rounds = [*chain.from_iterable(case.rounds for record in records for case in record.cases)]
    if disturbed := sum(round_.disturbance is not None for round_ in rounds):
        return f"{disturbed:,} of {len(rounds):,}, none timed"
    return Missing("not monitored")


def machines(records: Iterable[Stored]) -> list[dict[str, Any]]:
    """Describe the machine of each record for the site, with its measured peak rates."""
    entries = []
    for stored in records:
        environment, ceilings = stored.record.environment, {}
        run, facts = Run(stored, environment.label), properties(environment)
        for operation, (name_on_page, _) in _MEASURED_PEAKS.items():
            rate = run.peak_rate(operation)
            peak = printed_number(rate)
            text = "" if isinstance(peak, Missing) else quantity_text(peak, str(rate.unit))
            ceilings[name_on_page] = text
        entries.append({
            "id": machine_id(environment),
            "label": environment.label,
            "facts": [(name, facts[name]) for name in _PROPERTIES_ON_SITE],
            "ceilings": ceilings,
            "measured": max(part.record.started for part in stored.runs)[:10],
        })  # fmt: skip
    return entries


@dataclass(frozen=True)
class MachineComparison(Generic[AnyRun]):
    """How a study compares machines: by the ``measure`` of a run.

    ``run`` makes a run from a record and a label.  ``heading`` is the column of the measure in
    tables, and ``meaning`` defines it in reports, as in "the (meaning)".  ``reference`` is the
    number that separates a gain from a loss, such as 1 for a ratio.
    """

    run: Callable[[Stored, str], AnyRun]
    heading: str = ""
    measure: Callable[[AnyRun], Quantity] | None = None
    meaning: str = ""
    reference: float | None = None


class MeasuredMachine(NamedTuple):
    """A machine: name, record file, cells of its table row by heading, and compared measure."""

    name: str
    file: str
    cells: dict[str, Content]
    measured: Quantity

    @property
    def sort_key(self) -> float:
        """The compared measure; below all numbers if it is missing."""
        value = point_estimate(self.measured)
        return -math.inf if isinstance(value, Missing) else value


def with_all_machines(
    findings: Findings, everything: Inputs, detailed: Inputs, comparison: MachineComparison[Any]
) -> Findings:
    """Add a comparison of all machines of ``everything`` to ``findings``.

    ``detailed`` are the data of the machines that the paper treats in detail.  Of several records
    of one machine, only the first is compared.
    """
    by_machine: dict[str, Stored] = {}
    for stored in (*detailed.records, *everything.records):
        by_machine.setdefault(machine_id(stored.record.environment), stored)
    records, machines = tuple(by_machine.values()), []
    for stored, label in zip(records, device_labels(records), strict=True):
        # Labels may end with the machine's key; the day of the run says more to readers.
        key, day = stored.record.environment.key, stored.record.started[:10]
        name = label.replace(f"({key})", f"(run of {day})")
        machines.append(evaluate_machine(stored, name, comparison))
    machines.sort(key=attrgetter("sort_key"), reverse=True)
    known = [machine for machine in machines if machine.sort_key > -math.inf]
    detailed_files = {stored.file for stored in detailed.records}
    in_detail = [machine for machine in machines if machine.file in detailed_files]
    first, *others = (machine.file for machine in machines)
    quantities: dict[str, Quantity] = {}
    counted = {"machines": machines, "machines_detailed": in_detail, "machines_known": known}
    for id, group in counted.items():
        quantities[id] = exact_number("records of the paper", "1", len(group), first, tuple(others))
    compared: dict[str, Any] = {
        "left_out": len(known) > MOST_DRAWN,
        "ordered": len(known) >= _FEWEST_IN_SENTENCE,
        "detailed": [markdown(machine.name) for machine in in_detail],
    }
    extremes = {"highest": known[0], "lowest": known[-1]} if known else {}
    for extreme, machine in extremes.items():
        quantities[f"machines_{extreme}"] = machine.measured
        compared[extreme] = markdown(machine.name)
    table = table_of("tbl-machines", [machine.cells for machine in machines], wide=True)
    figures = {**findings.figures}
    if len(known) >= _FEWEST_DRAWN:
        figures["fig-machines"] = Figure("fig-machines", drawing_of(known, in_detail, comparison))
    return replace(
        findings,
        values={**findings.values, **{id: declare(id, q) for id, q in quantities.items()}},
        tables={**findings.tables, table.id: replace(table, sources=everything.files)},
        figures=figures,
        facts={**findings.facts, "comparison": compared},
    )


def evaluate_machine(
    stored: Stored, name: str, comparison: MachineComparison[Any]
) -> MeasuredMachine:
    """Evaluate one machine; the measure is missing if the record does not fit the study."""
    # All runs get the same label, so that equal reasons of missing cells share one note.
    run, environment = comparison.run(stored, "this machine"), stored.record.environment
    cells: dict[str, Content] = {
        "Machine": name.replace(environment.threads_text, "", 1),
        "Processor or GPU": environment.gpu.model if environment.gpu else environment.cpu.model,
        "Threads": environment.threads,
    }
    # Peak rates are shown without intervals, which papers about the machine print.
    for operation, (_, heading) in _MEASURED_PEAKS.items():
        rate = run.peak_rate(operation)
        peak = point_estimate(rate)
        cells[heading] = (
            peak if isinstance(peak, Missing) else exact_number(heading, str(rate.unit), peak)
        )
    measured: Quantity = missing_number("measure", "1", "none is named")
    try:
        if comparison.measure:
            measured = comparison.measure(run)
    except StudyError as error:
        measured = missing_number("measure", "1", str(error))
    if comparison.heading:
        cells[comparison.heading] = measured
    return MeasuredMachine(name, stored.file, cells, measured)


def drawing_of(
    known: Sequence[MeasuredMachine],
    in_detail: Sequence[MeasuredMachine],
    comparison: MachineComparison[Any],
) -> Drawing:
    """Draw a row per machine; of more than ``MOST_DRAWN``, those ``in_detail`` and the extremes."""
    ranked = [machine for machine in known if machine in in_detail]
    for highest_and_lowest in zip(known, reversed(known), strict=True):
        ranked += highest_and_lowest
    names = [*dict.fromkeys(machine.name for machine in ranked)][:MOST_DRAWN]
    drawn = [machine for machine in known if machine.name in names]
    unit = str(known[0].measured.unit)
    panel = Dots(
        tuple(machine.name for machine in drawn),
        (dot_series("", [machine.measured for machine in drawn], unit),),
        comparison.heading,
        reference=comparison.reference,
        log=all(machine.sort_key > 0 for machine in drawn),
    )
    return Drawing((panel,), height=panel.height, place=f"{__name__}.drawing_of")
