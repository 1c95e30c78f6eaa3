"""The table of environments: what each run was made with, as its record holds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from report.evidence.ceilings import in_binary
from report.evidence.runs import Run
from report.instruments import gates
from report.missing import Missing
from report.paper.tables import Cell, Table, table_of
from report.records.record import Environment, Host
from report.records.store import Stored


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
        "Measured": f"{record.started[:10]}, {protocol.plan} plan",
    }


def _identity(host: Host) -> str:
    numbers = {"family": host.family, "model": host.model, "stepping": host.stepping}
    parts = [f"{name} {number}" for name, number in numbers.items() if number is not None]
    virtual = host.virtualisation not in (None, "none")
    return ", ".join([*parts, *([f"virtual ({host.virtualisation})"] if virtual else [])])


def _caches(host: Host) -> str:
    data = (cache for cache in host.caches if cache.kind != "instruction")
    return ", ".join(f"L{cache.level} {in_binary(cache.size_bytes)}" for cache in data)
