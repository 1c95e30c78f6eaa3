"""What is kept of Nsight Compute for a case: ncu's own table, cut to the case; and what it says.

The table of a case holds the launches of its calls, each in a range of its own, and those of the
matrix products that were profiled in the same process, so that it can be read and judged alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from report.core.errors import RecordError
from report.core.records.record import Measured
from report.instruments.counters.logs import REMEDY
from report.instruments.counters.ncu import (
    BYTES,
    CASE,
    PRODUCT,
    distrust,
    products,
    quantities,
)
from report.instruments.counters.ncu_metrics import MetricPlan, Unit, metrics_for
from report.instruments.counters.ncu_output import KernelRow, part_of, read_table

TOOL: Final = "ncu"

_TABLE: Final = "table"
_CORE: Final = (
    "ncu_cuda_core_flops",
    "ncu_fp32_additions",
    "ncu_fp32_multiplications",
    "ncu_fp32_multiply_adds",
)
_CORE_PRECISIONS: Final = ("fp64", "fp16")
_TENSOR: Final = "ncu_tensor_core_flops"
#: All that is counted of a case.
QUANTITIES: Final = (*_CORE, _TENSOR, *BYTES.values(), "ncu_kernel_launches")


def logs_of(table: str, ranges: Sequence[str]) -> dict[str, str]:
    """What is kept of a case whose calls stand in ``ranges``, from the table of a whole process.

    ``table`` must be one that ``read_table`` can read.
    """
    wanted = frozenset(ranges)
    return {
        _TABLE: part_of(
            table, lambda row: row.range in wanted or (row.range or "").startswith(PRODUCT)
        )
    }


@dataclass(frozen=True)
class CaseLog:
    """The launches of each call of a case in their order, and the units that are not trusted."""

    calls: tuple[tuple[KernelRow, ...], ...]
    plan: MetricPlan
    distrusted: Mapping[Unit, str]


def read_log(logs: Mapping[str, str], place: str) -> CaseLog:
    """The kept table of a case; raises ``RecordError`` that begins with ``place``."""
    if _TABLE not in logs:
        raise RecordError(f"{place}: there is no table of ncu; {REMEDY}.")
    try:
        rows = read_table(logs[_TABLE])
        capability = rows[0].compute_capability
        metrics = frozenset(name.partition(".")[0] for row in rows for name in row.values)
        plan = metrics_for(capability, metrics)
    except RecordError as error:
        raise RecordError(f"{place}: {error}") from error
    calls: dict[str, list[KernelRow]] = {}
    for row in rows:
        if row.range is not None and row.range.startswith(CASE):
            calls.setdefault(row.range, []).append(row)
    if not calls:
        raise RecordError(f"{place}: the table of ncu holds no launch of this case; {REMEDY}.")
    distrusted = distrust(rows, plan, products(capability))
    return CaseLog(tuple(map(tuple, calls.values())), plan, distrusted)


def counted(logs: Mapping[str, str], place: str) -> tuple[Measured, dict[str, str]]:
    """The series of a case, one sample a call, and the reason for each quantity without one.

    This ncu cannot count it here, or its unit is not trusted.  Raises ``RecordError`` as
    ``read_log`` does.
    """
    log = read_log(logs, place)
    plan = log.plan
    missing: dict[str, str] = {}
    if why := next((plan.missing[p] for p in _CORE_PRECISIONS if p in plan.missing), None):
        missing["ncu_cuda_core_flops"] = why
    if why := log.distrusted.get("cuda_core"):
        missing |= dict.fromkeys(_CORE, why)
    if why := plan.missing.get("tensor_core", log.distrusted.get("tensor_core")):
        missing[_TENSOR] = why
    for level, quantity in BYTES.items():
        if level in plan.missing:
            missing[quantity] = plan.missing[level]
    samples = [quantities(call, plan) for call in log.calls]
    for name in QUANTITIES:
        if any(name not in sample for sample in samples):
            missing.setdefault(name, "ncu gave no number for it in at least one launch")
    names = [name for name in QUANTITIES if name not in missing]
    return {name: tuple(sample[name] for sample in samples) for name in names}, missing
