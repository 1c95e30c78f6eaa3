"""Work and compulsory traffic of ATen's operators, as pure functions of shapes.

The formulas hold for every network, since all modules call the same few operators.  One
multiply-add is two floating-point operations.  Only convolutions, matrix products, attention and
recurrent layers have multiply-adds; other operators only move bytes (traffic).

Compulsory traffic counts every memory location that an operator must read once, and every location
that it must write once, in the types of the tensors.  Views move no bytes.  Access by index moves
rows, each row as often as its index occurs.  ``operator_work`` returns None for an operator that is
in no table, since its work and traffic are unknown, not 0.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain, zip_longest
from math import prod
from typing import Final, Literal, TypeAlias

from report.core.errors import StudyError
from report.core.records.operations import ITEM_BYTES, Operator, Tensor, occupied_bytes
from report.theory.work import Macs, share_of_data

Kind: TypeAlias = Literal[
    "convolution", "matrix product", "attention", "recurrent layer", "normalisation", "activation",
    "pooling", "softmax", "element-wise", "reduction", "embedding", "indexing", "copy",
    "concatenation", "interpolation", "sorting", "creation", "view",
]  # fmt: skip


@dataclass(frozen=True)
class OperatorWork:
    """Kind of an operator, its multiply-adds (MAC) and compulsory traffic (``bytes``).

    The ``effective`` multiply-adds exclude padding and causally masked scores.
    """

    kind: Kind
    multiply_adds: Macs
    bytes: int
    effective: Macs

    @property
    def flops(self) -> int:
        """Floating-point operations, two per multiply-add."""
        return 2 * self.multiply_adds


def operator_work(operator: Operator) -> OperatorWork | None:
    """Return work and compulsory traffic; return None if the operator is unknown."""
    kind = kind_of(operator)
    if kind is None:
        return None
    macs = multiply_adds(operator)
    effective = int(macs * _share_of_data(operator)) if macs else 0
    return OperatorWork(kind, Macs(macs), _traffic(operator, kind), Macs(effective))


def multiply_adds(operator: Operator) -> int:
    """Return the multiply-adds of an operator; return 0 if no formula has its name."""
    count = _MULTIPLY_ADD_FORMULAS.get(operator.base_name)
    return count(operator) if count else 0


def kind_of(operator: Operator) -> Kind | None:
    """Return an operator's kind or None; ``_foreach_add_`` (on lists) has the kind of ``add_``."""
    return KINDS.get(operator.base_name.removeprefix("_foreach_"))


