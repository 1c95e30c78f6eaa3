"""The kernels that a GPU ran in one call, one by one, from what Nsight Compute printed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from report.evidence.runs import Factors, Run
from report.instruments.counters import ncu_logs
from report.instruments.counters.logs import attachment_name, unpack
from report.instruments.counters.ncu import KernelWork, executed_flops, operations
from report.instruments.counters.ncu_metrics import Operation
from report.paper.findings import Inputs
from report.theory.terms import Tile

#: The file beside a record that holds what Nsight Compute printed.
ATTACHMENT: Final = attachment_name(ncu_logs.TOOL)

_TILE: Final = re.compile(r"_tilesize(\d+)x(\d+)x(\d+)_")


@dataclass(frozen=True)
class Kernel:
    """All launches of one kernel in one call: how many, and what the cores did in them."""

    work: KernelWork
    additions: int | None
    multiplications: int | None
    multiply_adds: int | None


def kernels_of(inputs: Inputs, run: Run, factors: Factors) -> tuple[Kernel, ...]:
    """The kernels of one call of the case with these factors, in the order of their first launch.

    None where the run has no table of them.
    """
    content = inputs.attachments.get(run.file, {}).get(ATTACHMENT)
    index = _place(run, factors)
    if content is None or index is None:
        return ()
    return _kernels(content, f"data/{run.file}, {ATTACHMENT}", index)


@lru_cache(maxsize=256)
def _kernels(content: bytes, place: str, index: int) -> tuple[Kernel, ...]:
    """The kernels of one call of the case at ``index``; a paper asks for each several times."""
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
