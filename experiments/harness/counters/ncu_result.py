"""From what ncu and the profiled program left behind to the series of each case; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from experiments.harness.counters.ncu_child import CALLS, Note
from experiments.harness.study import Factors
from experiments.harness.text import last_line
from report.counters.ncu import (
    BYTES,
    calibrations,
    case_range,
    distrust,
    packed,
    products,
    quantities,
)
from report.counters.ncu_metrics import MetricPlan
from report.counters.ncu_output import (
    CountersUnavailable,
    KernelRow,
    complaint,
    csv_lines,
    read_table,
)
from report.quantities import QUANTITIES
from report.records import Series

#: The raw table, as the record keeps it.
ATTACHMENT: Final = "ncu.csv.gz"

_CORE_QUANTITIES: Final = (
    "ncu_cuda_core_flops",
    "ncu_fp32_additions",
    "ncu_fp32_multiplications",
    "ncu_fp32_multiply_adds",
)
_CORE_PRECISIONS: Final = ("fp64", "fp16")
_TENSOR_QUANTITIES: Final = ("ncu_tensor_core_flops",)


@dataclass(frozen=True)
class Output:
    """The log file of ncu, what else was printed, and the notes of the profiled program."""

    log: str
    said: str
    notes: tuple[Note, ...]


@dataclass(frozen=True)
class CaseCounts:
    """The series of one case, one sample a profiled call; ``reason`` says why there are none."""

    series: tuple[Series, ...]
    reason: str | None


@dataclass(frozen=True)
class CounterOutcome:
    """Counts of all cases in their order, files to keep with the record, and what is missing.

    ``missing`` gives, for a quantity that no case has, the reason.
    """

    cases: tuple[CaseCounts, ...]
    attachments: Mapping[str, bytes]
    missing: Mapping[str, str]


def without(cases: Sequence[Factors], why: CountersUnavailable) -> CounterOutcome:
    """No counts at all, for one reason."""
    names = (*_CORE_QUANTITIES, *_TENSOR_QUANTITIES, *BYTES.values(), "ncu_kernel_launches")
    nothing = CaseCounts((), why.reason)
    return CounterOutcome((nothing,) * len(cases), {}, dict.fromkeys(names, why.reason))


def evaluate(
    output: Output, plan: MetricPlan, compute_capability: str, cases: Sequence[Factors]
) -> CounterOutcome:
    """The counts of each case; those of a unit that fails its calibration are left out."""
    rows = read_table(output.log)
    said = _said(output)
    if isinstance(rows, CountersUnavailable):
        return without(cases, said or rows)
    if not any(row.range for row in rows):
        return without(cases, _NO_RANGES)
    missing = _missing(rows, plan, compute_capability)
    ended = said.reason if said else "The profiled program ended before this case; run it again."
    counts = tuple(_case(factors, rows, output.notes, plan, missing, ended) for factors in cases)
    return CounterOutcome(counts, {ATTACHMENT: packed(csv_lines(output.log))}, missing)


def _said(output: Output) -> CountersUnavailable | None:
    """ncu's complaint; if the program failed, with the program's own last words."""
    said = complaint(f"{output.log}\n{output.said}")
    if said is None or said.kind != "application":
        return said
    own = "\n".join(line for line in output.said.splitlines() if not line.startswith("=="))
    reason = f"The profiled program failed under ncu ({last_line(own)}); mend that first."
    return CountersUnavailable("application", reason)


_NO_RANGES: Final = CountersUnavailable(
    "ranges",
    "ncu recorded kernels but none of our NVTX ranges, so that they belong to no case; use a "
    "PyTorch built with NVTX.",
)


def _missing(
    rows: Sequence[KernelRow], plan: MetricPlan, compute_capability: str
) -> dict[str, str]:
    """A reason for each quantity that cannot be had or is not trusted on this GPU."""
    distrusted = distrust(calibrations(rows, plan, products(compute_capability)))
    missing: dict[str, str] = {}
    if why := next((plan.missing[p] for p in _CORE_PRECISIONS if p in plan.missing), None):
        missing["ncu_cuda_core_flops"] = why
    if core := distrusted.get("cuda_core"):
        missing.update(dict.fromkeys(_CORE_QUANTITIES, core.reason))
    if why := plan.missing.get("tensor_core"):
        missing.update(dict.fromkeys(_TENSOR_QUANTITIES, why))
    elif tensor := distrusted.get("tensor_core"):
        missing.update(dict.fromkeys(_TENSOR_QUANTITIES, tensor.reason))
    for level, quantity in BYTES.items():
        if level in plan.missing:
            missing[quantity] = plan.missing[level]
    return missing


def _case(
    factors: Factors,
    rows: Sequence[KernelRow],
    notes: Sequence[Note],
    plan: MetricPlan,
    missing: Mapping[str, str],
    ended: str,
) -> CaseCounts:
    names = [case_range(factors, call) for call in range(CALLS)]
    own = [note for note in notes if note.range in names]
    if failed := next((note for note in own if note.status != "ok"), None):
        return CaseCounts((), failed.reason)
    if len(own) < len(names):
        return CaseCounts((), ended)
    calls = [[row for row in rows if row.range == name] for name in names]
    if not all(calls):
        return CaseCounts((), "No kernel ran on the GPU during this case.")
    samples = [quantities(call, plan) for call in calls]
    common = [name for name in samples[0] if all(name in sample for sample in samples)]
    return CaseCounts(
        tuple(
            Series(
                quantity=name,
                unit=QUANTITIES[name].unit,
                samples=tuple(sample[name] for sample in samples),
            )
            for name in common
            if name not in missing
        ),
        None,
    )
