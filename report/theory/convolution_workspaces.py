"""Bytes that a convolution allocates on a CPU beside input and output, kernel by kernel.

oneDNN chooses a kernel by shape, layout and instruction set, and kernels copy tensors into their
own layouts.  The rules are those of PyTorch 2.13 (oneDNN 3.12).  On AVX-512 they are of
convolutions without groups and dilation, with kernels larger than 1 × 1; on AVX2 those of float32,
met to the byte by 2,200 convolutions drawn at random, on one thread and on two
(``src/cpu/x64/jit_avx2_conv_kernel_f32.cpp`` and ``jit_brgemm_conv_utils.cpp``, ``init_conf``).
Where a kernel is chosen by the sizes of caches, or by what was not tried, there is no rule.

Letters in formulas are those of ``report.theory.work``.
"""

from math import ceil, prod
from typing import Final

from report.core.records.layers import ELEMENT_BYTES, Convolution
from report.theory.conditions import UNKNOWN, Conditions, Workspace
from report.theory.reconciliation import Term
from report.theory.work import element_bytes, elements, output_bytes, round_up

#: Alignment (B) of a oneDNN primitive's scratchpad, which is booked with it
#: (``src/common/memory_tracking.hpp``, ``default_alignment``, ``registry_t::book``).
SCRATCHPAD_ALIGNMENT: Final = 128
#: Page (B) to which oneDNN aligns and rounds the batch descriptors of its matrix kernels.
PAGE: Final = 4096
#: Bytes of one descriptor (``src/cpu/x64/brgemm/brgemm_types.hpp``, ``brgemm_batch_element_t``):
#: two pointers, two paddings and a flag of 8 B each.
DESCRIPTOR: Final = 40
#: Channels of a vector of eight float32, in which AVX2 kernels block them.
AVX2: Final = 8
ALLOCATED: Final = "event of the allocator"
PENDING: Final = "Output not yet allocated"
_FREED: Final = "freed before the output is allocated"
#: Elements of an input from which on a small convolution of a single image goes to oneDNN
#: (``aten/src/ATen/native/Convolution.cpp``, ``use_mkldnn``).
SMALL_INPUT: Final = 20_480
#: Images from which on kernels of one element go to oneDNN also on one thread.
MANY_IMAGES: Final = 16
_KNOWN_TYPES: Final = frozenset({"float32", "bfloat16"})
#: Positions of an output row that a direct kernel computes at once; padding must not exceed them.
_ROW: Final = 3
#: Columns of the widest kernel that a direct kernel steps over padding with.
_WIDE: Final = 7
#: Taps whose descriptors fill one page, as do those of any part of them.
_ONE_PAGE: Final = 102
#: Most vectors of output channels in a block of a channels-last kernel; half as many on AVX2 for
#: large maps.
_VECTORS: Final = 4
_LARGE_MAP: Final = 150 * 150
#: Groups for each thread, and bytes of an unfolded group, up to which groups are done one by one.
_GROUPS: Final = 8
_UNFOLDED_BYTES: Final = 2**18


def convolution_workspace(layer: Convolution, last: bool, conditions: Conditions) -> Workspace:
    """Return the workspace of a convolution; its tensors are channels-last if ``last``."""
    if conditions.block != AVX2:
        return _on_avx512(layer, last, conditions)
    size = _on_avx2(layer, last, conditions)
    return UNKNOWN if size is None else Workspace((Term("Workspace", size, "", ALLOCATED),))


def computed_by_pytorch(layer: Convolution, conditions: Conditions) -> bool:
    """Return whether PyTorch computes a convolution without oneDNN.

    ``use_mkldnn`` in ``Convolution.cpp`` skips oneDNN for one small image, and on one thread for
    small batches with 1 × 1 kernels.
    """
    on_one_thread = conditions.threads == 1 and layer.input_shape[0] < MANY_IMAGES
    pointwise = layer.kernel == layer.stride == layer.dilation == (1, 1)
    return (on_one_thread and pointwise) or (layer.groups == 1 and _is_native(layer))


def _is_native(layer: Convolution) -> bool:
    """Return whether the input is one small float32 image, and one side of the kernel at most 3."""
    small = elements(layer.input_shape) <= SMALL_INPUT and min(layer.kernel) <= 3
    return layer.dtype == "float32" and layer.input_shape[0] == 1 and small


