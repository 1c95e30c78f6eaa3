"""Floating-point work, bytes and launches of each measured case, from the rows of ncu's table.

Every launch is in an NVTX range that names its work: a case by its factors, or a matrix product of
known work.  The products calibrate the counters, which are trusted only if they count 2 · M · N · K
in the same run.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from report.instruments.counters.ncu_metrics import (
    ComputeUnit,
    CountedTerm,
    Instruction,
    MetricPlan,
)
from report.instruments.counters.ncu_output import KernelRow

#: The depth of the products of known work.
_DEPTH: Final = 8192
#: A ratio of counted to true work may be off by this much.  What a kernel does to each output after
#: its sum adds little: on an H100 a product split into 4 parts along its depth scales each part
#: (4 FLOP) and adds three of them to the first (6 FLOP), which is 10 / (2 · 8192) of the work.
TOLERANCE: Final = 1e-3

# ------------------------------------------------------------------------------ names of the ranges


#: Prefixes of the NVTX ranges of cases and of products.
CASE: Final = "ridgepoint case "
PRODUCT: Final = "ridgepoint product "


def case_range(factors: Mapping[str, object], call: int) -> str:
    """Name the NVTX range of one profiled call of a case, without characters special to NVTX."""
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
    """List the products for calibration: three sizes in each precision of the GPU.

    A kernel works on whole tiles and the counters count the rest of a tile too.  The sizes have
    different divisors (2^8 · 15, 2^6 · 63, 2^12), so that the tiles of one of them fit: on an H100
    those of 320 × 128 fit the first, those of 128 × 256 the last.
    """
    modern = int(compute_capability.partition(".")[0]) >= 8
    precisions = ("fp32", "tf32", "bf16") if modern else ("fp32", "fp16")
    return tuple(Product(p, side, side, _DEPTH) for p in precisions for side in (3840, 4032, 4096))


# ------------------------------------------------------------------------------------- work


def flops(rows: Sequence[KernelRow], terms: Sequence[CountedTerm]) -> int | None:
    """Sum the work that ``terms`` count over ``rows``; None without terms or if a value misses."""
    parts = [(term.factor, total_of(rows, term.metric)) for term in terms]
    counts = [factor * events for factor, events in parts if events is not None]
    return sum(counts) if terms and len(counts) == len(parts) else None


def operations(rows: Sequence[KernelRow], plan: MetricPlan, operation: Instruction) -> int | None:
    """Count additions, multiplications or multiply-adds of the CUDA cores in float32."""
    terms = [t for t in plan.terms if (t.operation, t.precision) == (operation, "fp32")]
    work = flops(rows, terms)
    return None if work is None else work // (2 if operation == "multiply_add" else 1)


def total_of(rows: Iterable[KernelRow], *metrics: str) -> int | None:
    """Sum ``metrics`` over ``rows``; None if a value is missing."""
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
    """Compute a record's quantities from the launches of one call; unknown ones are absent."""
    counts = {
        "ncu_cuda_core_flops": flops(rows, [t for t in plan.terms if t.unit == "cuda_core"]),
        "ncu_tensor_core_flops": flops(rows, [t for t in plan.terms if t.unit == "tensor_core"]),
        "ncu_fp32_additions": operations(rows, plan, "add"),
        "ncu_fp32_multiplications": operations(rows, plan, "multiply"),
        "ncu_fp32_multiply_adds": operations(rows, plan, "multiply_add"),
        **{BYTES[level]: total_of(rows, *names) for level, names in plan.bytes.items()},
        "ncu_kernel_launches": len(rows),
    }
    return {name: count for name, count in counts.items() if count is not None}


# -------------------------------------------------------------------------------------- calibration


def distrust(
    rows: Sequence[KernelRow], plan: MetricPlan, expected: Iterable[Product]
) -> dict[ComputeUnit, str]:
    """Return the units whose counters are not trusted, with the reason.

    For each precision the size with the smallest ratio of counted to true work is judged, since
    filling up tiles can only add work.  Products without a count matter only if all sizes lack it.
    """
    reasons: dict[ComputeUnit, str] = {}
    judged: set[str] = set()
    counts = {product: _counted(product, rows, plan) for product in expected}
    for product, counted in sorted(counts.items(), key=lambda item: _ratio(item[1], item[0])):
        if product.precision not in judged:
            judged.add(product.precision)
            if counted is None or abs(_ratio(counted, product) - 1) > TOLERANCE:
                reasons[_unit(product)] = _distrust(counted, product)
    return reasons


def _unit(product: Product) -> ComputeUnit:
    return "cuda_core" if product.precision == "fp32" else "tensor_core"


def _counted(product: Product, rows: Sequence[KernelRow], plan: MetricPlan) -> int | None:
    own = [row for row in rows if row.range == product.range]
    terms = [
        term
        for term in plan.terms
        if term.unit == _unit(product) and (term.unit == "tensor_core" or term.precision == "fp32")
    ]
    return flops(own, terms) if own else None


def _ratio(counted: int | None, product: Product) -> float:
    return inf if counted is None else counted / product.flops


def _distrust(counted: int | None, product: Product) -> str:
    unit = _unit(product).replace("_", "-")
    size = f"{product.rows}×{product.columns}×{product.depth}"
    figure = "no number" if counted is None else f"{_ratio(counted, product):.5f} of 2MNK"
    return (
        f"counters not trusted: in the same run the {unit} counters gave {figure} for a "
        f"{product.precision} matrix product of {size}, where 1 ± {TOLERANCE:g} is expected; "
        "compare the kernels in the raw table, or measure with another version of ncu."
    )