def operands(operator: Operator) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return the tensors that an operator reads, and those that it writes, without repetitions.

    The tensors read include the table of an embedding, and a tensor that is read by index.
    """
    written = [*operator.writes]
    for name in operator.updates:
        written += operator.reads[name]
    skipped = operator.updates if operator.base_name in _OVERWRITING else ()
    return _read_except(operator, skipped), tuple(dict.fromkeys(written))


def _read_except(operator: Operator, names: Collection[str]) -> tuple[Tensor, ...]:
    """Return the tensors of all arguments except ``names``, without repetitions."""
    others = (tensors for name, tensors in operator.reads.items() if name not in names)
    return tuple(dict.fromkeys(chain.from_iterable(others)))


def _traffic(operator: Operator, kind: Kind) -> int:
    """Return the compulsory traffic of an operator (B)."""
    if kind == "view" or operator.base_name in _WRITES_NOTHING:
        return 0
    if operator.base_name in _WRITES_BY_INDEX:
        return occupied_bytes(_read_except(operator, ("self",))) + _written_by_index(operator)
    read, written = operands(operator)
    table = _INDEXED_ARGUMENT.get(operator.base_name)
    if table is None:
        return occupied_bytes(written) + occupied_bytes(read)
    rows = min(_read_by_index(operator, table, written), occupied_bytes(operator.reads[table]))
    return occupied_bytes(written) + rows + occupied_bytes(_read_except(operator, (table,)))


def _read_by_index(operator: Operator, table: str, written: Sequence[Tensor]) -> int:
    """Return the bytes read by index: the rows of a weight, or as many bytes as are written."""
    if table != "weight":
        return occupied_bytes(written)
    weight, rows = _tensor(operator, table), _tensor(operator, "indices").elements
    return rows * prod(weight.shape[1:]) * ITEM_BYTES[weight.dtype]


def _written_by_index(operator: Operator) -> int:
    """Return the bytes written by index; if old values are read first, they count too."""
    target = _tensor(operator, "self")
    indices = operator.reads.get("indices", ())
    # ``indices`` has an entry per axis; None selects the whole axis.
    is_indexed = operator.settings.get("indices", (True,) * len(indices))
    assert isinstance(is_indexed, tuple)
    extents = zip_longest(target.shape, is_indexed)
    whole_axes = (extent for extent, indexed in extents if not indexed)
    count = max((tensor.elements for tensor in indices), default=0) * prod(whole_axes)
    index, values = operator.tensor("index"), operator.tensor("values")
    if index is not None:
        count = index.elements
        dim = operator.settings.get("dim")
        if operator.base_name.startswith("index") and isinstance(dim, int):
            count *= target.elements // target.shape[dim]
    elif values is not None:
        count = max(count, values.elements)
    written = min(count, target.distinct_elements) * ITEM_BYTES[target.dtype]
    adds = "add" in operator.base_name or bool(operator.settings.get("accumulate"))
    return 2 * written if adds or "reduce" in operator.base_name else written


def _tensor(operator: Operator, name: str) -> Tensor:
    """Return the tensor of an argument; raise ``StudyError`` if there is no such tensor."""
    tensor = operator.tensor(name)
    if tensor is None:
        raise StudyError(
            f"operator {operator.name} of {operator.module or 'the network'}: found no tensor "
            f"{name!r}; capture the network again with the PyTorch version of constraints.txt."
        )
    return tensor


def _matrix_product(left: str, right: str) -> Callable[[Operator], int]:
    """Return a function that counts the multiply-adds of a (batched) matrix product.

    ``left`` and ``right`` are the names of the factors; sums run over the last axis of ``left``.
    """

    def macs(operator: Operator) -> int:
        first, second = _tensor(operator, left), _tensor(operator, right)
        columns = second.shape[-1] if len(second.shape) > 1 else 1
        return first.elements * columns

    return macs


def _convolution(operator: Operator) -> int:
    """Return ``N · positions · elements of the weight`` for every requested result.

    Positions are output positions, or input positions of a transposed convolution.  The weight has
    ``C_out · C_in / G · kernel`` elements.  Each gradient (of input, of weight) that a backward
    pass computes (``output_mask``) needs as many multiply-adds as the forward pass.
    """
    source = _tensor(operator, "input")
    result = operator.tensor("grad_output") or operator.writes[0]
    positions = (source if operator.settings.get("transposed") else result).shape[2:]
    per_result = source.shape[0] * prod(positions) * _tensor(operator, "weight").elements
    requested = operator.settings.get("output_mask", (True,))
    assert isinstance(requested, tuple)
    return per_result * sum(map(bool, requested[:2]))


def _attention(query_products: int, value_products: int) -> Callable[[Operator], int]:
    """Return a function that counts the multiply-adds of attention.

    For each pair of query and key the function counts ``query_products`` products as long as a
    query, and ``value_products`` products as long as a value.  Masked pairs count too.
    """

    def macs(operator: Operator) -> int:
        query, key, value = (_tensor(operator, name) for name in ("query", "key", "value"))
        pairs = prod(query.shape[:-1]) * key.shape[-2]
        return pairs * (query_products * query.shape[-1] + value_products * value.shape[-1])

    return macs


def _multi_head(operator: Operator) -> int:
    """Return the multiply-adds of self-attention with its projections and linear layers."""
    source = _tensor(operator, "query" if "query" in operator.reads else "src")
    batch, length, width = source.shape
    names = ("qkv_weight", "proj_weight", "ffn_weight_1", "ffn_weight_2")
    weights = sum(tensor.elements for tensor in map(operator.tensor, names) if tensor is not None)
    return batch * length * (weights + 2 * length * width)


def _recurrent_layer(*weights: str, uses: int) -> Callable[[Operator], int]:
    """Return a function that counts ``uses`` products with each weight per image and time step."""

    def macs(operator: Operator) -> int:
        length, batch, _ = _tensor(operator, "input").shape
        return uses * length * batch * sum(_tensor(operator, name).elements for name in weights)

    return macs


def _share_of_data(operator: Operator) -> Fraction:
    """Return the share of multiply-adds that use neither padding nor causally masked scores."""
    if operator.settings.get("is_causal"):
        queries, keys = (_tensor(operator, name).shape[-2] for name in ("query", "key"))
        unmasked = sum(min(row, keys) for row in range(1, queries + 1))
        return Fraction(unmasked, queries * keys)
    if KINDS[operator.base_name] != "convolution":
        return Fraction(1)
    source, kernel = (_tensor(operator, name).shape[2:] for name in ("input", "weight"))
    result = (operator.tensor("grad_output") or operator.writes[0]).shape[2:]
    windows = (_per_axis(operator, name, len(kernel)) for name in ("stride", "padding", "dilation"))
    transposed = bool(operator.settings["transposed"])
    return share_of_data(source, result, kernel, *windows, transposed=transposed)


def _per_axis(operator: Operator, name: str, axes: int) -> tuple[int, ...]:
    """Return the setting ``name`` for every axis; a single number is valid for all axes."""
    numbers = operator.settings[name]
    assert isinstance(numbers, tuple)
    return numbers * axes if len(numbers) == 1 else numbers  # type: ignore[return-value]


def _outer_product(operator: Operator) -> int:
    """Count the products of all pairs of elements of two vectors."""
    return _tensor(operator, "vec1").elements * _tensor(operator, "vec2").elements


#: Attention kernels, as they appear in names of ATen's operators.
_ATTENTION_KERNELS: Final = (
    "flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention",
)  # fmt: skip
#: Scores are products of queries and keys; results are products of scores and values.
_ATTENTION: Final = _attention(query_products=1, value_products=1)
#: The scores again, and gradients of queries and keys, are 3 products as long as a query.
#: Gradients of values and of scores are 2 products as long as a value.
_ATTENTION_BACKWARD: Final = _attention(query_products=3, value_products=2)
#: Operator → function that counts the operator's multiply-adds.
_MULTIPLY_ADD_FORMULAS: Final[Mapping[str, Callable[[Operator], int]]] = {
    "mm": _matrix_product("self", "mat2"),
    "addmm": _matrix_product("mat1", "mat2"),
    "bmm": _matrix_product("self", "mat2"),
    "baddbmm": _matrix_product("batch1", "batch2"),
    "addbmm": _matrix_product("batch1", "batch2"),
    "mv": _matrix_product("self", "vec"),
    "addmv": _matrix_product("mat", "vec"),
    "dot": _matrix_product("self", "tensor"),
    "vdot": _matrix_product("self", "other"),
    "addr": _outer_product,
    "convolution": _convolution,
    "convolution_backward": _convolution,
    "flex_attention": _ATTENTION,
    **{f"_scaled_dot_product_{name}": _ATTENTION for name in _ATTENTION_KERNELS},
    **{f"_scaled_dot_product_{name}_backward": _ATTENTION_BACKWARD for name in _ATTENTION_KERNELS},
    "_native_multi_head_attention": _multi_head,
    "_transformer_encoder_layer_fwd": _multi_head,
    "mkldnn_rnn_layer": _recurrent_layer("weight0", "weight1", uses=1),
    # The gradients of inputs and of weights each need as much work as the forward pass.
    "mkldnn_rnn_layer_backward": _recurrent_layer("weight1", "weight2", uses=2),
}

#: Kind → ATen's names of operators, without the final underscore of in-place operators.
_OPERATORS_OF_KIND: Final[Mapping[Kind, str]] = {
    "matrix product": "mm addmm bmm baddbmm addbmm mv addmv dot vdot addr",
    "convolution": "convolution convolution_backward",
    "recurrent layer": "mkldnn_rnn_layer mkldnn_rnn_layer_backward",
    "normalisation": """
        native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_no_training
        _native_batch_norm_legit_functional batch_norm_backward native_batch_norm_backward
        native_layer_norm native_layer_norm_backward native_group_norm native_group_norm_backward
        _fused_rms_norm _fused_rms_norm_backward _weight_norm_interface
        _weight_norm_interface_backward
    """,
    "activation": """
        relu hardtanh sigmoid tanh gelu silu hardswish hardsigmoid leaky_relu elu mish softplus
        _prelu_kernel celu threshold glu log_sigmoid_forward rrelu_with_noise
        threshold_backward hardtanh_backward sigmoid_backward tanh_backward gelu_backward
        silu_backward hardswish_backward hardsigmoid_backward leaky_relu_backward elu_backward
        mish_backward softplus_backward _prelu_kernel_backward glu_backward log_sigmoid_backward
        hardshrink softshrink hardshrink_backward softshrink_backward
    """,
    "pooling": """
        max_pool2d_with_indices max_pool2d_with_indices_backward max_pool3d_with_indices
        max_pool3d_with_indices_backward avg_pool2d avg_pool2d_backward avg_pool3d
        avg_pool3d_backward _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
        _adaptive_avg_pool3d _adaptive_avg_pool3d_backward adaptive_max_pool2d
        adaptive_max_pool2d_backward adaptive_max_pool3d adaptive_max_pool3d_backward max_pool2d
    """,
    "softmax": """
        _softmax _log_softmax _softmax_backward_data _log_softmax_backward_data _safe_softmax
    """,
    "element-wise": """
        add sub rsub mul div neg pow exp log log1p log2 sqrt rsqrt reciprocal abs sign clamp
        clamp_min clamp_max maximum minimum where erf sin cos tan atan atan2 floor ceil round trunc
        expm1 frac square eq ne lt le gt ge logical_and logical_or logical_not logical_xor
        bitwise_and bitwise_or bitwise_not bitwise_xor addcmul addcdiv lerp masked_fill fmod
        remainder floor_divide xlogy bernoulli native_dropout native_dropout_backward isnan isinf
        isfinite nan_to_num tril triu copysign sgn exp2 sinc polar complex _fused_sgd _fused_adam
        _fused_adamw
    """,
    "reduction": """
        sum mean amax amin max min argmax argmin var var_mean std std_mean prod norm
        linalg_vector_norm all any logsumexp nll_loss_forward nll_loss_backward nll_loss2d_forward
        nll_loss2d_backward cumsum cumprod count_nonzero mse_loss mse_loss_backward
        binary_cross_entropy_with_logits smooth_l1_loss _assert_async
    """,
    "embedding": """
        embedding embedding_dense_backward _embedding_bag _embedding_bag_forward_only
        _embedding_bag_backward _embedding_bag_dense_backward
        _embedding_bag_per_sample_weights_backward
    """,
    "indexing": """
        index index_select gather take put scatter scatter_add scatter_reduce index_put
        _index_put_impl index_add index_copy slice_backward select_backward slice_scatter
        select_scatter diagonal_backward masked_scatter _unsafe_index _unsafe_index_put
    """,
    "copy": """
        clone copy _to_copy constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d
        replication_pad1d replication_pad2d replication_pad3d reflection_pad2d_backward
        replication_pad2d_backward roll flip repeat im2col col2im pixel_shuffle pixel_unshuffle
        channel_shuffle as_strided_copy unfold_backward
    """,
    "concatenation": "cat stack",
    "interpolation": """
        upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d
        upsample_linear1d upsample_bicubic2d upsample_trilinear3d _upsample_bilinear2d_aa
        _upsample_bicubic2d_aa upsample_nearest2d_backward upsample_bilinear2d_backward
        upsample_bicubic2d_backward grid_sampler_2d grid_sampler_2d_backward
        _upsample_nearest_exact2d affine_grid_generator
    """,
    "sorting": "sort topk argsort",
    "creation": """
        empty empty_like empty_strided new_empty new_empty_strided zeros zeros_like new_zeros ones
        ones_like new_ones full full_like new_full arange linspace eye scalar_tensor rand rand_like
        randn randn_like randint randperm normal uniform fill zero lift_fresh_copy tril_indices
        triu_indices
    """,
    "view": """
        view _unsafe_view t transpose permute expand slice select squeeze unsqueeze as_strided
        detach alias split split_with_sizes unbind unfold diagonal view_as_real view_as_complex
        lift_fresh _reshape_alias real imag unsafe_split unsafe_split_with_sizes unsafe_chunk
    """,
}


def _kinds() -> dict[str, Kind]:
    """Return operator → kind; an in-place operator (``relu_``) has the kind of ``relu``."""
    # Operators that have multiply-adds, and no kind in the table above, compute attention.
    kinds: dict[str, Kind] = dict.fromkeys(_MULTIPLY_ADD_FORMULAS, "attention")
    for kind, names in _OPERATORS_OF_KIND.items():
        for name in names.split():
            kinds[name] = kinds[f"{name}_"] = kind
    return kinds


#: ATen's operator → kind.
KINDS: Final[Mapping[str, Kind]] = _kinds()

#: Operators that allocate a result and do not write to the result.
_WRITES_NOTHING: Final = frozenset(
    {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
)
#: In-place operators that write to a tensor without reading it.
_OVERWRITING: Final = frozenset(
    {"copy_", "fill_", "zero_", "normal_", "uniform_", "bernoulli_", "random_"}
)
#: In-place operators that write only the elements at an index.
_WRITES_BY_INDEX: Final = frozenset({
    "index_copy_", "index_fill_", "index_add_", "index_put_", "_index_put_impl_", "scatter_",
    "scatter_add_", "scatter_reduce_", "put_",
})  # fmt: skip
_EMBEDDINGS: Final = ("embedding", "_embedding_bag", "_embedding_bag_forward_only",
                      "_embedding_bag_per_sample_weights_backward")  # fmt: skip
_SELECTIONS: Final = ("index", "_unsafe_index", "index_select", "gather", "take")
#: Operator → argument from which the operator reads only elements at an index.
_INDEXED_ARGUMENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(_EMBEDDINGS, "weight"), **dict.fromkeys(_SELECTIONS, "self"),
}  # fmt: skip
