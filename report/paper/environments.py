"""The table of environments: what each run was made with, and what the source tells of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from report.evidence.peaks import in_binary
from report.evidence.runs import Run
from report.instruments import gates
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.records.imported import ImportedRecord, StoredImport
from report.records.record import Environment, Protocol
from report.records.store import Stored

NOT_PUBLISHED: Final = Missing("not given in the source")


def setup(
    inputs: Inputs,
    all_runs: Sequence[Run],
    reported: Mapping[str, Cell] | None = None,
    *,
    source: bool = True,
) -> Table:
    """The environments of the records, and what the source tells of its own.

    ``reported`` are further cells of the source by the names of the rows.

    Without ``source`` its column is left out, for papers whose prose says what is known of it.
    Where one of them has a GPU, the processors beside which GPUs run are described, too: cores and
    vector extensions are theirs.
    """
    theirs = inputs.reported
    published = source and bool(theirs.source)
    hosts = any(run.stored.record.environment.gpu for run in all_runs)
    known = any(run.stored.record.environment.host for run in all_runs)
    own = [_environment_rows(run.stored, hosts, known) for run in all_runs]
    printed: dict[str, Cell] = {"Device": theirs.device, "Framework": theirs.software}
    printed |= reported or {}
    names = list(own[0]) if own else list(printed)
    columns = (Column("Property"), *(Column(run.label) for run in all_runs))
    return Table(
        "tbl-setup",
        "The environments: as the records hold them"
        + (", and as the source reports its own." if source else "."),
        (*columns, Column("Source")) if published else columns,
        tuple(
            (
                name,
                *(rows[name] for rows in own),
                *([printed.get(name, NOT_PUBLISHED)] if published else []),
            )
            for name in names
        ),
        sources=tuple(filter(None, (inputs.reported_file, *(run.file for run in all_runs)))),
        wide=True,
    )


#: The columns of the table of imports that are often the same in all rows.
_PROVENANCE: Final = ("Measured by", "Licence")


def imported_setup(imported: Sequence[StoredImport]) -> Table:
    """What others measured: a line for each record, sorted, with what was the same in all cases.

    Who measured and under which licence stands in a note where it is the same in all.
    """
    rows = sorted((_imported_row(each.record) for each in imported), key=_sorting)
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


def _sorting(row: Mapping[str, Cell]) -> list[str]:
    return [str(cell) for cell in row.values()]


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


def _environment_rows(stored: Stored, hosts: bool, known: bool) -> dict[str, Cell]:
    """What a record says; rows of ``hosts`` beside GPUs and of what ``known`` records tell."""
    record = stored.record
    environment, protocol = record.environment, record.protocol
    gpu, cpu, torch = environment.gpu, environment.cpu, environment.torch
    memory = gpu.memory_bytes if gpu else environment.memory_bytes
    return {
        "Device": gpu.model if gpu else cpu.model,
        **({"Host processor": cpu.model} if hosts else {}),
        "Cores and threads": f"{cpu.cores_available} cores available, {environment.threads} used",
        "Memory": _size(memory),
        **({"Host memory": _size(environment.memory_bytes)} if hosts else {}),
        **(_identity(environment) if known else {}),
        "Vector extensions": ", ".join(cpu.vector_extensions) or "none",
        "Frequency governor": cpu.governor or _missing(environment, "cpu.governor"),
        "Load average": _load(environment),
        "Operating system": environment.operating_system,
        "Framework": f"PyTorch {torch.version}, Python {environment.python}",
        "Driver, CUDA, cuDNN": _cuda(environment),
        "Arithmetic": _arithmetic(environment),
        **({"Processes a case": _processes(protocol)} if known else {}),
        "Samples a case": f"{protocol.minimum_samples} to {protocol.maximum_samples}, "
        f"after {protocol.warmup_calls} warm-up calls",
        **({"Disturbed": _disturbed(stored)} if known else {}),
        "Measured": f"{record.started[:10]}, {protocol.plan} plan",
    }


def _identity(environment: Environment) -> dict[str, Cell]:
    host = environment.host
    if host is None:
        return dict.fromkeys(("Identity", "Caches", "C library"), Missing("not recorded"))
    numbers = {"family": host.family, "model": host.model, "stepping": host.stepping}
    parts = [f"{name} {number}" for name, number in numbers.items() if number is not None]
    if host.virtualisation not in (None, "none"):
        parts.append(f"virtual ({host.virtualisation})")
    caches = [
        f"L{cache.level} {in_binary(cache.size_bytes)}"
        for cache in host.caches
        if cache.kind != "instruction"
    ]
    return {
        "Identity": ", ".join(parts) or Missing("not recorded"),
        "Caches": ", ".join(caches) or Missing("not recorded"),
        "C library": host.c_library or Missing("not recorded"),
    }


def _processes(protocol: Protocol) -> Cell:
    """How many processes measured each case with which memory policy."""
    found = [f"{n} ({policy})" for policy, n in protocol.processes.items()]
    return ", ".join(found) or Missing("not recorded")


def _disturbed(stored: Stored) -> Cell:
    """How many of the watched measurements of a case something else disturbed, in all runs."""
    found = gates.disturbed(run.record for run in stored.runs)
    return Missing("not monitored") if found is None else f"{found[0]} of {found[1]}"


def _size(memory: int) -> str:
    return f"{memory / 2**30:.1f} GiB"


def _missing(environment: Environment, field: str) -> Missing:
    return Missing(environment.missing.get(field, "not recorded"))


def _load(environment: Environment) -> Cell:
    before, after = environment.load_before, environment.load_after
    if before is None or after is None:
        return _missing(environment, "load_before" if before is None else "load_after")
    return f"{before:.2f} before, {after:.2f} after"


def _cuda(environment: Environment) -> Cell:
    gpu = environment.gpu
    if gpu is None:
        return _missing(environment, "gpu")
    return f"{gpu.driver or 'unknown'}, {gpu.cuda}, {gpu.cudnn or 'none'}"


def _arithmetic(environment: Environment) -> str:
    precision = environment.precision
    tf32 = "TF32 allowed" if environment.gpu and precision.cudnn_tf32 else "no TF32"
    return f"{precision.default_dtype}, {tf32}"
