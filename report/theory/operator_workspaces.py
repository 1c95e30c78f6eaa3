"""What an operator allocates on a CPU beside its results, where a verified rule gives it; pure.

The rules of convolutions, batch normalisation and means are those of ``theory.workspaces``, read
from the operator instead of a layer.  Operators that were seen to take nothing stand by name; of
all others nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, get_args

import msgspec

from report.records.layers import BatchNorm, Convolution, DType, Layer, Pooling
from report.records.operations import ITEM_BYTES, Operator, Tensor
from report.theory.operators import KINDS
from report.theory.workspaces import Conditions, largest, moments, unknown_workspace

_TYPES: Final = frozenset(get_args(DType))
#: Seen to take nothing beside their results in float32, on one thread and on two (a test repeats
#: it with the allocator's events).
TAKES_NOTHING: Final = frozenset({
    "relu", "relu_", "hardtanh", "hardtanh_", "sigmoid", "sigmoid_", "tanh", "gelu", "silu",
    "silu_", "hardswish", "hardswish_", "hardsigmoid", "leaky_relu",
    "addmm", "mm", "bmm", "baddbmm", "cat", "clone", "max_pool2d_with_indices",
    "avg_pool2d", "_softmax", "_log_softmax", "constant_pad_nd", "embedding", "native_layer_norm",
})  # fmt: skip
#: Operators on two tensors, or on a tensor and a number, which becomes one: in float64 and float32.
ARITHMETIC: Final = frozenset({"add", "add_", "sub", "mul", "mul_", "div"})
_NUMBER_BYTES: Final = 12


def workspace(operator: Operator, conditions: Conditions) -> int | None:
    """Bytes beside results at the largest moment of an operator; None where no rule tells."""
    if KINDS.get(operator.base) in ("view", "creation"):
        return 0
    types = {tensor.dtype for found in operator.reads.values() for tensor in found}
    if operator.base in TAKES_NOTHING | ARITHMETIC:
        taken = _of_arithmetic(operator) if operator.base in ARITHMETIC else 0
        return taken if types <= {"float32", "int64"} else None
    rule = _RULES.get(operator.base)
    layer = rule(operator) if rule is not None and types <= _TYPES else None
    conditions = _in_layout(conditions, operator)
    if layer is None or unknown_workspace(layer, conditions):
        return None
    moment = largest(layer, moments(layer, conditions))
    missing = 0 if moment.with_output else _bytes(operator.writes[0])
    return moment.amount - missing


def _of_arithmetic(operator: Operator) -> int | None:
    if operator.tensor("other") is not None:
        return 0
    return None if operator.base.endswith("_") else _NUMBER_BYTES


def _bytes(tensor: Tensor) -> int:
    return tensor.elements * ITEM_BYTES[tensor.dtype]


def _in_layout(conditions: Conditions, operator: Operator) -> Conditions:
    """The conditions with the layout of the operator's own input."""
    source = operator.tensor("input") or operator.tensor("self")
    last = source is not None and _is_channels_last(source)
    return replace(conditions, layout="channels_last" if last else "contiguous")


def _is_channels_last(tensor: Tensor) -> bool:
    """Whether the channels of a pixel lie side by side; of one channel no one can tell."""
    return len(tensor.shape) == 4 and tensor.shape[1] > 1 and tensor.strides[1] == 1


# ------------------------------------------------------------------------------------ as layers


def _common(operator: Operator, source: str) -> dict[str, object] | None:
    read = operator.tensor(source)
    if read is None or not operator.writes:
        return None
    return {
        "name": operator.module or "layer",
        "input_shape": read.shape,
        "output_shape": operator.writes[0].shape,
        "dtype": read.dtype,
    }


def _pair(value: object) -> tuple[int, int] | None:
    if isinstance(value, tuple) and len(value) == 2 and all(isinstance(v, int) for v in value):
        return value
    return None


def _convolution(operator: Operator) -> Layer | None:
    """A convolution over two extents as a layer."""
    common, weight = _common(operator, "input"), operator.tensor("weight")
    told = {name: _pair(operator.settings.get(name)) for name in ("stride", "padding", "dilation")}
    if common is None or weight is None or len(weight.shape) != 4 or None in told.values():
        return None
    groups, transposed = operator.settings.get("groups"), operator.settings.get("transposed")
    made = {
        **common,
        **told,
        "kernel": weight.shape[2:],
        "groups": groups,
        "bias": operator.tensor("bias") is not None,
        "transposed": transposed,
    }
    return msgspec.convert(made, Convolution)


def _normalisation(operator: Operator) -> Layer | None:
    """Batch normalisation by running statistics; in training no rule is known."""
    common = _common(operator, "input")
    if common is None or operator.settings.get("training"):
        return None
    return msgspec.convert({**common, "affine": operator.tensor("weight") is not None}, BatchNorm)


def _mean(operator: Operator) -> Layer | None:
    """The mean of whole maps as a pooling; of other extents no rule is known."""
    common = _common(operator, "self")
    read = operator.tensor("self")
    if common is None or read is None or len(read.shape) != 4:
        return None
    if operator.settings.get("dim") not in ((2, 3), (-1, -2), (-2, -1)):
        return None
    window = read.shape[2:]
    made = {
        **common,
        "output_shape": (*read.shape[:2], 1, 1),
        "mode": "average",
        "kernel": window,
        "stride": window,
        "padding": (0, 0),
    }
    return msgspec.convert(made, Pooling)


_RULES: Final[Mapping[str, Callable[[Operator], Layer | None]]] = {
    "convolution": _convolution,
    "native_batch_norm": _normalisation,
    "_native_batch_norm_legit_no_training": _normalisation,
    "mean": _mean,
}
