"""Executed work, bytes and launches of a measured case, from Nsight Compute's table.

Nsight Compute (``ncu``) counts the work of each launch of a GPU kernel.  Every launch is in a named
NVTX range: one call of a case (a combination of factors, such as a batch size and a layer), or a
matrix product of known work.  The products calibrate the counters, which are trusted only if they
count 2 · M · N · K in the same run.  The table of a case contains the launches of its calls, one
range per call, and the launches of the products, so that no other table is needed.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf
from operator import attrgetter, itemgetter
from typing import Final

from report.core.errors import RecordError
from report.core.records.record import SeriesByQuantity
from report.instruments.counters.logs import REMEDY
from report.instruments.counters.ncu_metrics import (
    BYTES,
    CUDA_CORE,
    FP32_FLOPS,
    TENSOR_CORE,
    MetricPlan,
    metrics_for,
)
from report.instruments.counters.ncu_output import KernelRow, read_table, select_launches

TOOL: Final = "ncu"
#: Key of the table in the logs of a case.
_TABLE: Final = "table"
#: Prefix of the NVTX range around one call of a case.
CASE_PREFIX: Final = "ridgepoint case "
#: Prefix of the NVTX range around a product of known work.
PRODUCT_PREFIX: Final = "ridgepoint product "
#: Depth (K) of the products of known work.
_PRODUCT_DEPTH: Final = 8192
#: Largest relative error of counted work.  After the dot product of an output, kernels execute a
#: few FLOP that are counted, too.  An H100 that splits the dot product into 4 parts executes 10
#: FLOP per output (4 to scale the parts, 6 to join them) besides the 2 · 8192 of the dot product.
TOLERANCE: Final = 1e-3

#: All quantities that ncu counts for a case.
QUANTITIES: Final = (CUDA_CORE, *FP32_FLOPS, TENSOR_CORE, *BYTES, "ncu_kernel_launches")


def case_range(factors: Mapping[str, object], call: int) -> str:
    """Return the name of the NVTX range of one profiled call, without NVTX's special characters."""
    words = [f"call={call}"]
    words += [f"{name}={factors[name]}" for name in sorted(factors)]
    safe_words = [re.sub(r"[^\w.=+-]", "_", word, flags=re.ASCII) for word in words]
    return CASE_PREFIX + " ".join(safe_words)


@dataclass(frozen=True)
class Product:
    """A matrix product of known work: ``rows × depth`` times ``depth × columns``."""

    precision: str
    rows: int
    columns: int
    depth: int

    @property
    def flops(self) -> int:
        """Work of the product: 2 · M · N · K FLOP."""
        return 2 * self.rows * self.columns * self.depth

    @property
    def unit(self) -> str:
        """Quantity that counts the work: FLOPs of CUDA cores in float32, else of tensor cores."""
        return CUDA_CORE if self.precision == "fp32" else TENSOR_CORE

    @property
    def range(self) -> str:
        """Name of the NVTX range around the product."""
        size = f"{self.rows}x{self.columns}x{self.depth}"
        return f"{PRODUCT_PREFIX}precision={self.precision} size={size}"


def products(compute_capability: str) -> tuple[Product, ...]:
    """List the products for calibration: three sizes in each precision of the GPU.

    A kernel computes whole tiles, and counters include the unused part of a tile.  The sizes have
    different divisors (2^8 · 15, 2^6 · 63, 2^12), so that whole tiles fit at least one size: on an
    H100, tiles of 320 × 128 fit the first size and tiles of 128 × 256 the last.
    """
    major, _, _ = compute_capability.partition(".")
    precisions = ("fp32", "tf32", "bf16") if int(major) >= 8 else ("fp32", "fp16")
    result: list[Product] = []
    for precision in precisions:
        for side in (3840, 4032, 4096):
            result.append(Product(precision, side, side, _PRODUCT_DEPTH))
    return tuple(result)


def quantities(rows: Sequence[KernelRow], plan: MetricPlan) -> dict[str, int]:
    """Compute a call's quantities from its launches (``rows``); omit quantities without a count."""
    counts: dict[str, int | None] = {"ncu_kernel_launches": len(rows)}
    for name, factors in plan.factors.items():
        counts[name] = _weighted_sum(rows, factors)
    return {name: count for name, count in counts.items() if count is not None}


def _weighted_sum(rows: Iterable[KernelRow], factors: Mapping[str, int]) -> int | None:
    """Sum metrics times factors over ``rows``; return None if a value is missing."""
    total = 0
    for row in rows:
        for metric, factor in factors.items():
            value = row.value(metric)
            if value is None:
                return None
            total += factor * value
    return total


