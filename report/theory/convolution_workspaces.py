"""Workspace of a convolution on a CPU: the bytes allocated besides input and output.

oneDNN chooses a kernel by shape, layout and instruction set, and kernels copy tensors into their
own layouts.  The formulas were derived from PyTorch 2.13 (oneDNN 3.12,
``src/cpu/x64/jit_avx2_conv_kernel_f32.cpp`` and ``jit_brgemm_conv_utils.cpp``, ``init_conf``):

- AVX-512: convolutions without groups and dilation, with kernels larger than 1 × 1;
- AVX2: float32 convolutions.  The formulas gave the exact bytes of 2,200 random convolutions, on
  one thread and on two threads.

The workspace is unknown where cache sizes determine the kernel, or where no convolution was tested.

``report.theory.work`` defines the letters in formulas.
"""

from math import ceil, prod
from typing import Final

from report.core.records.layers import ELEMENT_BYTES, Convolution
from report.theory.conditions import UNKNOWN_WORKSPACE, Conditions, Workspace
from report.theory.reconciliation import Term
from report.theory.work import element_bytes, elements, output_bytes, round_up

#: Alignment (B) of the scratchpad of a oneDNN primitive, added to the scratchpad's size
#: (``src/common/memory_tracking.hpp``, ``default_alignment``, ``registry_t::book``).
SCRATCHPAD_ALIGNMENT: Final = 128
#: Page (B) to which oneDNN aligns and rounds the batch descriptors of its matrix kernels.
PAGE_BYTES: Final = 4096
#: Bytes of one descriptor (``src/cpu/x64/brgemm/brgemm_types.hpp``, ``brgemm_batch_element_t``):
#: two pointers, two paddings and a flag of 8 B each.
DESCRIPTOR_BYTES: Final = 40
#: Channels in a block of AVX2 kernels: one vector of eight float32 values.
AVX2_BLOCK: Final = 8
#: Evidence for memory that an event of PyTorch's allocator shows.
ALLOCATOR_EVENT: Final = "event of the allocator"
#: Name of the negative term for an output that is not yet allocated when most bytes are in use.
PENDING_OUTPUT: Final = "Output not yet allocated"
#: Evidence for memory that is not live together with the output.
_FREED_BEFORE_OUTPUT: Final = "freed before the output is allocated"
#: PyTorch computes a convolution of one image without oneDNN if the input has at most this many
#: elements (``aten/src/ATen/native/Convolution.cpp``, ``use_mkldnn``).
SMALL_INPUT_ELEMENTS: Final = 20_480
#: Smallest batch for which PyTorch uses oneDNN for 1 × 1 kernels on one thread.
MANY_IMAGES: Final = 16
#: Types of elements for which the workspace on AVX-512 is known.
_KNOWN_TYPES: Final = frozenset({"float32", "bfloat16"})
#: Positions of an output row that a direct kernel computes at once.  Padding must not be wider.
_ROW_POSITIONS: Final = 3
#: Largest width of a strided kernel with padding that a direct kernel supports.
_WIDEST_KERNEL: Final = 7
#: Largest number of kernel positions (taps) whose descriptors fit on one page.
_TAPS_ON_ONE_PAGE: Final = 102
#: Largest number of vectors of output channels in a block of a channels-last kernel.
_MOST_VECTORS: Final = 4
#: Output positions from which AVX2 kernels use at most half as many vectors.
_LARGE_MAP: Final = 150 * 150
#: Number of groups (of all images) per thread from which every thread unfolds one group at a time.
_GROUPS_PER_THREAD: Final = 8
#: Largest unfolded group (B) for which ``_unfolded_groups`` was tested.
_UNFOLDED_GROUP_BYTES: Final = 2**18


