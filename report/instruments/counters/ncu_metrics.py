"""Metrics of Nsight Compute that count floating-point work and bytes on each GPU.

- CUDA cores: ``sass_thread_inst_executed_op_*``, thread instructions that are not masked out.  An
  addition or multiplication is 1 FLOP, a fused multiply-add 2.  Half-precision instructions work
  on pairs (HADD2, HMUL2, HFMA2) and count twice, as in Nsight Compute's roofline sections.
- Tensor cores: ``sm__ops_path_tensor_src_*``, FLOPs by precision of the source.  On Volta, where
  older versions have no such metric, a warp instruction (HMMA, 4 × 64 multiply-adds) is 512 FLOPs.

Names of metrics differ between versions, so that the list of ``ncu --query-metrics`` decides.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from report.core.errors import RecordError

ComputeUnit: TypeAlias = Literal["cuda_core", "tensor_core"]
Instruction: TypeAlias = Literal["add", "multiply", "multiply_add", "matrix"]

#: The name of a metric at the start of a line.
_METRIC_NAME: Final = re.compile(r'^\s*"?([a-z][a-z0-9]*__[a-z0-9_]+)', re.MULTILINE)


def metric_names(listing: str) -> frozenset[str]:
    """Return the names of metrics in the output of ``ncu --query-metrics``, a table or CSV."""
    return frozenset(_METRIC_NAME.findall(listing))


@dataclass(frozen=True)
class CountedTerm:
    """A metric that counts work: ``factor`` FLOPs per increment, by ``unit`` in ``precision``."""

    metric: str
    factor: int
    unit: ComputeUnit
    precision: str
    operation: Instruction


@dataclass(frozen=True)
class MetricPlan:
    """Metrics to count on a GPU.

    - ``terms``: metrics of work;
    - ``bytes``: level of memory → metrics whose sum is the level's bytes;
    - ``missing``: ``tensor_core``, precision or level that ncu cannot count → reason.
    """

    terms: tuple[CountedTerm, ...]
    bytes: Mapping[str, tuple[str, ...]]
    missing: Mapping[str, str]

    @property
    def metrics(self) -> tuple[str, ...]:
        """All metrics without repetitions, sorted, for ``--metrics``."""
        metrics = {term.metric for term in self.terms}
        for metrics_of_level in self.bytes.values():
            metrics.update(metrics_of_level)
        return tuple(sorted(metrics))


#: Thread instruction of the CUDA cores → precision, operation and FLOPs.
_INSTRUCTIONS: Final[dict[str, tuple[str, Instruction, int]]] = {
    "fadd": ("fp32", "add", 1),
    "fmul": ("fp32", "multiply", 1),
    "ffma": ("fp32", "multiply_add", 2),
    "dadd": ("fp64", "add", 1),
    "dmul": ("fp64", "multiply", 1),
    "dfma": ("fp64", "multiply_add", 2),
    "hadd": ("fp16", "add", 2),
    "hmul": ("fp16", "multiply", 2),
    "hfma": ("fp16", "multiply_add", 4),
}
#: Instruction on pairs of float32 numbers, only on Blackwell → precision, operation and FLOPs.
_PACKED_INSTRUCTIONS: Final[dict[str, tuple[str, Instruction, int]]] = {
    "fadd2": ("fp32", "add", 2),
    "fmul2": ("fp32", "multiply", 2),
    "ffma2": ("fp32", "multiply_add", 4),
}
#: Level of memory → alternative tuples of metrics, the preferred first; a tuple is summed.
_BYTES: Final[dict[str, tuple[tuple[str, ...], ...]]] = {
    "dram": (
        ("dram__bytes",),
        ("dram__bytes_read", "dram__bytes_write"),
        ("dram__bytes_op_read", "dram__bytes_op_write"),
    ),
    "l2": (("lts__t_bytes",),),
    "l1": (("l1tex__t_bytes",),),
}
#: Name of a metric of tensor cores: scope, operation, types of source and result, and sparsity.
_TENSOR_PATH: Final = re.compile(
    r"(?P<scope>smsp|sm)__ops_path_tensor_(?:op_(?P<op>[a-z]+)_)?"
    r"src_(?P<src>(?:fp|bf|tf)\d+(?:_(?:fp|bf|tf)\d+)*)"
    r"(?:_dst_(?P<dst>[a-z0-9]+))?(?:_sparsity_(?P<sparsity>on|off))?"
)
#: Compute capabilities of GPUs of the generation Volta.
_VOLTA_CAPABILITIES: Final = ((7, 0), (7, 2))
#: FLOPs of HMMA, the instruction of Volta's tensor cores, for one warp (32 threads).
_VOLTA_HMMA_FLOPS: Final = 512


def metrics_for(compute_capability: str, available: frozenset[str]) -> MetricPlan:
    """Choose the metrics for a GPU (``"9.0"``) among the names that ncu lists.

    Raises ``RecordError`` for a GPU before Volta, and if ncu lists no metric of float32 counts.
    """
    plan = plan_for(compute_capability, available)
    if "fp32" in plan.missing:
        raise RecordError(f"{plan.missing['fp32']}; install a newer Nsight Compute.")
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
    cuda_core_terms = _cuda_core_terms(available, missing)
    tensor_terms = _tensor_terms(available, version)
    if not tensor_terms:
        missing["tensor_core"] = (
            "this ncu lists no metric of tensor-core operations for compute capability "
            f"{compute_capability}"
        )
    byte_metrics = _byte_metrics(available, missing)
    return MetricPlan((*cuda_core_terms, *tensor_terms), byte_metrics, missing)


def _cuda_core_terms(available: frozenset[str], missing: dict[str, str]) -> list[CountedTerm]:
    """Choose metrics of instructions; add precisions without a metric to ``missing``."""
    terms = []
    instructions = _INSTRUCTIONS | _PACKED_INSTRUCTIONS
    for name, (precision, operation, factor) in instructions.items():
        suffix = f"sass_thread_inst_executed_op_{name}_pred_on"
        # Count per part of an SM if ncu lists that metric, else per SM.
        listed = [metric for metric in (f"smsp__{suffix}", f"sm__{suffix}") if metric in available]
        if listed:
            metric = f"{listed[0]}.sum"
            terms.append(CountedTerm(metric, factor, "cuda_core", precision, operation))
        elif name not in _PACKED_INSTRUCTIONS:  # GPUs without packed instructions list none
            missing.setdefault(precision, f"this ncu lists no smsp__{suffix}")
    # If one instruction of a precision cannot be counted, no instruction of this precision is.
    return [term for term in terms if term.precision not in missing]


def _tensor_terms(available: frozenset[str], version: tuple[int, int]) -> list[CountedTerm]:
    """Choose the coarsest metrics that count every floating-point path once.

    A metric includes every metric that has the same qualifiers and more: ``src_bf16_dst_fp32``
    includes ``op_hgmma_src_bf16_dst_fp32_sparsity_off``.
    """
    paths: list[re.Match[str]] = []
    for name in sorted(available):
        if path := _TENSOR_PATH.fullmatch(name):
            paths.append(path)
    scope = "sm" if any(path["scope"] == "sm" for path in paths) else "smsp"
    paths = [path for path in paths if path["scope"] == scope]
    terms = []
    for path in paths:
        if any(other is not path and _includes(other, path) for other in paths):
            continue
        # Before Ampere, the only path lists three types of sources, but computes in fp16.
        precision = "fp16" if version < (8, 0) else path["src"]
        terms.append(CountedTerm(f"{path[0]}.sum", 1, "tensor_core", precision, "matrix"))
    volta = "sm__inst_executed_pipe_tensor"
    if not terms and version in _VOLTA_CAPABILITIES and volta in available:
        terms.append(
            CountedTerm(f"{volta}.sum", _VOLTA_HMMA_FLOPS, "tensor_core", "fp16", "matrix")
        )
    return terms


def _includes(wide: re.Match[str], narrow: re.Match[str]) -> bool:
    """Tell whether the path ``narrow`` has all qualifiers of the path ``wide``."""
    for qualifier, value in wide.groupdict().items():
        if value is not None and narrow[qualifier] != value:
            return False
    return True


def _byte_metrics(available: frozenset[str], missing: dict[str, str]) -> dict[str, tuple[str, ...]]:
    """Choose metrics of bytes by level of memory; add levels without a metric to ``missing``."""
    chosen: dict[str, tuple[str, ...]] = {}
    for level, alternatives in _BYTES.items():
        listed = [metrics for metrics in alternatives if available.issuperset(metrics)]
        if listed:
            chosen[level] = tuple(f"{metric}.sum" for metric in listed[0])
        else:
            missing[level] = f"this ncu lists no {alternatives[0][0]}"
    return chosen
