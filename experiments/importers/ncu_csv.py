"""Nsight Compute's raw page as CSV: the counters of every kernel launch, in order."""

from __future__ import annotations

import re
from typing import Final

from experiments.importers.imported import Imported, Source, case, environment
from report.instruments.counters.ncu import quantities
from report.instruments.counters.ncu_metrics import plan_for
from report.instruments.counters.ncu_output import CountersUnavailable, KernelRow, read_table
from report.records.record import LONGEST_NAME, Case, Factor, Sample

#: The header of a table, and what a log says that may hold none.
_BEGIN: Final = re.compile(rb'"Kernel Name"|^==(?:PROF|WARNING|ERROR)== ', re.MULTILINE)
_CAPABILITY: Final = re.compile(r"\d+\.\d+")
#: Counted bytes and operations; a count of launches says nothing of one launch.
_LAUNCHES: Final = "ncu_kernel_launches"
_WORK: Final = "ncu_cuda_core_flops"
#: How metrics end that are sums over the GPU; others are rates, which say nothing of work.
_TOTAL: Final = ".sum"


def detects(source: Source) -> bool:
    """Whether a table of kernels stands in it, or a message of ncu."""
    return _BEGIN.search(source.content) is not None


def read(source: Source) -> Imported:
    """Every launch as a case; the device must be named, since the table has its number alone.

    Raises ``RefusedError`` for a table that is damaged or without a counter that is known.
    """
    rows = read_table(source.text)
    if isinstance(rows, CountersUnavailable):
        raise source.refused(rows.reason.rstrip("."))
    device = source.device_or(None)
    cases = tuple(_case(source, number, row) for number, row in enumerate(rows, start=1))
    if not any(each.series for each in cases):
        raise source.refused(
            "no launch has a sum that is known here, as dram__bytes.sum is; profile with --metrics"
        )
    return Imported(
        instrument="Nsight Compute",
        environment=environment("cuda", device),
        cases=cases,
        unstated="Nsight Compute's table does not say it",
        conditions=source.given,
        missing={"times": "a profiled kernel runs alone; its time is not that of the program"},
    )


def _case(source: Source, number: int, row: KernelRow) -> Case:
    if not _CAPABILITY.fullmatch(row.compute_capability):
        raise source.refused(f"launch {number}: its compute capability is not in the file")
    known = frozenset(name.removesuffix(_TOTAL) for name in row.values if name.endswith(_TOTAL))
    plan = plan_for(row.compute_capability, known)
    if isinstance(plan, CountersUnavailable):
        raise source.refused(plan.reason.rstrip("."))
    # Without single precision the work of the ordinary cores is not known as a whole.
    unknown = {_LAUNCHES, _WORK} if "fp32" in plan.missing else {_LAUNCHES}
    counted = quantities([row], plan)
    measured: dict[str, list[Sample]] = {n: [v] for n, v in counted.items() if n not in unknown}
    factors: dict[str, Factor] = {"launch": number, "kernel": row.kernel[:LONGEST_NAME]}
    return case(factors, measured, None if measured else "no counter of it is known here")