def convolution_workspace(
    layer: Convolution, channels_last: bool, conditions: Conditions
) -> Workspace:
    """Return the workspace of a convolution whose tensors are channels-last or contiguous."""
    if conditions.channels_per_block != AVX2_BLOCK:
        return _on_avx512(layer, channels_last, conditions)
    size = _on_avx2(layer, channels_last, conditions)
    if size is None:
        return UNKNOWN_WORKSPACE
    return Workspace((Term("Workspace", size, "", ALLOCATOR_EVENT),))


def computed_by_pytorch(layer: Convolution, conditions: Conditions) -> bool:
    """Tell whether PyTorch computes a convolution without oneDNN.

    ``use_mkldnn`` in ``Convolution.cpp`` skips oneDNN for one small image.  On one thread it also
    skips oneDNN for 1 × 1 kernels on batches of fewer than ``MANY_IMAGES`` images.
    """
    on_one_thread = conditions.threads == 1 and layer.input_shape[0] < MANY_IMAGES
    pointwise = layer.kernel == layer.stride == layer.dilation == (1, 1)
    return (on_one_thread and pointwise) or (layer.groups == 1 and _is_native(layer))


def _is_native(layer: Convolution) -> bool:
    """Tell whether the input is a small float32 image and a side of the kernel is at most 3."""
    small = elements(layer.input_shape) <= SMALL_INPUT_ELEMENTS and min(layer.kernel) <= 3
    return layer.dtype == "float32" and layer.input_shape[0] == 1 and small


def _unfolded_input(layer: Convolution) -> Term:
    """Return the term of the unfolded input (im2col): a matrix with a copy for every tap."""
    columns = layer.input_shape[1] * elements(layer.kernel)
    positions = layer.output_shape[0] * elements(layer.output_shape[2:])
    size = columns * positions * element_bytes(layer)
    formula = f"N · C_in · K_h · K_w · H_out · W_out · {element_bytes(layer)} B"
    return Term("Unfolded input", size, formula, ALLOCATOR_EVENT)


