"""The part of Nsight Compute's table about one case, and its counts.

It has the launches of the case's calls, one range per call, and of the matrix products profiled in
the same process, so that it can be read and judged alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from report.core.errors import RecordError
from report.core.records.record import SeriesByQuantity
from report.instruments.counters.logs import REMEDY
from report.instruments.counters.ncu import (
    BYTES,
    CASE,
    PRODUCT,
    distrust,
    products,
    quantities,
)
from report.instruments.counters.ncu_metrics import ComputeUnit, MetricPlan, metrics_for
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
#: All quantities that ncu counts of a case.
QUANTITIES: Final = (*_CORE, _TENSOR, *BYTES.values(), "ncu_kernel_launches")


def logs_of(table: str, ranges: Sequence[str]) -> dict[str, str]:
    """Cut the table of a whole process to the launches of one case, whose calls are ``ranges``.

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
    distrusted: Mapping[ComputeUnit, str]


def read_log(logs: Mapping[str, str], place: str) -> CaseLog:
    """Read the table of a case; raises ``RecordError`` that begins with ``place``."""
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


def counted(logs: Mapping[str, str], place: str) -> tuple[SeriesByQuantity, dict[str, str]]:
    """Return the series of a case, one sample a call, and why each other quantity has none.

    Either ncu cannot count it on this GPU, or its unit is not trusted.  Raises ``RecordError`` as
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
    return {name: tuple(map(itemgetter(name), samples)) for name in names}, missing
