"""The kernels that a GPU ran in one call, one by one, from what Nsight Compute printed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.evidence.runs import Factors, Run
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import attachment_name, unpack
from report.instruments.counters.ncu import KernelWork, executed_flops, operations
from report.instruments.counters.ncu_metrics import Operation
from report.missing import Missing
from report.paper.findings import Inputs
from report.paper.tables import Cell, Column, Table
from report.theory.terms import Tile

#: The file beside a record that holds what Nsight Compute printed.
ATTACHMENT: Final = attachment_name(ncu_logs.TOOL)

_NAME_WIDTH: Final = 60
_TILE: Final = re.compile(r"_tilesize(\d+)x(\d+)x(\d+)_")
_NOT_COUNTED: Final = Missing("Nsight Compute gave no number for it")


@dataclass(frozen=True)
class Kernel:
    """All launches of one kernel in one call: how many, and what the cores did in them."""

    work: KernelWork
    additions: int | None
    multiplications: int | None
    multiply_adds: int | None

    @property
    def tensor(self) -> int | None:
        """FLOPs of the tensor cores."""
        counts = [count for (unit, _), count in self.work.flops.items() if unit == "tensor_core"]
        return sum(counts) if counts else None


def kernels_of(inputs: Inputs, run: Run, factors: Factors) -> tuple[Kernel, ...]:
    """The kernels of one call of the case with these factors, in the order of their first launch.

    None where the run has no table of them.
    """
    content = inputs.attachments.get(run.file, {}).get(ATTACHMENT)
    index = _place(run, factors)
    if content is None or index is None:
        return ()
    place = f"data/{run.file}, {ATTACHMENT}"
    logs = _logs(content, place)
    if index not in logs:
        return ()
    log = ncu_logs.read_log(logs[index], f"{place}, case {index}")
    if "cuda_core" in log.distrusted:
        return ()
    rows = log.calls[0]

    def count(name: str, operation: Operation) -> int | None:
        return operations([row for row in rows if row.kernel == name], log.plan, operation)

    return tuple(
        Kernel(
            work,
            count(work.name, "add"),
            count(work.name, "multiply"),
            count(work.name, "multiply_add"),
        )
        for work in executed_flops(rows, log.plan).kernels
    )


@lru_cache(maxsize=2)
def _logs(content: bytes, place: str) -> Mapping[int, Mapping[str, str]]:
    """What was kept of each case; a paper asks for one after the other."""
    return {item.case: item.logs for item in unpack(content, ncu_logs.TOOL, place)}


def tile_of(kernel: str) -> Tile | None:
    """The tile that the name of a kernel tells, as in ``…_tilesize128x32x8_stage3_…``."""
    found = _TILE.search(kernel)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3]))


def _place(run: Run, factors: Factors) -> int | None:
    """The place of a case in the record."""
    cases = enumerate(run.stored.record.cases)
    return next((index for index, case in cases if case.factors == factors), None)


def short_name(kernel: str) -> str:
    """A kernel's name without its result and its parameters, and not too long for a table."""
    depth, end = 0, len(kernel)
    for index, mark in enumerate(kernel):
        depth += (mark == "<") - (mark == ">")
        if mark == "(" and depth == 0:
            end = index
            break
    name = kernel[:end].removeprefix("void ")
    return name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"


def kernel_table(run: Run, batch: int, listed: Sequence[Kernel]) -> Table:
    """A row a kernel of one forward call."""
    columns = ("Additions", "Multiplications", "Multiply-adds")
    return Table(
        "tbl-device-kernels",
        f"The kernels of one forward call at batch {batch} on {run.label}: float32 "
        "operations of the CUDA cores, and work of the tensor cores.",
        (
            Column("Kernel"),
            Column("Launches", "1"),
            *(Column(name, "1") for name in columns),
            Column("Tensor cores", "FLOP"),
        ),
        tuple(_row(kernel) for kernel in listed),
        sources=(run.file,),
        wide=True,
    )


def _row(kernel: Kernel) -> tuple[Cell, ...]:
    counts = (kernel.additions, kernel.multiplications, kernel.multiply_adds, kernel.tensor)
    cells = (_NOT_COUNTED if count is None else count for count in counts)
    return (short_name(kernel.work.name), kernel.work.launches, *cells)
