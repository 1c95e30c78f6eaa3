"""Metrics of Nsight Compute that count floating-point work and bytes on each GPU.

- CUDA cores: ``sass_thread_inst_executed_op_*``, thread instructions that are not masked out.  An
  addition or multiplication is 1 FLOP, a fused multiply-add 2 FLOPs.  Half-precision instructions
  compute pairs (HADD2, HMUL2, HFMA2) and count twice, as in Nsight Compute's roofline sections.
- Tensor cores: ``sm__ops_path_tensor_src_*``, FLOPs per precision of the source.  On Volta, older
  versions have no such metric: an instruction of a warp (HMMA, 4 × 64 multiply-adds) is 512 FLOPs.

Names of metrics differ between versions, so that names come from ``ncu --query-metrics``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from report.core.errors import RecordError

#: Names of quantities in records: FLOPs of the two kinds of unit.
CUDA_CORE, TENSOR_CORE = "ncu_cuda_core_flops", "ncu_tensor_core_flops"
#: Float32 operations of the CUDA cores → FLOPs of one operation.
FP32_FLOPS: Final = {
    "ncu_fp32_additions": 1,
    "ncu_fp32_multiplications": 1,
    "ncu_fp32_multiply_adds": 2,
}
_ADDITIONS, _MULTIPLICATIONS, _MULTIPLY_ADDS = FP32_FLOPS
#: Thread instruction of the CUDA cores → FLOPs, and quantity that counts it (only float32).
_INSTRUCTIONS: Final = {
    "fadd": (1, _ADDITIONS),
    "fmul": (1, _MULTIPLICATIONS),
    "ffma": (2, _MULTIPLY_ADDS),
    "dadd": (1, None),
    "dmul": (1, None),
    "dfma": (2, None),
    "hadd": (2, None),
    "hmul": (2, None),
    "hfma": (4, None),
}
#: Instruction on pairs of float32 numbers, which only Blackwell has → FLOPs and quantity.
_PACKED_INSTRUCTIONS: Final = {
    "fadd2": (2, _ADDITIONS),
    "fmul2": (2, _MULTIPLICATIONS),
    "ffma2": (4, _MULTIPLY_ADDS),
}
#: Quantity → alternative tuples of metrics, the preferred tuple first; metrics of a tuple add up.
BYTES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "ncu_dram_bytes": (
        ("dram__bytes",),
        ("dram__bytes_read", "dram__bytes_write"),
        ("dram__bytes_op_read", "dram__bytes_op_write"),
    ),
    "ncu_l2_bytes": (("lts__t_bytes",),),
    "ncu_l1_bytes": (("l1tex__t_bytes",),),
}
#: The name of a metric at the start of a line.
_METRIC_NAME: Final = re.compile(r'^\s*"?([a-z][a-z0-9]*__[a-z0-9_]+)', re.MULTILINE)
#: Name of a metric of tensor cores: scope, operation, types of source and result, and sparsity.
_TENSOR_PATH: Final = re.compile(
    r"(?P<scope>smsp|sm)__ops_path_tensor_(?:op_(?P<op>[a-z]+)_)?"
    r"src_(?P<src>(?:fp|bf|tf)\d+(?:_(?:fp|bf|tf)\d+)*)"
    r"(?:_dst_(?P<dst>[a-z0-9]+))?(?:_sparsity_(?P<sparsity>on|off))?"
)
#: Compute capabilities of GPUs of the generation Volta, and their metric of tensor cores.
_VOLTA_CAPABILITIES, _VOLTA_METRIC = ((7, 0), (7, 2)), "sm__inst_executed_pipe_tensor"
#: FLOPs of HMMA, the instruction of Volta's tensor cores, for one warp (32 threads).
_VOLTA_HMMA_FLOPS: Final = 512


@dataclass(frozen=True)
class MetricPlan:
    """Metrics to count on a GPU.

    - ``factors``: quantity → metric → amount of the quantity for one increment of the metric;
    - ``missing``: quantity that ncu cannot count → reason.
    """

    factors: Mapping[str, Mapping[str, int]]
    missing: Mapping[str, str]

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics without repetitions, sorted, for ``--metrics``."""
        return tuple(sorted(set[str]().union(*self.factors.values())))


def metric_names(listing: str) -> frozenset[str]:
    """Return the names of metrics in the output of ``ncu --query-metrics``, a table or CSV."""
    return frozenset(_METRIC_NAME.findall(listing))


