"""Verified formulas for the memory that operators allocate besides results (workspace).

An operator without a formula has an unknown workspace (``UNKNOWN_WORKSPACE``) of at least 0 bytes.
``theory.convolution_workspaces`` has the formulas of convolutions.  Operators without a workspace
are listed by name.  The other formulas were derived from events of the allocator.  All formulas are
for float32.  In reduced precision the formulas of convolutions, batch normalisation and means are
lower bounds, and the workspace of other operators is unknown.
"""

from collections.abc import Callable, Mapping
from math import prod
from typing import Final, TypeAlias

import msgspec

from report.core.records.layers import Convolution
from report.core.records.operations import ITEM_BYTES, Operator, Tensor
from report.theory.conditions import NO_WORKSPACE, UNKNOWN_WORKSPACE, Conditions, Workspace
from report.theory.convolution_workspaces import (
    ALLOCATOR_EVENT,
    AVX2_BLOCK,
    computed_by_pytorch,
    convolution_workspace,
)
from report.theory.operators import kind_of
from report.theory.reconciliation import Term

#: Operators without a workspace in float32, on one thread and on two (a test checks this with
#: events of the allocator).
WITHOUT_WORKSPACE: Final = frozenset({
    "relu", "relu_", "hardtanh", "hardtanh_", "sigmoid", "sigmoid_", "tanh", "gelu", "silu",
    "silu_", "hardswish", "hardswish_", "hardsigmoid", "leaky_relu", "sin", "cos", "clamp_min",
    "cat", "stack", "_to_copy", "constant_pad_nd", "embedding", "linalg_vector_norm",
})  # fmt: skip
#: Operators without a workspace on an H100 in float32 (a test checks this with the history of the
#: allocator).
WITHOUT_WORKSPACE_ON_GPU: Final = frozenset({
    "relu", "relu_", "tanh", "add", "add_", "constant_pad_nd", "native_batch_norm",
    "max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d",
    "threshold_backward", "max_pool2d_with_indices_backward", "_log_softmax",
    "_log_softmax_backward_data", "nll_loss_forward", "nll_loss_backward", "div",
})  # fmt: skip
#: Operators on two tensors, or on a tensor and a number.
_ARITHMETIC: Final = frozenset({"add", "add_", "sub", "mul", "mul_", "div"})
#: Bytes of the tensors to which PyTorch converts a number: one in float64, then one in float32.
_NUMBER_BYTES: Final = 12
#: Bytes of an element in float32.
_FLOAT_BYTES: Final = 4
#: Elements of the block in which PyTorch transposes a matrix.
_TRANSPOSED_BLOCK: Final = 60 * 60
#: Number of multiply-adds from which a batched product uses BLAS.
_SMALL_PRODUCT: Final = 400
#: Types of elements for which formulas were tested.
_TESTED_TYPES: Final = frozenset({"float32", "int64"})
#: Computes the workspace of an operator.
WorkspaceFormula: TypeAlias = Callable[[Operator, Conditions], Workspace]


def workspace(operator: Operator, conditions: Conditions) -> Workspace:
    """Return an operator's workspace: a lower bound (not ``complete``) if its size is unknown."""
    types = {tensor.dtype for tensor in operator.read_tensors}
    if conditions.allocator is not None:
        is_tested = types <= _TESTED_TYPES and not operator.settings.get("training")
        known = operator.base_name in WITHOUT_WORKSPACE_ON_GPU and is_tested
        return NO_WORKSPACE if known or _computes_nothing(operator) else UNKNOWN_WORKSPACE
    if has_no_workspace(operator):
        return NO_WORKSPACE
    if types <= _TESTED_TYPES:
        compute = _ALL_FORMULAS.get(operator.base_name)
        return UNKNOWN_WORKSPACE if compute is None else compute(operator, conditions)
    compute = _REDUCED_PRECISION_FORMULAS.get(operator.base_name)
    if compute is None or not types <= _TESTED_TYPES | {"bfloat16", "float16"}:
        return UNKNOWN_WORKSPACE
    return compute(operator, conditions)._replace(complete=False)


def has_no_workspace(operator: Operator) -> bool:
    """Tell whether an operator has no workspace on a CPU, whatever the size of its tensors."""
    is_tested = {tensor.dtype for tensor in operator.read_tensors} <= _TESTED_TYPES
    return _computes_nothing(operator) or (operator.base_name in WITHOUT_WORKSPACE and is_tested)


def _computes_nothing(operator: Operator) -> bool:
    """Tell whether an operator is a view, or creates a tensor."""
    return kind_of(operator) in ("view", "creation")


def _workspace_of_bytes(
    amount: int | None, name: str = "Workspace", formula: str = ""
) -> Workspace:
    """Return a workspace of one term (B), or ``UNKNOWN_WORKSPACE`` if ``amount`` is None."""
    if amount is None:
        return UNKNOWN_WORKSPACE
    return Workspace((Term(name, amount, formula, ALLOCATOR_EVENT),))


