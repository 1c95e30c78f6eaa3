"""Verified rules for the memory that operators allocate beside their results; pure.

Convolutions have rules in ``theory.convolution_workspaces``.  Operators without a workspace are
listed by name; the rules of the others follow events of the allocator.  All rules hold for float32.
In reduced precision the rules of convolutions, batch normalisation and means are lower bounds, and
other operators have no rule.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Final, TypeAlias

import msgspec

from report.core.records.layers import Convolution
from report.core.records.operations import ITEM_BYTES, Operator, Tensor
from report.theory.conditions import NOTHING, UNKNOWN, Conditions, Workspace
from report.theory.convolution_workspaces import (
    ALLOCATED,
    AVX2,
    computed_by_pytorch,
    convolution_workspace,
)
from report.theory.operators import kind_of
from report.theory.reconciliation import Term

#: Operators without a workspace in float32, on one thread and on two (a test repeats this with
#: the allocator's events).
TAKES_NOTHING: Final = frozenset({
    "relu", "relu_", "hardtanh", "hardtanh_", "sigmoid", "sigmoid_", "tanh", "gelu", "silu",
    "silu_", "hardswish", "hardswish_", "hardsigmoid", "leaky_relu", "sin", "cos", "clamp_min",
    "cat", "stack", "_to_copy", "constant_pad_nd", "embedding", "linalg_vector_norm",
})  # fmt: skip
#: Operators without a workspace on an H100 in float32 (a test compares the requests with the
#: history of the allocator).
TAKES_NOTHING_ON_GPU: Final = frozenset({
    "relu", "relu_", "tanh", "add", "add_", "constant_pad_nd", "native_batch_norm",
    "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d",
    "threshold_backward", "max_pool2d_with_indices_backward", "_log_softmax",
    "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward", "div",
})  # fmt: skip
#: Operators on two tensors, or on a tensor and a number, which becomes one: in float64 and float32.
_ARITHMETIC: Final = frozenset({"add", "add_", "sub", "mul", "mul_", "div"})
_NUMBER_BYTES: Final = 12
_FLOAT_BYTES: Final = 4
#: Elements of the block by which matrices are transposed, and multiply-adds of a small product.
_BLOCK: Final = 60 * 60
_SMALL_PRODUCT: Final = 400
_TRIED: Final = frozenset({"float32", "int64"})
Rule: TypeAlias = Callable[[Operator, Conditions], Workspace]


def workspace(operator: Operator, conditions: Conditions) -> Workspace:
    """Return the workspace of an operator at its largest moment, as far as rules tell."""
    types = {tensor.dtype for tensor in operator.read}
    if conditions.allocator is not None:
        tried = types <= _TRIED and not operator.settings.get("training")
        known = operator.base in TAKES_NOTHING_ON_GPU and tried
        return NOTHING if known or _computes_nothing(operator) else UNKNOWN
    if takes_nothing(operator):
        return NOTHING
    if types <= _TRIED:
        rule = _ALL.get(operator.base)
        return UNKNOWN if rule is None else rule(operator, conditions)
    rule = _IN_REDUCED_PRECISION.get(operator.base)
    if rule is None or not types <= _TRIED | {"bfloat16", "float16"}:
        return UNKNOWN
    return rule(operator, conditions)._replace(complete=False)


def takes_nothing(operator: Operator) -> bool:
    """Return whether an operator has no workspace, whatever the extents of its tensors."""
    tried = {tensor.dtype for tensor in operator.read} <= _TRIED
    return _computes_nothing(operator) or (operator.base in TAKES_NOTHING and tried)


def _computes_nothing(operator: Operator) -> bool:
    return kind_of(operator) in ("view", "creation")


def _taking(amount: int | None, name: str = "Workspace", formula: str = "") -> Workspace:
    return UNKNOWN if amount is None else Workspace((Term(name, amount, formula, ALLOCATED),))


def _bytes(tensor: Tensor) -> int:
    return tensor.elements * ITEM_BYTES[tensor.dtype]


# -------------------------------------------------------------------------------- convolutions


def _of_convolution(operator: Operator, conditions: Conditions) -> Workspace:
    """Return the kernel's workspace, and copies of input and weight in another layout."""
    layer = _as_layer(operator)
    if layer is None:
        return UNKNOWN
    read = [t for name in ("input", "weight") if (t := operator.tensor(name)) is not None]
    last = any(map(_is_channels_last, read))
    copies = sum(_bytes(tensor) for tensor in read if not _is_packed(tensor, last))
    if copies and conditions.block == AVX2 and computed_by_pytorch(layer, conditions):
        return UNKNOWN
    base = convolution_workspace(layer, last, conditions)
    if not copies:
        return base
    return base._replace(terms=(*base.terms, *_taking(copies, "Copies in its layout").terms))


