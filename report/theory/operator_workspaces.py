"""What an operator allocates on a CPU beside its results, where a verified rule gives it; pure.

The rules of convolutions, batch normalisation and means are those of ``theory.workspaces``, read
from the operator instead of a layer.  Operators that were seen to take nothing stand by name; of
all others, and of all in reduced precision, nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import msgspec

from report.records.layers import BatchNorm, Convolution, Layer, Pooling
from report.records.operations import ITEM_BYTES, Operator, Tensor
from report.theory.avx2_kernels import BLOCK
from report.theory.convolution_workspaces import computed_by_pytorch, on_avx2
from report.theory.memory import output_bytes
from report.theory.operators import KINDS
from report.theory.workspaces import Conditions, largest, moments, unknown_workspace

#: Seen to take nothing beside their results in float32, on one thread and on two (a test repeats
#: it with the allocator's events).
TAKES_NOTHING: Final = frozenset({
    "relu", "relu_", "hardtanh", "hardtanh_", "sigmoid", "sigmoid_", "tanh", "gelu", "silu",
    "silu_", "hardswish", "hardswish_", "hardsigmoid", "leaky_relu", "sin", "cos", "clamp_min",
    "addmm", "mm", "bmm", "baddbmm", "cat", "stack", "clone", "_to_copy", "max_pool2d_with_indices",
    "avg_pool2d", "constant_pad_nd", "embedding", "linalg_vector_norm",
})  # fmt: skip
#: Operators on two tensors, or on a tensor and a number, which becomes one: in float64 and float32.
_ARITHMETIC: Final = frozenset({"add", "add_", "sub", "mul", "mul_", "div"})
_NUMBER_BYTES: Final = 12
_TRIED: Final = frozenset({"float32", "int64"})


def workspace(operator: Operator, conditions: Conditions) -> int | None:
    """Bytes beside results at the largest moment of an operator; None where no rule tells."""
    types = {tensor.dtype for found in operator.reads.values() for tensor in found}
    takes_nothing = types <= _TRIED and operator.base in TAKES_NOTHING
    if takes_nothing or KINDS.get(operator.base) in ("view", "creation"):
        return 0
    if not types <= _TRIED:
        return None
    if operator.base in OF_OPERATORS:
        return OF_OPERATORS[operator.base](operator, conditions)
    rule = _OF_LAYERS.get(operator.base)
    layer = rule(operator) if rule is not None else None
    conditions = _in_layout(conditions, operator)
    if isinstance(layer, Convolution):
        return _of_convolution(operator, layer, conditions)
    if layer is None or unknown_workspace(layer, conditions):
        return None
    return _largest(layer, conditions)


def _largest(layer: Layer, conditions: Conditions) -> int:
    """What the layer's own rules give for its largest moment, beside the output."""
    moment = largest(layer, moments(layer, conditions))
    return moment.amount - (0 if moment.with_output else output_bytes(layer))


def _of_convolution(operator: Operator, layer: Convolution, conditions: Conditions) -> int | None:
    """Its kernel's, and copies of input and weight that lie in another layout."""
    last = conditions.layout == "channels_last"
    read = (operator.tensor("input"), operator.tensor("weight"))
    copies = sum(_bytes(t) for t in read if t is not None and not _is_packed(t, last))
    if conditions.block == BLOCK:
        if copies and computed_by_pytorch(layer, conditions):
            return None
        taken = on_avx2(layer, conditions)
    elif unknown_workspace(layer, conditions) or _untried(layer, conditions):
        return None
    else:
        taken = _largest(layer, conditions)
    return None if taken is None else taken + copies


def _untried(layer: Convolution, conditions: Conditions) -> bool:
    """Whether a convolution on AVX-512 lies outside of what the rules of layers were met on.

    Padding beyond a row of the output sends it to another kernel; channels-last weights lie in
    blocks of up to four vectors, which is known of whole blocks.
    """
    if conditions.layout == "channels_last":
        channels = layer.output_shape[1]
        return channels > conditions.block and channels % (4 * conditions.block) != 0
    return layer.padding[1] > min(3, layer.output_shape[3])


def _bytes(tensor: Tensor) -> int:
    return tensor.elements * ITEM_BYTES[tensor.dtype]


def _in_layout(conditions: Conditions, operator: Operator) -> Conditions:
    """The conditions with the layout that a convolution takes: its input's, or its weight's."""
    read = (operator.tensor(name) for name in ("input", "weight"))
    last = any(tensor is not None and _is_channels_last(tensor) for tensor in read)
    return replace(conditions, layout="channels_last" if last else "contiguous")


