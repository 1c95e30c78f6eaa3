"""The machines of a study in words, for the page that compares machines over all studies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from report.evidence.peaks import in_binary
from report.evidence.runs import Run
from report.missing import Missing
from report.quantity.evaluation import number
from report.records.record import Environment
from report.records.store import Stored
from report.text.format import quantity_text

#: Ceilings that studies measure, as headings name them.
CEILINGS: Final = {"matrix_product": "Matrix product", "copy": "Copy bandwidth"}


def machines(records: Iterable[Stored]) -> list[dict[str, Any]]:
    """What each record says of its machine, with the ceilings that were measured on it."""
    return [_machine(stored) for stored in records]


def _machine(stored: Stored) -> dict[str, Any]:
    environment = stored.record.environment
    run = Run(stored, environment.label)
    return {
        "key": environment.key,
        "label": environment.label,
        **facts_of(environment),
        "ceilings": {words: _ceiling(run, name) for name, words in CEILINGS.items()},
        "measured": max(each.record.started for each in stored.runs)[:10],
        "files": [file for each in stored.runs for file in each.files],
    }


def facts_of(environment: Environment) -> dict[str, str]:
    """The machine and its software, as pages print them; ``host`` is the processor beside a GPU."""
    gpu, cpu = environment.gpu, environment.cpu
    return {
        "device": gpu.model if gpu else cpu.model,
        "host": cpu.model if gpu else "",
        "cores": str(cpu.cores_available),
        "threads": str(environment.threads),
        "memory": in_binary(gpu.memory_bytes if gpu else environment.memory_bytes),
        "software": f"PyTorch {environment.torch.version}, Python {environment.python}",
        "system": environment.operating_system,
    }


def _ceiling(run: Run, operation: str) -> str:
    """The best measured rate in print; nothing where none was measured."""
    quantity = run.peak_rate(operation)
    found = number(quantity)
    return "" if isinstance(found, Missing) else quantity_text(found, str(quantity.unit))