def _as_layer(operator: Operator) -> Convolution | None:
    """Convert a convolution over two extents into a layer; None for other convolutions."""
    source, weight = operator.tensor("input"), operator.tensor("weight")
    if source is None or weight is None or len(weight.shape) != 4:
        return None
    geometry = {
        name: operator.settings[name]
        for name in ("stride", "padding", "dilation", "groups", "transposed")
    }
    fields = {
        "name": operator.module or "layer",
        "input_shape": source.shape,
        "output_shape": operator.writes[0].shape,
        "dtype": source.dtype,
        "kernel": weight.shape[2:],
        "bias": operator.tensor("bias") is not None,
        **geometry,
    }
    try:
        return msgspec.convert(fields, Convolution)
    except msgspec.ValidationError:
        return None


def _is_channels_last(tensor: Tensor) -> bool:
    """Apply PyTorch's rule (``is_channels_last_strides_2d``), which single pixels satisfy too."""
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
    """Return whether elements have no gaps in the order of extents, or with channels last."""
    order = (1, 3, 2, 0) if channels_last else tuple(reversed(range(len(tensor.shape))))
    expected = 1
    for place in order:
        if tensor.shape[place] != 1 and tensor.strides[place] != expected:
            return False
        expected *= tensor.shape[place]
    return True


# ------------------------------------------------------------------------------ other operators


def _of_arithmetic(operator: Operator, conditions: Conditions) -> Workspace:
    """Return the tensor into which PyTorch converts a number; untested in place."""
    if operator.tensor("other") is not None:
        return NOTHING
    known = operator.base != "pow" or operator.name == "pow.Scalar"
    return _taking(_NUMBER_BYTES if known and not operator.base.endswith("_") else None)


def _of_normalisation(operator: Operator, conditions: Conditions) -> Workspace:
    """Return one factor and one summand per channel in float32; training has no rule."""
    if operator.settings.get("training") and operator.tensor("running_mean"):
        return UNKNOWN
    channels = operator.reads["input"][0].shape[1]
    formula = f"2 · C · {_FLOAT_BYTES} B"
    return _taking(2 * channels * _FLOAT_BYTES, "Scale and shift", formula)


def _of_mean(operator: Operator, conditions: Conditions) -> Workspace:
    """Return the divisor; a single result is computed in another way.

    In reduced precision the input and the sums of whole maps are copied in float32, while the
    divisor is not alive.
    """
    name, source, result = "Workspace of the mean", operator.reads["self"][0], operator.writes[0]
    if result.dtype == "float32":
        return _taking(_NUMBER_BYTES if result.elements > 1 else None, name, f"{_NUMBER_BYTES} B")
    maps = operator.settings.get("dim") in ((2, 3), (-1, -2), (-2, -1))
    size = (source.elements + result.elements) * _FLOAT_BYTES
    formula = f"(input + output elements) · {_FLOAT_BYTES} B"
    return _taking(size if maps else None, name, formula)


def _copying(*names: str, last: bool = False) -> Rule:
    """Rule of a copy of an input with gaps; channels may be ``last``."""

    def rule(operator: Operator, conditions: Conditions) -> Workspace:
        source = next((t for name in names if (t := operator.tensor(name)) is not None), None)
        if source is None:
            return UNKNOWN
        known = _is_packed(source) or (
            last and len(source.shape) == 4 and _is_packed(source, channels_last=True)
        )
        return NOTHING if known else _taking(_bytes(source))

    return rule


