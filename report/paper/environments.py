"""The tables of environments: what each run was made with, and what others say of theirs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from report.evidence.peaks import in_binary
from report.evidence.runs import Run
from report.instruments import gates
from report.missing import Missing
from report.paper.tables import Cell, Column, Table
from report.records.imported import ImportedRecord, StoredImport
from report.records.record import Host
from report.records.store import Stored


def setup(runs: Sequence[Run]) -> Table:
    """What the records of ``runs`` say of their machines; no row of what none of them says."""
    rows = [(name, *(get(run.stored) for run in runs)) for name, get in _ROWS.items()]
    return Table(
        "tbl-setup",
        "The environments of the runs, as their records hold them.",
        (Column("Property"), *(Column(run.label) for run in runs)),
        tuple(row for row in rows if not runs or not all(map(_is_missing, row[1:]))),
        sources=tuple(run.file for run in runs),
        wide=True,
    )


def _is_missing(cell: Cell) -> bool:
    return isinstance(cell, Missing)


def _device(stored: Stored) -> str:
    environment = stored.record.environment
    cpu, gpu = environment.cpu.model, environment.gpu
    return f"{gpu.model}, beside {cpu}" if gpu else cpu


def _memory(stored: Stored) -> str:
    environment = stored.record.environment
    own = f"{environment.memory_bytes / 2**30:.1f} GiB"
    gpu = environment.gpu
    return f"{gpu.memory_bytes / 2**30:.1f} GiB, beside {own}" if gpu else own


def _of_host(get: Callable[[Host], str | None]) -> Callable[[Stored], Cell]:
    """What ``get`` finds of the machine's identity, in records that have one."""

    def found(stored: Stored) -> Cell:
        host = stored.record.environment.host
        return (host and get(host)) or Missing("not recorded")

    return found


def _identity(host: Host) -> str:
    numbers = {"family": host.family, "model": host.model, "stepping": host.stepping}
    parts = [f"{name} {number}" for name, number in numbers.items() if number is not None]
    virtual = host.virtualisation not in (None, "none")
    return ", ".join([*parts, *([f"virtual ({host.virtualisation})"] if virtual else [])])


def _caches(host: Host) -> str:
    data = (cache for cache in host.caches if cache.kind != "instruction")
    return ", ".join(f"L{cache.level} {in_binary(cache.size_bytes)}" for cache in data)


def _cuda(stored: Stored) -> Cell:
    environment = stored.record.environment
    gpu = environment.gpu
    if gpu is None:
        return Missing(environment.missing.get("gpu", "not recorded"))
    return f"{gpu.driver or 'unknown'}, {gpu.cuda}, {gpu.cudnn or 'none'}"


def _arithmetic(stored: Stored) -> str:
    environment = stored.record.environment
    tf32 = "TF32 allowed" if environment.gpu and environment.precision.cudnn_tf32 else "no TF32"
    return f"{environment.precision.default_dtype}, {tf32}"


def _processes(stored: Stored) -> Cell:
    """How many processes measured each case with which memory policy."""
    found = [f"{n} ({policy})" for policy, n in stored.record.protocol.processes.items()]
    return ", ".join(found) or Missing("not recorded")


def _disturbed(stored: Stored) -> Cell:
    """How many of the watched measurements of a case something else disturbed, in all runs."""
    found = gates.disturbed(run.record for run in stored.runs)
    return Missing("not monitored") if found is None else f"{found[0]} of {found[1]}"


_ROWS: Final[Mapping[str, Callable[[Stored], Cell]]] = {
    "Device": _device,
    "Cores and threads": lambda s: (
        f"{s.record.environment.cpu.cores_available} cores available, "
        f"{s.record.environment.threads} used"
    ),
    "Memory": _memory,
    "Identity": _of_host(_identity),
    "Caches": _of_host(_caches),
    "C library": _of_host(lambda host: host.c_library),
    "Vector extensions": lambda s: ", ".join(s.record.environment.cpu.vector_extensions) or "none",
    "Frequency governor": lambda s: s.record.environment.cpu.governor or Missing("not recorded"),
    "Operating system": lambda s: s.record.environment.operating_system,
    "Framework": lambda s: (
        f"PyTorch {s.record.environment.torch.version}, Python {s.record.environment.python}"
    ),
    "Driver, CUDA, cuDNN": _cuda,
    "Arithmetic": _arithmetic,
    "Processes a case": _processes,
    "Samples a case": lambda s: (
        f"{s.record.protocol.minimum_samples} to {s.record.protocol.maximum_samples}, "
        f"after {s.record.protocol.warmup_calls} warm-up calls"
    ),
    "Disturbed": _disturbed,
    "Measured": lambda s: f"{s.record.started[:10]}, {s.record.protocol.plan} plan",
}


#: The columns of the table of imports that are often the same in all rows.
_PROVENANCE: Final = ("Measured by", "Licence")


def imported_setup(imported: Sequence[StoredImport]) -> Table:
    """What others measured: a line for each record, sorted, with what was the same in all cases.

    Who measured and under which licence stands in a note where it is the same in all.
    """
    rows = sorted(
        (_imported_row(each.record) for each in imported), key=lambda row: [*map(str, row.values())]
    )
    cells = {name: {str(row[name]): row[name] for row in rows} for row in rows for name in row}
    common = [name for name in _PROVENANCE if len(cells.get(name, ())) == 1]
    shown = [name for name in cells if name not in common]
    return Table(
        "tbl-imported",
        "What others measured and published.",
        tuple(Column(name, "1" if name == "Cases" else "") for name in shown),
        tuple(tuple(row[name] for name in shown) for row in rows),
        tuple(f"{name}: {', '.join(cells[name])}." for name in common),
        sources=tuple(each.file for each in imported),
        wide=True,
    )


def _imported_row(record: ImportedRecord) -> dict[str, Cell]:
    environment, origin = record.environment, record.origin
    conditions = ", ".join(f"{name} {level}" for name, level in record.conditions.items())
    return {
        "Device": environment.model,
        "Software": environment.framework or Missing(record.missing["framework"]),
        "CUDA": environment.cuda or Missing(record.missing.get("cuda", "not recorded")),
        "Conditions": conditions or Missing("the file states none"),
        "Cases": len(record.cases),
        "Measured by": f"{origin.author}, with {origin.instrument}",
        "Licence": origin.licence,
    }