def untrusted_units(
    rows: Sequence[KernelRow], plan: MetricPlan, expected: Iterable[Product]
) -> dict[str, str]:
    """Map units (``CUDA_CORE``, ``TENSOR_CORE``) whose counters are not trusted to the reason.

    ``rows``: all launches of the table.  ``expected``: products of known work, sorted by precision.
    For every precision, only the size with the smallest ratio of counted to true work is tested,
    since padding of tiles can only add work.  A product without a count has an infinite ratio.
    """
    smallest: list[tuple[float, Product]] = []
    for _, products_of_precision in groupby(expected, key=attrgetter("precision")):
        ratios = [(_ratio(product, rows, plan), product) for product in products_of_precision]
        smallest.append(min(ratios, key=itemgetter(0)))
    reasons: dict[str, str] = {}
    for ratio, product in sorted(smallest, key=itemgetter(0)):
        if abs(ratio - 1) > TOLERANCE:
            reasons[product.unit] = _distrust_reason(ratio, product)
    return reasons


def _ratio(product: Product, rows: Sequence[KernelRow], plan: MetricPlan) -> float:
    """Return a product's counted work divided by its true work; infinity if it was not counted."""
    launches = [row for row in rows if row.range == product.range]
    counts = quantities(launches, plan)
    flops_of_counts = FP32_FLOPS if product.unit == CUDA_CORE else {TENSOR_CORE: 1}
    if not launches or not counts.keys() >= flops_of_counts.keys():
        return inf
    return sum(flops * counts[name] for name, flops in flops_of_counts.items()) / product.flops


def _distrust_reason(ratio: float, product: Product) -> str:
    """Explain why counters are not trusted, from the ratio of counted to true work."""
    unit = "cuda-core" if product.unit == CUDA_CORE else "tensor-core"
    size = f"{product.rows}×{product.columns}×{product.depth}"
    counted_work = "no number" if ratio == inf else f"{ratio:.5f} of 2MNK"
    return (
        f"counters not trusted: in the same run the {unit} counters gave {counted_work} for a "
        f"{product.precision} matrix product of {size}, where 1 ± {TOLERANCE:g} is expected; "
        "compare the kernels in the raw table, or measure with another version of ncu."
    )


def logs_of(table: str, ranges: Sequence[str]) -> dict[str, str]:
    """Reduce a readable table of a process to the products and the calls of a case (``ranges``)."""

    def is_needed(row: KernelRow) -> bool:
        if row.range is None:
            return False
        return row.range in ranges or row.range.startswith(PRODUCT_PREFIX)

    return {_TABLE: select_launches(table, is_needed)}


@dataclass(frozen=True)
class CaseLog:
    """Launches of a case, one tuple per call in order, and untrusted unit → reason."""

    calls: tuple[tuple[KernelRow, ...], ...]
    plan: MetricPlan
    untrusted: Mapping[str, str]


def read_log(logs: Mapping[str, str], place: str) -> CaseLog:
    """Read the table in the logs of a case.

    Raises ``RecordError``, with a message that begins with ``place``, if the table is missing or
    damaged, if it has no launch of the case, or if the GPU or this ncu cannot count work.
    """
    if _TABLE not in logs:
        raise RecordError(f"{place}: there is no table of ncu; {REMEDY}.")
    try:
        rows = read_table(logs[_TABLE])
        capability = rows[0].compute_capability
        metrics = set[str]()
        for row in rows:
            metrics.update(name.partition(".")[0] for name in row.values)
        plan = metrics_for(capability, frozenset(metrics))
    except RecordError as error:
        raise RecordError(f"{place}: {error}") from error
    calls: dict[str, list[KernelRow]] = {}
    for row in rows:
        if row.range is not None and row.range.startswith(CASE_PREFIX):
            calls.setdefault(row.range, []).append(row)
    if not calls:
        raise RecordError(f"{place}: the table of ncu holds no launch of this case; {REMEDY}.")
    untrusted = untrusted_units(rows, plan, products(capability))
    launches = tuple(tuple(rows_of_call) for rows_of_call in calls.values())
    return CaseLog(launches, plan, untrusted)


def read_series(logs: Mapping[str, str], place: str) -> tuple[SeriesByQuantity, dict[str, str]]:
    """Return the series of a case (one sample per call), and missing quantity → reason.

    A quantity is missing if ncu cannot count it on this GPU, if ncu printed no number for it, or if
    the unit is not trusted.  Raises ``RecordError`` as ``read_log`` does.
    """
    log = read_log(logs, place)
    missing = dict(log.plan.missing)
    if reason := log.untrusted.get(CUDA_CORE):
        missing |= dict.fromkeys((CUDA_CORE, *FP32_FLOPS), reason)
    if reason := log.untrusted.get(TENSOR_CORE):
        missing.setdefault(TENSOR_CORE, reason)
    samples = [quantities(call, log.plan) for call in log.calls]
    series: SeriesByQuantity = {}
    for name in QUANTITIES:
        if any(name not in sample for sample in samples):
            missing.setdefault(name, "ncu gave no number for it in at least one launch")
        if name not in missing:
            series[name] = tuple(sample[name] for sample in samples)
    return series, missing