def _of_product(operator: Operator, conditions: Conditions) -> Workspace:
    """Return copies of factors with gaps or repetitions (``prepare_matrix_for_blas``).

    A batch with such a factor is copied matrix by matrix; small products run without BLAS
    (``bmm_out_or_baddbmm_``).
    """
    *_, left, right = operator.read
    copies = sum(_bytes(tensor) for tensor in (left, right) if not _is_matrix(tensor))
    if not copies or len(left.shape) == 2:
        return _taking(copies)
    small = prod(left.shape[1:]) * right.shape[2] < _SMALL_PRODUCT
    return UNKNOWN if small else _taking(copies // left.shape[0])


def _is_matrix(tensor: Tensor) -> bool:
    """Return whether BLAS reads a matrix in place: packed rows or columns without overlap."""
    (rows, columns), (down, across) = tensor.shape[-2:], tensor.strides[-2:]
    by_rows = across == 1 and down >= max(1, columns)
    return by_rows or (down == 1 and across >= max(1, rows))


def _of_clone(operator: Operator, conditions: Conditions) -> Workspace:
    """Return a block of 60 × 60 for transposing a matrix (``copy_same_type_transpose_``)."""
    source, result = operator.reads["self"][0], operator.writes[0]
    turned = len(source.shape) == 2 and source.strides == (1, source.shape[0])
    if not turned or not _is_packed(result) or source.elements < _BLOCK:
        return NOTHING
    return _taking(_BLOCK * ITEM_BYTES[source.dtype])


def _of_group_norm(operator: Operator, conditions: Conditions) -> Workspace:
    """Return nothing for a packed input; other inputs have no rule."""
    source = operator.tensor("input")
    return NOTHING if source is not None and _is_packed(source) else UNKNOWN


def _of_index(operator: Operator, conditions: Conditions) -> Workspace:
    """Return nothing for rows by one list of numbers; masks and several lists are untested."""
    rows = operator.tensor("indices")
    return NOTHING if rows is not None and rows.dtype == "int64" else UNKNOWN


def _of_repeat(operator: Operator, conditions: Conditions) -> Workspace:
    """Return the int64 tensors of extents and strides, two of each."""
    return _taking(4 * 8 * len(operator.writes[0].shape))


def _of_roll(operator: Operator, conditions: Conditions) -> Workspace:
    """Return one tensor per rolled extent; the last one is the result."""
    dims = operator.settings.get("dims")
    if not isinstance(dims, tuple) or len(dims) not in (1, 2):
        return UNKNOWN
    return _taking((len(dims) - 1) * _bytes(operator.writes[0]))


def _of_attention(operator: Operator, conditions: Conditions) -> Workspace:
    """Return, per thread, a block of scores, their sums and maxima, and a block of the result.

    ``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp``: queries in blocks of 32, of 64 from 192
    on, of 256 from 768 on; keys in blocks of 512.
    """
    query, key = operator.tensor("query"), operator.tensor("key")
    if query is None or key is None:
        return UNKNOWN
    length = query.shape[-2]
    rows = 256 if length >= 768 else 64 if length >= 192 else 32
    rows, columns = min(rows, length), min(512, key.shape[-2])
    return _taking(conditions.threads * rows * (columns + 2 + query.shape[-1]) * 4)


#: Rules of operators, by their names.
OF_OPERATORS: Final[Mapping[str, Rule]] = {
    **dict.fromkeys((*_ARITHMETIC, "pow"), _of_arithmetic),
    "mean": _of_mean,
    "clone": _of_clone,
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), _of_product),
    **dict.fromkeys(
        ("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d"),
        _copying("self", last=True),
    ),
    **dict.fromkeys(("native_layer_norm", "_softmax", "_log_softmax"), _copying("input", "self")),
    "native_group_norm": _of_group_norm,
    "index": _of_index,
    "repeat": _of_repeat,
    "roll": _of_roll,
    "_scaled_dot_product_flash_attention_for_cpu": _of_attention,
}
_IN_REDUCED_PRECISION: Final[Mapping[str, Rule]] = {
    "convolution": _of_convolution,
    "native_batch_norm": _of_normalisation,
    "_native_batch_norm_legit_no_training": _of_normalisation,
    "mean": _of_mean,
}
_ALL: Final = {**OF_OPERATORS, **_IN_REDUCED_PRECISION}