def _bytes(tensor: Tensor) -> int:
    return tensor.elements * ITEM_BYTES[tensor.dtype]


def _workspace_of_convolution(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: the kernel's workspace, and copies of input and weight with another layout."""
    layer = _as_layer(operator)
    if layer is None:
        return UNKNOWN_WORKSPACE
    read = [*filter(None, (operator.tensor("input"), operator.tensor("weight")))]
    channels_last = any(map(_is_channels_last, read))
    copies = sum(_bytes(tensor) for tensor in read if not _is_packed(tensor, channels_last))
    if (
        copies
        and conditions.channels_per_block == AVX2_BLOCK
        and computed_by_pytorch(layer, conditions)
    ):
        return UNKNOWN_WORKSPACE
    workspace = convolution_workspace(layer, channels_last, conditions)
    if not copies:
        return workspace
    copied = Term("Copies in its layout", copies, "", ALLOCATOR_EVENT)
    return workspace._replace(terms=(*workspace.terms, copied))


def _as_layer(operator: Operator) -> Convolution | None:
    """Convert a two-dimensional convolution to a layer; return None for other convolutions."""
    source, weight = operator.tensor("input"), operator.tensor("weight")
    if source is None or weight is None or len(weight.shape) != 4:
        return None
    names = ("stride", "padding", "dilation", "groups", "transposed")
    geometry = {name: operator.settings[name] for name in names}
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
    """Tell whether PyTorch calls a tensor channels-last; gaps between elements are allowed.

    The function repeats PyTorch's ``is_channels_last_strides_2d``.
    """
    if len(tensor.shape) != 4:
        return False
    least_stride = 0
    for axis in (1, 3, 2, 0):
        stride, extent = tensor.strides[axis], tensor.shape[axis]
        # With one value per image, equal strides fit both layouts: PyTorch calls them contiguous.
        is_ambiguous = axis == 0 and least_stride == tensor.strides[1]
        if extent == 0 or stride < least_stride or is_ambiguous:
            return False
        least_stride = stride * extent
    return True


def _is_packed(tensor: Tensor, channels_last: bool = False) -> bool:
    """Tell whether elements follow without gaps in the order of axes, or with channels last."""
    order = (1, 3, 2, 0) if channels_last else tuple(reversed(range(len(tensor.shape))))
    expected_stride = 1
    for axis in order:
        if tensor.shape[axis] != 1 and tensor.strides[axis] != expected_stride:
            return False
        expected_stride *= tensor.shape[axis]
    return True


def _workspace_of_arithmetic(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: none for two tensors, or the tensors to which PyTorch converts a number.

    With a number, the workspace of in-place operators and of powers of a tensor is unknown.
    """
    if operator.tensor("other") is not None:
        return NO_WORKSPACE
    is_power_of_tensor = operator.base_name == "pow" and operator.name != "pow.Scalar"
    if is_power_of_tensor or operator.base_name.endswith("_"):
        return UNKNOWN_WORKSPACE
    return _workspace_of_bytes(_NUMBER_BYTES)


def _workspace_of_normalisation(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: scale and shift per channel; unknown if training updates running statistics."""
    if operator.settings.get("training") and operator.tensor("running_mean"):
        return UNKNOWN_WORKSPACE
    channels = operator.reads["input"][0].shape[1]
    formula = f"2 · C · {_FLOAT_BYTES} B"
    return _workspace_of_bytes(2 * channels * _FLOAT_BYTES, "Scale and shift", formula)


def _workspace_of_mean(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: the divisor; it is unknown for a single result, which is computed differently.

    In reduced precision, the divisor is not allocated, and input and sums are copied to float32.
    The copies are known for means over whole maps (height and width) only.
    """
    name, source, result = "Workspace of the mean", operator.reads["self"][0], operator.writes[0]
    if result.dtype == "float32":
        size = _NUMBER_BYTES if result.elements > 1 else None
        return _workspace_of_bytes(size, name, f"{_NUMBER_BYTES} B")
    over_maps = operator.settings.get("dim") in ((2, 3), (-1, -2), (-2, -1))
    size = (source.elements + result.elements) * _FLOAT_BYTES if over_maps else None
    return _workspace_of_bytes(size, name, f"(input + output elements) · {_FLOAT_BYTES} B")


def _copy_formula(*names: str, allows_channels_last: bool = False) -> WorkspaceFormula:
    """Return a formula for operators that copy an input with gaps between elements.

    ``names``: possible names of the input.  With ``allows_channels_last``, a four-dimensional input
    in channels-last layout is not copied.
    """

    def copy_workspace(operator: Operator, conditions: Conditions) -> Workspace:
        source = next(filter(None, map(operator.tensor, names)), None)
        if source is None:
            return UNKNOWN_WORKSPACE
        may_be_last = allows_channels_last and len(source.shape) == 4
        if _is_packed(source) or (may_be_last and _is_packed(source, channels_last=True)):
            return NO_WORKSPACE
        return _workspace_of_bytes(_bytes(source))

    return copy_workspace


def _workspace_of_product(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: copies of factors that BLAS cannot read in place (``prepare_matrix_for_blas``).

    A factor with a batch is copied matrix by matrix.  Small products with a batch run without BLAS
    (``bmm_out_or_baddbmm_``), and their workspace is unknown if a factor would be copied.
    """
    *_, left, right = operator.read_tensors
    copies = sum(_bytes(tensor) for tensor in (left, right) if not _is_matrix(tensor))
    if not copies or len(left.shape) == 2:
        return _workspace_of_bytes(copies)
    small = prod(left.shape[1:]) * right.shape[2] < _SMALL_PRODUCT
    return UNKNOWN_WORKSPACE if small else _workspace_of_bytes(copies // left.shape[0])


def _is_matrix(tensor: Tensor) -> bool:
    """Tell whether BLAS can read a matrix in place: contiguous rows or columns, no overlap."""
    (rows, columns), (down, across) = tensor.shape[-2:], tensor.strides[-2:]
    by_rows = across == 1 and down >= max(1, columns)
    return by_rows or (down == 1 and across >= max(1, rows))


def _workspace_of_clone(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: the block for transposing a large matrix (``copy_same_type_transpose_``)."""
    source, result = operator.reads["self"][0], operator.writes[0]
    is_transposed = len(source.shape) == 2 and source.strides == (1, source.shape[0])
    if not is_transposed or not _is_packed(result) or source.elements < _TRANSPOSED_BLOCK:
        return NO_WORKSPACE
    return _workspace_of_bytes(_TRANSPOSED_BLOCK * ITEM_BYTES[source.dtype])


def _workspace_of_group_norm(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: none for contiguous input; it is unknown for other input."""
    source = operator.tensor("input")
    return NO_WORKSPACE if source is not None and _is_packed(source) else UNKNOWN_WORKSPACE


def _workspace_of_index(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: none for one list of indices; it is unknown for masks and several lists."""
    rows = operator.tensor("indices")
    return NO_WORKSPACE if rows is not None and rows.dtype == "int64" else UNKNOWN_WORKSPACE


def _workspace_of_repeat(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: four int64 tensors, two of extents and two of strides, with a number per axis."""
    return _workspace_of_bytes(4 * 8 * len(operator.writes[0].shape))


def _workspace_of_roll(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: an intermediate tensor if two axes are rolled; it is unknown for more axes."""
    dims = operator.settings.get("dims")
    if not isinstance(dims, tuple) or len(dims) not in (1, 2):
        return UNKNOWN_WORKSPACE
    return _workspace_of_bytes((len(dims) - 1) * _bytes(operator.writes[0]))


def _workspace_of_attention(operator: Operator, conditions: Conditions) -> Workspace:
    """Workspace: blocks of scores and of the result, with sums and maxima of scores, per thread.

    Keys are in blocks of 512.  Queries are in blocks of 32, or of 64 for 192 queries or more, or of
    256 for 768 or more (``aten/src/ATen/native/cpu/FlashAttentionKernel.cpp``).
    """
    query, key = operator.tensor("query"), operator.tensor("key")
    if query is None or key is None:
        return UNKNOWN_WORKSPACE
    length = query.shape[-2]
    rows = 256 if length >= 768 else 64 if length >= 192 else 32
    rows, columns = min(rows, length), min(512, key.shape[-2])
    return _workspace_of_bytes(
        conditions.threads * rows * (columns + 2 + query.shape[-1]) * _FLOAT_BYTES
    )


_POOLS: Final = ("max_pool2d_with_indices", "avg_pool2d", "_adaptive_avg_pool2d")
#: Operator → formula of the workspace that is valid only in float32.
WORKSPACE_FORMULAS: Final[Mapping[str, WorkspaceFormula]] = {
    **dict.fromkeys((*_ARITHMETIC, "pow"), _workspace_of_arithmetic),
    "mean": _workspace_of_mean,
    "clone": _workspace_of_clone,
    **dict.fromkeys(("mm", "addmm", "bmm", "baddbmm"), _workspace_of_product),
    **dict.fromkeys(_POOLS, _copy_formula("self", allows_channels_last=True)),
    **dict.fromkeys(
        ("native_layer_norm", "_softmax", "_log_softmax"), _copy_formula("input", "self")
    ),
    "native_group_norm": _workspace_of_group_norm,
    "index": _workspace_of_index,
    "repeat": _workspace_of_repeat,
    "roll": _workspace_of_roll,
    "_scaled_dot_product_flash_attention_for_cpu": _workspace_of_attention,
}
#: Operator → formula that is a lower bound in reduced precision.
_REDUCED_PRECISION_FORMULAS: Final[Mapping[str, WorkspaceFormula]] = {
    "convolution": _workspace_of_convolution,
    "native_batch_norm": _workspace_of_normalisation,
    "_native_batch_norm_legit_no_training": _workspace_of_normalisation,
    "mean": _workspace_of_mean,
}
_ALL_FORMULAS: Final = {**WORKSPACE_FORMULAS, **_REDUCED_PRECISION_FORMULAS}