def _is_channels_last(tensor: Tensor) -> bool:
    """PyTorch's own rule (``is_channels_last_strides_2d``), which single pixels satisfy too."""
    if len(tensor.shape) != 4:
        return False
    least = 0
    for place in (1, 3, 2, 0):
        stride, extent = tensor.strides[place], tensor.shape[place]
        if extent == 0 or stride < least or (place == 0 and least == tensor.strides[1]):
            return False
        least = stride * max(extent, 1)
    return True


def _is_packed(tensor: Tensor, channels_last: bool = False) -> bool:
    """Whether elements follow one another in the order of extents, or with the channels last."""
    order = (1, 3, 2, 0) if channels_last else tuple(reversed(range(len(tensor.shape))))
    expected = 1
    for place in order:
        if tensor.shape[place] != 1 and tensor.strides[place] != expected:
            return False
        expected *= tensor.shape[place]
    return True


# ----------------------------------------------------------------------------------- of operators


def _of_arithmetic(operator: Operator, conditions: Conditions) -> int | None:
    if operator.tensor("other") is not None:
        return 0
    return None if operator.base.endswith("_") else _NUMBER_BYTES


def _of_power(operator: Operator, conditions: Conditions) -> int | None:
    """A number that is raised becomes a tensor."""
    return _NUMBER_BYTES if operator.name == "pow.Scalar" else None


def _of_mean(operator: Operator, conditions: Conditions) -> int | None:
    """The divisor; a single result is computed otherwise."""
    return _NUMBER_BYTES if operator.writes[0].elements > 1 else None


def _of_rows(operator: Operator, conditions: Conditions) -> int | None:
    """A copy of an input whose elements are in another order."""
    source = operator.tensor("input") or operator.tensor("self")
    if source is None:
        return None
    return 0 if _is_packed(source) else _bytes(source)


def _of_group_norm(operator: Operator, conditions: Conditions) -> int | None:
    source = operator.tensor("input")
    return 0 if source is not None and _is_packed(source) else None


def _of_index(operator: Operator, conditions: Conditions) -> int | None:
    """Rows by one list of numbers; masks and several lists were not tried."""
    rows = operator.tensor("indices")
    return 0 if rows is not None and rows.dtype == "int64" else None


def _of_repeat(operator: Operator, conditions: Conditions) -> int:
    """Extents, strides and both once more as tensors of int64."""
    return 4 * 8 * len(operator.writes[0].shape)


def _of_roll(operator: Operator, conditions: Conditions) -> int | None:
    """Each extent is rolled into a tensor of its own."""
    dims = operator.settings.get("dims")
    if not isinstance(dims, tuple) or len(dims) not in (1, 2):
        return None
    return (len(dims) - 1) * _bytes(operator.writes[0])


def _of_attention(operator: Operator, conditions: Conditions) -> int | None:
    """For each thread a block of scores, their sums and maxima, and a block of the result.

    ``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp``: queries in blocks of 32, of 64 from 192
    on, of 256 from 768 on; keys in blocks of 512.
    """
    query, key = operator.tensor("query"), operator.tensor("key")
    if query is None or key is None:
        return None
    length = query.shape[-2]
    rows = 256 if length >= 768 else 64 if length >= 192 else 32
    rows, columns = min(rows, length), min(512, key.shape[-2])
    return conditions.threads * rows * (columns + 2 + query.shape[-1]) * 4


#: Rules of operators, by their names.
OF_OPERATORS: Final[Mapping[str, Callable[[Operator, Conditions], int | None]]] = {
    **dict.fromkeys(_ARITHMETIC, _of_arithmetic),
    "pow": _of_power,
    "mean": _of_mean,
    **dict.fromkeys(("native_layer_norm", "_softmax", "_log_softmax"), _of_rows),
    "native_group_norm": _of_group_norm,
    "index": _of_index,
    "repeat": _of_repeat,
    "roll": _of_roll,
    "_scaled_dot_product_flash_attention_for_cpu": _of_attention,
}


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
    geometry = {
        name: _pair(operator.settings.get(name)) for name in ("stride", "padding", "dilation")
    }
    if common is None or weight is None or len(weight.shape) != 4 or None in geometry.values():
        return None
    groups, transposed = operator.settings.get("groups"), operator.settings.get("transposed")
    made = {
        **common,
        **geometry,
        "kernel": weight.shape[2:],
        "groups": groups,
        "bias": operator.tensor("bias") is not None,
        "transposed": transposed,
    }
    return msgspec.convert(made, Convolution)


def _normalisation(operator: Operator) -> Layer | None:
    """Batch normalisation, by running statistics or without any; of training no rule is known."""
    common = _common(operator, "input")
    if common is None or (operator.settings.get("training") and operator.tensor("running_mean")):
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


_OF_LAYERS: Final[Mapping[str, Callable[[Operator], Layer | None]]] = {
    "convolution": _convolution,
    "native_batch_norm": _normalisation,
    "_native_batch_norm_legit_no_training": _normalisation,
    "mean": _mean,
}