def _is_known_block(layer: Convolution, vector: int, most_vectors: int) -> bool:
    """Tell whether all possible blocks of output channels pad the weights to the same size.

    A block has 1 to ``most_vectors`` vectors.  Cache sizes determine the number, so that the size
    of the weights is known only if it is the same for each number.
    """
    outputs = layer.output_shape[1] // layer.groups
    blocks = range(1, min(round_up(outputs, vector) // vector, most_vectors) + 1)
    return len({round_up(outputs, n * vector) for n in blocks}) == 1


def _input_reorder(layer: Convolution, block: int) -> Term:
    """Return the term of the input's copy in blocks of channels.

    oneDNN's blocked layouts (nChw8c for AVX2, nChw16c for AVX-512) pad the last block with zeros
    (oneDNN developer guide, "Understanding Memory Formats").
    """
    formula = f"N · {_rounded_up_text('C_in', block)} · H · W · {element_bytes(layer)} B"
    size = _blocked_bytes(layer, layer.input_shape, block)
    return Term("Input reorder", size, formula, _FREED_BEFORE_OUTPUT)


def _weight_reorder(layer: Convolution, out_block: int, in_block: int, evidence: str) -> Term:
    """Return the term of the weights' copy in blocks of output and input channels.

    Groups with one input channel (depthwise) need no padding of input channels.
    """
    inputs = layer.input_shape[1] // layer.groups
    block = 1 if inputs == 1 else in_block
    filled = round_up(layer.output_shape[1], out_block) * round_up(inputs, block)
    size = filled * elements(layer.kernel) * element_bytes(layer)
    channels = f"{_rounded_up_text('C_out', out_block)} · {_rounded_up_text('C_in/G', block)}"
    formula = f"{channels} · K_h · K_w · {element_bytes(layer)} B"
    return Term("Weight reorder", size, formula, evidence)


def _blocked_output(layer: Convolution, block: int) -> Term:
    """Return the term of the output in blocks, before the copy to the contiguous layout."""
    formula = f"N · {_rounded_up_text('C_out', block)} · H_out · W_out · {element_bytes(layer)} B"
    size = _blocked_bytes(layer, layer.output_shape, block)
    return Term("Blocked output", size, formula, ALLOCATOR_EVENT)


def _blocked_bytes(layer: Convolution, shape: tuple[int, ...], block: int) -> int:
    """Return the bytes of a tensor of ``shape`` with channels rounded up to whole blocks."""
    batch, channels, *extents = shape
    return batch * round_up(channels, block) * elements(extents) * element_bytes(layer)


def _bias_workspace(layer: Convolution, block: int) -> Term:
    """Return the term of a bias padded to whole blocks, with 0 bytes if no padding is needed.

    ``init_scratchpad`` of oneDNN's direct kernels (``src/cpu/x64/jit_avx2_conv_kernel_f32.cpp``)
    allocates ``key_conv_padded_bias`` if the channels of the bias do not fill whole blocks.
    """
    channels = layer.output_shape[1]
    if not layer.bias or channels % block == 0:
        return Term("Workspace, padded bias", 0, "0", _FREED_BEFORE_OUTPUT)
    size = round_up(channels, block) * element_bytes(layer) + SCRATCHPAD_ALIGNMENT
    channels_text = _rounded_up_text("C_out", block)
    formula = f"{channels_text} · {element_bytes(layer)} B + {SCRATCHPAD_ALIGNMENT} B"
    return Term("Workspace, padded bias", size, formula, _FREED_BEFORE_OUTPUT)


def _descriptor_workspace(layer: Convolution, threads: int) -> Term:
    """Return the term of the descriptors of oneDNN's batched matrix kernels.

    A convolution in the channels-last layout is a batch of small matrix products, one per position
    of the kernel.  Each thread has memory for the descriptors of one batch, rounded up to whole
    pages and then to whole descriptors.  One page is added for alignment
    (``src/cpu/x64/jit_brgemm_conv_utils.cpp``: ``adjusted_batch_size``, ``init_scratchpad``).  The
    formula assumes one block of input channels per batch.
    """
    batch = ceil(round_up(elements(layer.kernel) * DESCRIPTOR_BYTES, PAGE_BYTES) / DESCRIPTOR_BYTES)
    size = threads * batch * DESCRIPTOR_BYTES + PAGE_BYTES
    formula = f"threads · {batch} descriptors · {DESCRIPTOR_BYTES} B + {PAGE_BYTES} B"
    return Term("Workspace, batch descriptors", size, formula, ALLOCATOR_EVENT)


def _rounded_up_text(letter: str, multiple: int) -> str:
    return letter if multiple == 1 else f"({letter} rounded up to {multiple})"


def _on_avx512(layer: Convolution, channels_last: bool, conditions: Conditions) -> Workspace:
    """Return the workspace of a convolution on a CPU with AVX-512."""
    if _is_untested(layer, channels_last, conditions):
        return UNKNOWN_WORKSPACE
    if _is_native(layer):
        return Workspace((_unfolded_input(layer),))
    block = conditions.channels_per_block
    # 16-bit products read input channels in pairs.
    in_block = ELEMENT_BYTES["float32"] // element_bytes(layer)
    if channels_last:
        descriptors = _descriptor_workspace(layer, conditions.threads)
        weights = _weight_reorder(layer, block, in_block, ALLOCATOR_EVENT)
        known = layer.output_shape[1] % (_MOST_VECTORS * block) == 0
        known = known or _is_known_block(layer, block, _MOST_VECTORS)
        return Workspace((weights, descriptors), complete=known)
    blocked = _blocked_output(layer, block)
    copies = [_bias_workspace(layer, block)]
    if layer.input_shape[1] < block:  # an input with fewer channels than a block is not copied
        copies.append(_weight_reorder(layer, block, in_block, ALLOCATOR_EVENT))
    else:
        copies.append(_input_reorder(layer, block))
        copies.append(_weight_reorder(layer, block, block, _FREED_BEFORE_OUTPUT))
    output = output_bytes(layer)
    # The copies are freed before the output is allocated: the larger of them is live at the peak.
    if sum(term.amount for term in copies) < output:
        return Workspace((blocked,))
    pending = Term(PENDING_OUTPUT, -output, "−output while it is not live", "order of the layers")
    return Workspace((pending, *copies, blocked))


def _is_untested(layer: Convolution, channels_last: bool, conditions: Conditions) -> bool:
    """Tell whether the formulas for AVX-512 do not cover a convolution.

    oneDNN chooses another kernel for contiguous tensors if the padding is wider than an output row,
    or wider than the positions that a direct kernel computes at once.
    """
    ordinary = layer.groups == 1 and not layer.transposed and layer.dilation == (1, 1)
    unfolds_one_channel = layer.input_shape[1] == 1 and channels_last
    in_tiles = conditions.has_tiles and layer.dtype == "bfloat16"
    widest_padding = min(_ROW_POSITIONS, layer.output_shape[3])
    wide_padding = not channels_last and layer.padding[1] > widest_padding
    may_be_tested = layer.dtype in _KNOWN_TYPES and ordinary and layer.kernel != (1, 1)
    return not may_be_tested or unfolds_one_channel or in_tiles or wide_padding


def _on_avx2(layer: Convolution, channels_last: bool, conditions: Conditions) -> int | None:
    """Return the bytes of the workspace on a CPU with AVX2, or None if they are unknown."""
    if layer.transposed or layer.dtype != "float32":
        return None
    if computed_by_pytorch(layer, conditions):
        if layer.groups > 1:
            return None
        return 0 if _is_pointwise(layer) else _unfolded_input(layer).amount
    if layer.kernel == (1, 1) and layer.padding != (0, 0):
        return None
    return _channels_last(layer, conditions) if channels_last else _contiguous(layer, conditions)


def _is_pointwise(layer: Convolution) -> bool:
    return layer.kernel == (1, 1) and layer.stride == (1, 1) and layer.padding == (0, 0)


def _is_depthwise(layer: Convolution) -> bool:
    return layer.groups > 1 and layer.groups == layer.input_shape[1] == layer.output_shape[1]


def _channels_of_group(layer: Convolution) -> tuple[int, int]:
    """Return the input and output channels of one group."""
    return layer.input_shape[1] // layer.groups, layer.output_shape[1] // layer.groups


def _channels_last(layer: Convolution, conditions: Conditions) -> int | None:
    """Return the workspace (B) of a channels-last convolution, or None if it is unknown.

    The workspace consists of weights in blocks.  Unless the layer is depthwise, descriptors of
    batched products are added.
    """
    inputs, outputs = _channels_of_group(layer)
    if _is_depthwise(layer):
        inside = all(p <= out for p, out in zip(layer.padding, layer.output_shape[2:], strict=True))
        is_tested = layer.kernel != (1, 1) and layer.dilation == (1, 1) and inside
        return _weight_reorder(layer, AVX2_BLOCK, 1, ALLOCATOR_EVENT).amount if is_tested else None
    is_large = elements(layer.output_shape[2:]) >= _LARGE_MAP
    most_vectors = _MOST_VECTORS // 2 if is_large else _MOST_VECTORS
    is_known = _is_known_block(layer, AVX2_BLOCK, most_vectors)
    if layer.input_shape[1] == 1 or not is_known or elements(layer.kernel) > _TAPS_ON_ONE_PAGE:
        return None
    weights_of_group = round_up(outputs, AVX2_BLOCK) * inputs * elements(layer.kernel)
    weights = layer.groups * weights_of_group * element_bytes(layer)
    return weights + _descriptor_workspace(layer, conditions.threads).amount


def _contiguous(layer: Convolution, conditions: Conditions) -> int | None:
    """Return the workspace (B) of a contiguous convolution, or None if it is unknown."""
    if not _is_direct(layer):
        is_known = layer.groups == 1 and _is_output_copy_largest(layer, conditions.threads)
        return output_bytes(layer) if is_known else None
    inputs, outputs = _channels_of_group(layer)
    has_whole_blocks = inputs % AVX2_BLOCK == outputs % AVX2_BLOCK == 0
    if layer.groups > 1 and not _is_depthwise(layer) and not has_whole_blocks:
        return None if _is_pointwise(layer) else _unfolded_groups(layer, conditions)
    output = _blocked_output(layer, AVX2_BLOCK).amount
    copies = _bias_workspace(layer, AVX2_BLOCK).amount + _gathered_bytes(layer, conditions)
    less_than_block = layer.groups == 1 and layer.input_shape[1] < AVX2_BLOCK
    if less_than_block and layer.kernel != (1, 1):  # the input is not copied
        copies += _weight_reorder(layer, AVX2_BLOCK, 1, ALLOCATOR_EVENT).amount
    else:
        copies += _input_reorder(layer, AVX2_BLOCK).amount
        copies += _weight_reorder(layer, AVX2_BLOCK, AVX2_BLOCK, ALLOCATOR_EVENT).amount
    return max(copies + output - output_bytes(layer), output)


def _is_direct(layer: Convolution) -> bool:
    """Tell whether oneDNN computes a contiguous convolution directly, without unfolding."""
    reach = (d * (k - 1) + 1 for d, k in zip(layer.dilation, layer.kernel, strict=True))
    inside = all(p < r for p, r in zip(layer.padding, reach, strict=True))
    unpadded_or_dense = layer.padding == (0, 0) or layer.stride == (1, 1)
    narrow = layer.kernel[1] <= _WIDEST_KERNEL or unpadded_or_dense
    return inside and narrow and layer.padding[1] <= min(_ROW_POSITIONS, layer.output_shape[3])


def _is_output_copy_largest(layer: Convolution, threads: int) -> bool:
    """Tell whether the copy of the output is at least as large as all unfolded inputs.

    A thread unfolds at most one image at a time.  The output is copied after the unfolded inputs
    are freed, so that a larger copy alone determines the workspace.
    """
    taps = layer.input_shape[1] // layer.groups * elements(layer.kernel)
    unfolded = taps * elements(layer.output_shape[2:]) * element_bytes(layer)
    return threads * unfolded + SCRATCHPAD_ALIGNMENT <= output_bytes(layer)


def _gathered_bytes(layer: Convolution, conditions: Conditions) -> int:
    """Return the bytes into which all threads gather the inputs of a strided 1 × 1 kernel.

    oneDNN gathers inputs only if the stride divides height and width (``rtus_prepare``).  ``C_in``
    is rounded up to whole blocks.
    """
    positions = layer.output_shape[2:]
    reached = tuple(o * s for o, s in zip(positions, layer.stride, strict=True))
    is_dense_pointwise = layer.kernel == (1, 1) and layer.groups == 1
    if layer.stride == (1, 1) or not is_dense_pointwise or reached != layer.input_shape[2:]:
        return 0
    gathered = round_up(layer.input_shape[1], AVX2_BLOCK) * prod(positions) * element_bytes(layer)
    return conditions.threads * gathered + SCRATCHPAD_ALIGNMENT


def _unfolded_groups(layer: Convolution, conditions: Conditions) -> int | None:
    """Return the workspace (B) for groups whose channels do not fill whole blocks.

    Returns None for large groups and for too few groups, whose workspace is unknown.  Every thread
    unfolds one group, ``C_in/G · K_h · K_w · H_out · W_out`` elements.  The output is copied after
    the unfolded groups are freed.
    """
    inputs, _ = _channels_of_group(layer)
    group = inputs * elements(layer.kernel) * prod(layer.output_shape[2:]) * element_bytes(layer)
    too_few = layer.input_shape[0] * layer.groups < _GROUPS_PER_THREAD * conditions.threads
    if too_few or group > _UNFOLDED_GROUP_BYTES:
        return None
    return max(conditions.threads * group + SCRATCHPAD_ALIGNMENT, output_bytes(layer))