def _unfolded(layer: Convolution) -> Term:
    """The input as a matrix with one copy of it per tap (im2col)."""
    columns = layer.input_shape[1] * elements(layer.kernel)
    positions = layer.output_shape[0] * elements(layer.output_shape[2:])
    size = columns * positions * element_bytes(layer)
    formula = f"N · C_in · K_h · K_w · H_out · W_out · {element_bytes(layer)} B"
    return Term("Unfolded input", size, formula, ALLOCATED)


def _is_known_block(layer: Convolution, vector: int, most: int) -> bool:
    """Return whether every possible block of output channels pads the weights to the same size.

    oneDNN estimates from cache sizes which block is best, so a rule must hold for all of them.
    """
    outputs = layer.output_shape[1] // layer.groups
    blocks = range(1, min(round_up(outputs, vector) // vector, most) + 1)
    return len({round_up(outputs, n * vector) for n in blocks}) == 1


# ----------------------------------------------------------------------------------------- copies


def _input_reorder(layer: Convolution, block: int) -> Term:
    """A copy of the input with channels in blocks.

    oneDNN's blocked layouts (nChw8c for AVX2, nChw16c for AVX-512) pad the last block with zeros
    (oneDNN developer guide, "Understanding Memory Formats").
    """
    formula = f"N · {_up_text('C_in', block)} · H · W · {element_bytes(layer)} B"
    return Term("Input reorder", _blocked_bytes(layer, layer.input_shape, block), formula, _FREED)


def _weight_reorder(layer: Convolution, out_block: int, in_block: int, evidence: str) -> Term:
    """A copy of the weights with output and input channels in blocks.

    Groups of one channel (depthwise) need no padding on the input side.
    """
    inputs = layer.input_shape[1] // layer.groups
    block = 1 if inputs == 1 else in_block
    filled = round_up(layer.output_shape[1], out_block) * round_up(inputs, block)
    size = filled * elements(layer.kernel) * element_bytes(layer)
    channels = f"{_up_text('C_out', out_block)} · {_up_text('C_in/G', block)}"
    formula = f"{channels} · K_h · K_w · {element_bytes(layer)} B"
    return Term("Weight reorder", size, formula, evidence)


def _blocked_output(layer: Convolution, block: int) -> Term:
    """The result in blocks of channels, before it is copied to the plain layout."""
    formula = f"N · {_up_text('C_out', block)} · H_out · W_out · {element_bytes(layer)} B"
    size = _blocked_bytes(layer, layer.output_shape, block)
    return Term("Blocked output", size, formula, ALLOCATED)


def _blocked_bytes(layer: Convolution, shape: tuple[int, ...], block: int) -> int:
    batch, channels, *extents = shape
    return batch * round_up(channels, block) * elements(extents) * element_bytes(layer)


def _bias_workspace(layer: Convolution, block: int) -> Term:
    """oneDNN's scratchpad for a bias padded to whole blocks; 0 where no padding is needed.

    ``init_scratchpad`` of its direct kernels (``src/cpu/x64/jit_avx2_conv_kernel_f32.cpp``) books
    ``key_conv_padded_bias`` for a bias whose channels are not whole blocks.
    """
    channels = layer.output_shape[1]
    if not layer.bias or channels % block == 0:
        return Term("Workspace, padded bias", 0, "0", _FREED)
    size = round_up(channels, block) * element_bytes(layer) + SCRATCHPAD_ALIGNMENT
    formula = f"{_up_text('C_out', block)} · {element_bytes(layer)} B + {SCRATCHPAD_ALIGNMENT} B"
    return Term("Workspace, padded bias", size, formula, _FREED)


def _descriptor_workspace(layer: Convolution, threads: int) -> Term:
    """oneDNN's scratchpad for the descriptors of its batched matrix kernels.

    A convolution in the channels-last layout is a batch of small matrix products, one a position
    of the kernel.  Each thread has room for the descriptors of one batch, rounded up to whole pages
    and then to whole descriptors; a page of alignment is added
    (``src/cpu/x64/jit_brgemm_conv_utils.cpp``: ``adjusted_batch_size``, ``init_scratchpad``; blocks
    of input channels that share a batch are taken to be one).
    """
    batch = ceil(round_up(elements(layer.kernel) * DESCRIPTOR, PAGE) / DESCRIPTOR)
    size = threads * batch * DESCRIPTOR + PAGE
    formula = f"threads · {batch} descriptors · {DESCRIPTOR} B + {PAGE} B"
    return Term("Workspace, batch descriptors", size, formula, ALLOCATED)


def _up_text(letter: str, multiple: int) -> str:
    return letter if multiple == 1 else f"({letter} rounded up to {multiple})"


# ---------------------------------------------------------------------------------------- AVX-512


def _on_avx512(layer: Convolution, last: bool, conditions: Conditions) -> Workspace:
    if _is_untried(layer, last, conditions):
        return UNKNOWN
    if _is_native(layer):
        return Workspace((_unfolded(layer),))
    block = conditions.block
    # 16-bit products take input channels by twos.
    in_block = ELEMENT_BYTES["float32"] // element_bytes(layer)
    if last:
        descriptors = _descriptor_workspace(layer, conditions.threads)
        weights = _weight_reorder(layer, block, in_block, ALLOCATED)
        whole = layer.output_shape[1] % (_VECTORS * block) == 0
        return Workspace((weights, descriptors), whole or _is_known_block(layer, block, _VECTORS))
    blocked = _blocked_output(layer, block)
    copies = [_bias_workspace(layer, block)]
    if layer.input_shape[1] < block:  # an input with less than one block stays as it is
        copies.append(_weight_reorder(layer, block, in_block, ALLOCATED))
    else:
        copies.append(_input_reorder(layer, block))
        copies.append(_weight_reorder(layer, block, block, _FREED))
    output = output_bytes(layer)
    if sum(term.amount for term in copies) < output:
        return Workspace((blocked,))
    pending = Term(PENDING, -output, "−output while it is not live", "order of the layers")
    return Workspace((pending, *copies, blocked))


def _is_untried(layer: Convolution, last: bool, conditions: Conditions) -> bool:
    """Return whether no rule covers a convolution.

    Padding wider than an output row makes oneDNN choose another kernel.
    """
    plain = layer.groups == 1 and not layer.transposed and layer.dilation == (1, 1)
    unfolds_one_channel = layer.input_shape[1] == 1 and last
    in_tiles = conditions.tiles and layer.dtype == "bfloat16"
    wide = not last and layer.padding[1] > min(_ROW, layer.output_shape[3])
    known = layer.dtype in _KNOWN_TYPES and plain and layer.kernel != (1, 1)
    return not known or unfolds_one_channel or in_tiles or wide


# ------------------------------------------------------------------------------------------- AVX2


def _on_avx2(layer: Convolution, last: bool, conditions: Conditions) -> int | None:
    """Return the most bytes beside input and output; None without a rule."""
    if layer.transposed or layer.dtype != "float32":
        return None
    plain = layer.kernel == (1, 1) and layer.stride == (1, 1) and layer.padding == (0, 0)
    if computed_by_pytorch(layer, conditions):
        if layer.groups > 1:
            return None
        return 0 if plain else _unfolded(layer).amount
    if layer.kernel == (1, 1) and layer.padding != (0, 0):
        return None
    return _channels_last(layer, conditions) if last else _contiguous(layer, conditions, plain)


def _is_depthwise(layer: Convolution) -> bool:
    return layer.groups > 1 and layer.groups == layer.input_shape[1] == layer.output_shape[1]


def _widths(layer: Convolution) -> tuple[int, int]:
    """Input and output channels of a group."""
    return layer.input_shape[1] // layer.groups, layer.output_shape[1] // layer.groups


def _channels_last(layer: Convolution, conditions: Conditions) -> int | None:
    """Return the bytes of blocked weights and of the descriptors of batched products.

    A batch has the taps of a whole kernel, or of one row of it.
    """
    inputs, outputs = _widths(layer)
    if _is_depthwise(layer):
        inside = all(p <= out for p, out in zip(layer.padding, layer.output_shape[2:], strict=True))
        tried = layer.kernel != (1, 1) and layer.dilation == (1, 1) and inside
        return _weight_reorder(layer, AVX2, 1, ALLOCATED).amount if tried else None
    large = elements(layer.output_shape[2:]) >= _LARGE_MAP
    known = _is_known_block(layer, AVX2, _VECTORS // 2 if large else _VECTORS)
    if layer.input_shape[1] == 1 or not known or elements(layer.kernel) > _ONE_PAGE:
        return None
    weights = layer.groups * round_up(outputs, AVX2) * inputs * elements(layer.kernel) * 4
    return weights + _descriptor_workspace(layer, conditions.threads).amount


def _contiguous(layer: Convolution, conditions: Conditions, plain: bool) -> int | None:
    if not _is_direct(layer):
        copied = layer.groups == 1 and _copies_output_last(layer, conditions.threads)
        return output_bytes(layer) if copied else None
    inputs, outputs = _widths(layer)
    if layer.groups > 1 and not _is_depthwise(layer) and (inputs % AVX2 or outputs % AVX2):
        return None if plain else _unfolded_groups(layer, conditions)
    output = _blocked_output(layer, AVX2).amount
    copies = _bias_workspace(layer, AVX2).amount + _strided(layer, conditions)
    few = layer.groups == 1 and layer.input_shape[1] < AVX2 and layer.kernel != (1, 1)
    if few:  # an input with less than one block stays as it is
        copies += _weight_reorder(layer, AVX2, 1, ALLOCATED).amount
    else:
        copies += _input_reorder(layer, AVX2).amount
        copies += _weight_reorder(layer, AVX2, AVX2, ALLOCATED).amount
    return max(copies + output - output_bytes(layer), output)


def _is_direct(layer: Convolution) -> bool:
    """Return whether a contiguous convolution runs in the direct kernel; else it is unfolded."""
    reach = (d * (k - 1) + 1 for d, k in zip(layer.dilation, layer.kernel, strict=True))
    inside = all(p < r for p, r in zip(layer.padding, reach, strict=True))
    still = layer.padding == (0, 0) or layer.stride == (1, 1)
    narrow = layer.kernel[1] <= _WIDE or still
    return inside and narrow and layer.padding[1] <= min(_ROW, layer.output_shape[3])


def _copies_output_last(layer: Convolution, threads: int) -> bool:
    """Return whether a copy of the output is at least as large as any unfolded input.

    A thread unfolds at most all positions of one image; the caches decide how many.  The output is
    copied once afterwards, so that a larger copy alone decides the workspace.
    """
    taps = layer.input_shape[1] // layer.groups * elements(layer.kernel)
    unfolded = taps * elements(layer.output_shape[2:]) * 4
    return threads * unfolded + SCRATCHPAD_ALIGNMENT <= output_bytes(layer)


def _strided(layer: Convolution, conditions: Conditions) -> int:
    """Return the bytes in which every thread gathers the inputs of a strided 1 × 1 kernel.

    oneDNN gathers only where the stride divides the extents (``rtus_prepare``); ``C_in`` is rounded
    up to whole blocks.
    """
    positions = layer.output_shape[2:]
    reached = tuple(o * s for o, s in zip(positions, layer.stride, strict=True))
    whole = layer.kernel == (1, 1) and layer.groups == 1 and reached == layer.input_shape[2:]
    if not whole or layer.stride == (1, 1):
        return 0
    gathered = round_up(layer.input_shape[1], AVX2) * prod(positions) * 4
    return conditions.threads * gathered + SCRATCHPAD_ALIGNMENT


def _unfolded_groups(layer: Convolution, conditions: Conditions) -> int | None:
    """Return the bytes for groups that fill no block; None where no rule covers them.

    Every thread unfolds one group, ``C_in/G · K_h · K_w · H_out · W_out`` elements; the output is
    copied once after the unfolded groups are freed.
    """
    inputs, _ = _widths(layer)
    group = inputs * elements(layer.kernel) * prod(layer.output_shape[2:]) * 4
    many = layer.input_shape[0] * layer.groups >= _GROUPS * conditions.threads
    if not many or group > _UNFOLDED_BYTES:
        return None
    return max(conditions.threads * group + SCRATCHPAD_ALIGNMENT, output_bytes(layer))
