"""Floating-point work, bytes and launches of each measured case, from the rows that ncu printed.

Every launch stands in an NVTX range whose name says what ran: a case by its factors, or a matrix
product whose work is known.  The products are the calibration: in the same run, the counters must
give back 2 · M · N · K, or they are not trusted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from report.instruments.counters.ncu_metrics import MetricPlan, Operation, Term, Unit
from report.instruments.counters.ncu_output import CountersUnavailable, KernelRow

#: The depth of the products of known work.
_DEPTH: Final = 8192
#: A ratio of counted to true work may be off by this much.  What a kernel does to each output after
#: its sum adds little: on an H100 a product split into 4 parts along its depth scales each part
#: (4 FLOP) and adds three of them to the first (6 FLOP), which is 10 / (2 · 8192) of the work.
TOLERANCE: Final = 1e-3

#: Key of the counts: ``(unit, precision)``, as in ``("tensor_core", "bf16")``.
Flops = Mapping[tuple[Unit, str], int]


# ------------------------------------------------------------------------------ names of the ranges


#: How the ranges of cases and of products begin.
CASE: Final = "ridgepoint case "
PRODUCT: Final = "ridgepoint product "


def case_range(factors: Mapping[str, object], call: int) -> str:
    """The NVTX range of one profiled call of a case, with nothing in it that NVTX gives meaning."""
    words = (f"{name}={factors[name]}" for name in sorted(factors))
    plain = (re.sub(r"[^\w.=+-]", "_", word, flags=re.ASCII) for word in (f"call={call}", *words))
    return f"{CASE}{' '.join(plain)}"


@dataclass(frozen=True)
class Product:
    """A matrix product of known work: ``rows × depth`` times ``depth × columns``."""

    precision: str
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> int:
        """2 · M · N · K."""
        return 2 * self.rows * self.columns * self.depth

    @property
    def range(self) -> str:
        """The NVTX range around it."""
        size = f"{self.rows}x{self.columns}x{self.depth}"
        return f"{PRODUCT}precision={self.precision} size={size}"


def products(compute_capability: str) -> tuple[Product, ...]:
    """The products to calibrate with: the precisions that the GPU has, three sizes each.

    A kernel works on whole tiles and the counters count the rest of a tile too.  The sizes have
    different divisors (2^8 · 15, 2^6 · 63, 2^12), so that the tiles of one of them fit: on an H100
    those of 320 × 128 fit the first, those of 128 × 256 the last.
    """
    modern = int(compute_capability.partition(".")[0]) >= 8
    precisions = ("fp32", "tf32", "bf16") if modern else ("fp32", "fp16")
    return tuple(Product(p, side, side, _DEPTH) for p in precisions for side in (3840, 4032, 4096))


# ------------------------------------------------------------------------------------- work


@dataclass(frozen=True)
class KernelWork:
    """All launches of one kernel; a count is absent where ncu gave no value."""

    name: str
    launches: int
    flops: Flops


@dataclass(frozen=True)
class ExecutedFlops:
    """The work of some launches: in total, by kernel in order of appearance, and what is missing.

    ``missing`` gives the reason for each ``(unit, precision)`` that ``flops`` lacks.
    """

    flops: Flops
    kernels: tuple[KernelWork, ...]
    missing: Mapping[tuple[Unit, str], str]

    def total(self, unit: Unit) -> int | None:
        """FLOPs of a unit over its precisions; None if it was not counted, whole or in part."""
        counted = [count for (of, _), count in self.flops.items() if of == unit]
        partly = any(of == unit for of, _ in self.missing)
        return sum(counted) if counted and not partly else None


def executed_flops(rows: Sequence[KernelRow], plan: MetricPlan) -> ExecutedFlops:
    """FLOPs of ``rows``, CUDA cores and tensor cores apart, by precision and by kernel."""
    names = Counter(row.kernel for row in rows)
    kernels = tuple(
        KernelWork(name, count, _flops([r for r in rows if r.kernel == name], plan.terms))
        for name, count in names.items()
    )
    missing: dict[tuple[Unit, str], str] = {}
    for term in plan.terms:
        gap = next((row.kernel for row in rows if row.value(term.metric) is None), None)
        if gap is not None:
            missing[term.unit, term.precision] = f"ncu gave no {term.metric} for the kernel {gap}"
    return ExecutedFlops(_flops(rows, plan.terms), kernels, missing)


def _flops(rows: Sequence[KernelRow], terms: Iterable[Term]) -> Flops:
    by_key: dict[tuple[Unit, str], list[Term]] = {}
    for term in terms:
        by_key.setdefault((term.unit, term.precision), []).append(term)
    sums = {key: _weighted(rows, alike) for key, alike in by_key.items()}
    return {key: count for key, count in sums.items() if count is not None}


def _weighted(rows: Sequence[KernelRow], terms: Sequence[Term]) -> int | None:
    parts = [(term.factor, total_of(rows, term.metric)) for term in terms]
    counts = [factor * events for factor, events in parts if events is not None]
    return sum(counts) if len(counts) == len(parts) else None


def operations(
    rows: Sequence[KernelRow], plan: MetricPlan, operation: Operation, precision: str = "fp32"
) -> int | None:
    """How many additions, multiplications or multiply-adds the CUDA cores did; None if unknown."""
    of_kind = [t for t in plan.terms if (t.operation, t.precision) == (operation, precision)]
    flops = _weighted(rows, of_kind) if of_kind else None
    return None if flops is None else flops // (2 if operation == "multiply_add" else 1)


def total_of(rows: Iterable[KernelRow], *metrics: str) -> int | None:
    """The sum of ``metrics`` over ``rows``; None if a value is missing."""
    total = 0
    for row in rows:
        for metric in metrics:
            value = row.value(metric)
            if value is None:
                return None
            total += value
    return total


#: Level of memory -> the record's name of its bytes.
BYTES: Final = {"dram": "ncu_dram_bytes", "l2": "ncu_l2_bytes", "l1": "ncu_l1_bytes"}


def quantities(rows: Sequence[KernelRow], plan: MetricPlan) -> dict[str, int]:
    """What a record keeps of the launches of one call, by quantity; what is unknown is absent."""
    work = executed_flops(rows, plan)
    sums = {BYTES[level]: total_of(rows, *names) for level, names in plan.bytes.items()}
    found = {
        "ncu_cuda_core_flops": work.total("cuda_core"),
        "ncu_tensor_core_flops": work.total("tensor_core"),
        "ncu_fp32_additions": operations(rows, plan, "add"),
        "ncu_fp32_multiplications": operations(rows, plan, "multiply"),
        "ncu_fp32_multiply_adds": operations(rows, plan, "multiply_add"),
        **sums,
        "ncu_kernel_launches": len(rows),
    }
    return {name: count for name, count in found.items() if count is not None}


# -------------------------------------------------------------------------------------- calibration


@dataclass(frozen=True)
class Calibration:
    """What the counters gave for a product of known work; ``counted`` is None if nothing."""

    product: Product
    counted: int | None

    @property
    def unit(self) -> Unit:
        """The unit whose counters this product tests."""
        return "cuda_core" if self.product.precision == "fp32" else "tensor_core"

    @property
    def ratio(self) -> float:
        """Counted over true work; 0 if nothing was counted."""
        return (self.counted or 0) / self.product.flops


def calibrations(
    rows: Sequence[KernelRow], plan: MetricPlan, expected: Iterable[Product]
) -> tuple[Calibration, ...]:
    """What the counters gave for each product; nothing for one that did not run."""
    return tuple(_calibration(product, rows, plan) for product in expected)


def _calibration(product: Product, rows: Sequence[KernelRow], plan: MetricPlan) -> Calibration:
    own = [row for row in rows if row.range == product.range]
    if not own:
        return Calibration(product, None)
    work = executed_flops(own, plan)
    if product.precision == "fp32":
        return Calibration(product, work.flops.get(("cuda_core", "fp32")))
    return Calibration(product, work.total("tensor_core"))


def distrust(found: Iterable[Calibration]) -> dict[Unit, CountersUnavailable]:
    """The units whose counters are not trusted, each with the figure.

    Of the sizes of one precision the smallest ratio counts: filling up tiles can only add work.
    """
    best: dict[str, Calibration] = {}
    for calibration in sorted(found, key=lambda c: (c.counted is None, c.ratio)):
        best.setdefault(calibration.product.precision, calibration)
    return {
        calibration.unit: CountersUnavailable("not_trusted", _distrust(calibration))
        for calibration in best.values()
        if abs(calibration.ratio - 1) > TOLERANCE
    }


def _distrust(calibration: Calibration) -> str:
    product = calibration.product
    unit = calibration.unit.replace("_", "-")
    size = f"{product.rows}×{product.columns}×{product.depth}"
    figure = "no number" if calibration.counted is None else f"{calibration.ratio:.5f} of 2MNK"
    return (
        f"counters not trusted: in the same run the {unit} counters gave {figure} for a "
        f"{product.precision} matrix product of {size}, where 1 ± {TOLERANCE:g} is expected; "
        "compare the kernels in the raw table, or measure with another version of ncu."
    )
