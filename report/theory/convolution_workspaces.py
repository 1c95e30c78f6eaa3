"""What a convolution takes on a CPU with AVX2 beside input and output, by the kernel it goes to.

oneDNN chooses a kernel by shape, layout and instruction set, and each copies what it needs into
layouts of its own.  The rules are those of float32 with PyTorch 2.13 (oneDNN 3.12) on AVX2, met to
the byte by 2,200 convolutions drawn at random, on one thread and on two.  Where a kernel is chosen
by the sizes of caches (``theory.avx2_kernels``), or by what was not tried, there is no rule
(``None``).

Letters in formulas are those of ``report.theory.shapes``.
"""

from __future__ import annotations

from math import prod
from typing import Final

from report.records.layers import Convolution
from report.theory.avx2_kernels import (
    BLOCK,
    copies_output_last,
    has_known_batch,
    has_known_block,
    is_direct,
    up,
)
from report.theory.memory import output_bytes
from report.theory.shapes import elements
from report.theory.terms import (
    SCRATCHPAD_ALIGNMENT,
    SHAPES,
    bias_workspace,
    blocked_output,
    descriptor_workspace,
    input_reorder,
    weight_reorder,
)
from report.theory.workspaces import Conditions, native, unfolded

#: Groups for each thread, and bytes of an unfolded group, up to which groups are done one by one.
_GROUPS: Final = 8
_UNFOLDED_BYTES: Final = 2**18


def on_avx2(layer: Convolution, conditions: Conditions) -> int | None:
    """Bytes beside input and output at the largest moment; None where no rule tells."""
    if layer.transposed or layer.dtype != "float32" or conditions.autocast is not None:
        return None
    plain = layer.kernel == (1, 1) and layer.stride == (1, 1) and layer.padding == (0, 0)
    if computed_by_pytorch(layer, conditions):
        if layer.groups > 1:
            return None
        return 0 if plain else unfolded(layer).amount
    if layer.kernel == (1, 1) and layer.padding != (0, 0):
        return None
    if conditions.layout == "channels_last":
        return _channels_last(layer, conditions)
    return _contiguous(layer, conditions, plain)


def computed_by_pytorch(layer: Convolution, conditions: Conditions) -> bool:
    """Whether PyTorch computes it itself (``Convolution.cpp``, ``use_mkldnn``).

    Also a small batch of 1 × 1 kernels on one thread.
    """
    alone = conditions.threads == 1 and layer.input_shape[0] < 16 and layer.kernel == (1, 1)
    simple = layer.stride == (1, 1) and layer.dilation == (1, 1)
    return (alone and simple) or (layer.groups == 1 and native(layer, conditions))


def _depthwise(layer: Convolution) -> bool:
    return layer.groups > 1 and layer.groups == layer.input_shape[1] == layer.output_shape[1]


def _widths(layer: Convolution) -> tuple[int, int]:
    """Input and output channels of a group."""
    return layer.input_shape[1] // layer.groups, layer.output_shape[1] // layer.groups


def _channels_last(layer: Convolution, conditions: Conditions) -> int | None:
    """Kernels of batched products: weights in blocks, and the descriptors of a batch."""
    inputs, outputs = _widths(layer)
    if _depthwise(layer):
        inside = all(p <= out for p, out in zip(layer.padding, layer.output_shape[2:], strict=True))
        tried = layer.kernel != (1, 1) and layer.dilation == (1, 1) and inside
        return weight_reorder(layer, BLOCK, SHAPES).amount if tried else None
    known = has_known_block(layer) and has_known_batch(layer)
    if layer.input_shape[1] == 1 or not known:
        return None
    weights = layer.groups * up(outputs) * inputs * elements(layer.kernel) * 4
    return weights + descriptor_workspace(layer, conditions.threads, SHAPES).amount


def _contiguous(layer: Convolution, conditions: Conditions, plain: bool) -> int | None:
    if not is_direct(layer):
        copied = layer.groups == 1 and copies_output_last(layer, conditions.threads)
        return output_bytes(layer) if copied else None
    inputs, outputs = _widths(layer)
    if layer.groups > 1 and not _depthwise(layer) and (inputs % BLOCK or outputs % BLOCK):
        return None if plain else _unfolded_groups(layer, conditions)
    output = blocked_output(layer, BLOCK, SHAPES).amount
    copies = bias_workspace(layer, BLOCK, SHAPES).amount + _strided(layer, conditions)
    few = layer.groups == 1 and layer.input_shape[1] < BLOCK and layer.kernel != (1, 1)
    if few:  # an input with less than one block stays as it is
        copies += weight_reorder(layer, BLOCK, SHAPES).amount
    else:
        copies += input_reorder(layer, BLOCK, SHAPES).amount
        copies += weight_reorder(layer, BLOCK, SHAPES, in_block=BLOCK).amount
    return max(copies + output - output_bytes(layer), output)


def _strided(layer: Convolution, conditions: Conditions) -> int:
    """The positions that a strided 1 × 1 kernel reads, gathered by each thread.

    Only where the stride divides the extents (``rtus_prepare``); ``C_in`` in whole blocks.
    """
    positions = layer.output_shape[2:]
    reached = tuple(o * s for o, s in zip(positions, layer.stride, strict=True))
    whole = layer.kernel == (1, 1) and layer.groups == 1 and reached == layer.input_shape[2:]
    if not whole or layer.stride == (1, 1):
        return 0
    gathered = up(layer.input_shape[1]) * prod(positions) * 4
    return conditions.threads * gathered + SCRATCHPAD_ALIGNMENT


def _unfolded_groups(layer: Convolution, conditions: Conditions) -> int | None:
    """Groups of channels that fill no block: each thread unfolds one, ``C_in/G · K · H · W`` taps.

    The output is copied once, after what was unfolded is freed.
    """
    inputs, _ = _widths(layer)
    group = inputs * elements(layer.kernel) * prod(layer.output_shape[2:]) * 4
    many = layer.input_shape[0] * layer.groups >= _GROUPS * conditions.threads
    if not many or group > _UNFOLDED_BYTES:
        return None
    return max(conditions.threads * group + SCRATCHPAD_ALIGNMENT, output_bytes(layer))