def metrics_for(compute_capability: str, available: frozenset[str]) -> MetricPlan:
    """Choose the metrics for a GPU (``"9.0"``) among the names that ncu lists.

    Raises ``RecordError`` for a GPU before Volta, and if ncu lists no metric of float32 counts.
    """
    plan = plan_for(compute_capability, available)
    for quantity in FP32_FLOPS:
        if quantity in plan.missing:
            raise RecordError(f"{plan.missing[quantity]}; install a newer Nsight Compute.")
    return plan


def plan_for(compute_capability: str, available: frozenset[str]) -> MetricPlan:
    """Choose metrics as ``metrics_for`` does, but allow missing float32 counts (imported files)."""
    major, _, minor = compute_capability.partition(".")
    version = (int(major), int(minor))
    if version < (7, 0):
        raise RecordError(
            f"ncu counts on GPUs of compute capability 7.0 (Volta) or more, this one has "
            f"{compute_capability}; use such a GPU."
        )
    missing: dict[str, str] = {}
    factors = _cuda_core_factors(available, missing)
    factors[TENSOR_CORE] = dict.fromkeys(_tensor_metrics(available), 1)
    if version in _VOLTA_CAPABILITIES and not factors[TENSOR_CORE] and _VOLTA_METRIC in available:
        factors[TENSOR_CORE] = {f"{_VOLTA_METRIC}.sum": _VOLTA_HMMA_FLOPS}
    if not factors[TENSOR_CORE]:
        missing[TENSOR_CORE] = (
            "this ncu lists no metric of tensor-core operations for compute capability "
            f"{compute_capability}"
        )
    for quantity, alternatives in BYTES.items():
        listed = [metrics for metrics in alternatives if available.issuperset(metrics)]
        if listed:
            factors[quantity] = {f"{metric}.sum": 1 for metric in listed[0]}
        else:
            missing[quantity] = f"this ncu lists no {alternatives[0][0]}"
    counted = {quantity: factors[quantity] for quantity in factors if quantity not in missing}
    return MetricPlan(counted, missing)


def _cuda_core_factors(
    available: frozenset[str], missing: dict[str, str]
) -> dict[str, dict[str, int]]:
    """Return each quantity's metrics of instructions, as ``MetricPlan.factors``.

    Adds quantities that lack a metric to ``missing``, unless it is of a packed instruction.
    """
    factors: dict[str, dict[str, int]] = {quantity: {} for quantity in (CUDA_CORE, *FP32_FLOPS)}
    instructions = _INSTRUCTIONS | _PACKED_INSTRUCTIONS
    for name, (flops, fp32_quantity) in instructions.items():
        suffix = f"sass_thread_inst_executed_op_{name}_pred_on"
        # Count per part of an SM if ncu lists that metric, else per SM.
        listed = [metric for metric in (f"smsp__{suffix}", f"sm__{suffix}") if metric in available]
        if listed:
            metric = f"{listed[0]}.sum"
            factors[CUDA_CORE][metric] = flops
            if fp32_quantity:
                factors[fp32_quantity][metric] = flops // FP32_FLOPS[fp32_quantity]
        elif name not in _PACKED_INSTRUCTIONS:
            missing.setdefault(CUDA_CORE, f"this ncu lists no smsp__{suffix}")
            if fp32_quantity:
                missing[fp32_quantity] = f"this ncu lists no smsp__{suffix}"
    return factors


def _tensor_metrics(available: frozenset[str]) -> list[str]:
    """Choose the coarsest metrics that count every floating-point path once.

    A metric includes every metric that has the same and more qualifiers.  For example,
    ``src_bf16_dst_fp32`` includes ``op_hgmma_src_bf16_dst_fp32_sparsity_off``.
    """
    paths = [path for path in map(_TENSOR_PATH.fullmatch, sorted(available)) if path]
    scope = "sm" if any(path["scope"] == "sm" for path in paths) else "smsp"
    paths = [path for path in paths if path["scope"] == scope]
    metrics = []
    for path in paths:
        if not any(other is not path and _includes(other, path) for other in paths):
            metrics.append(f"{path[0]}.sum")
    return metrics


def _includes(wide: re.Match[str], narrow: re.Match[str]) -> bool:
    """Tell whether the path ``narrow`` has all qualifiers of the path ``wide``."""
    qualifiers = {name: value for name, value in wide.groupdict().items() if value is not None}
    return qualifiers.items() <= narrow.groupdict().items()
