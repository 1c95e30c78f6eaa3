"""Which of oneDNN's float32 kernels a convolution goes to on a CPU with AVX2, if shapes tell it.

What a kernel copies depends on which one it is, and on the block of channels that it takes.  Both
are decided in oneDNN 3.12, of PyTorch 2.13 (``src/cpu/x64/jit_avx2_conv_kernel_f32.cpp`` and
``jit_brgemm_conv_utils.cpp``, ``init_conf``), in part by the sizes of caches.
"""

from __future__ import annotations

from typing import Final

from report.records.layers import Convolution
from report.theory.memory import output_bytes
from report.theory.shapes import elements
from report.theory.terms import SCRATCHPAD_ALIGNMENT

#: Channels of a vector of eight float32, in which AVX2 kernels block them.
BLOCK: Final = 8
#: Positions of an output row that a direct kernel computes at once; padding must not exceed them.
_ROW: Final = 3
#: Columns of the widest kernel that a direct kernel steps over padding with.
_WIDE: Final = 7
#: Taps whose descriptors fill one page, as do those of any part of them.
_ONE_PAGE: Final = 102
#: A channels-last kernel takes up to so many vectors of output channels as a block, of large maps
#: up to half of them.
_VECTORS: Final = 4
_LARGE_MAP: Final = 150 * 150


def is_direct(layer: Convolution) -> bool:
    """Whether the contiguous layout goes to the direct kernel; else its input is unfolded."""
    reach = (d * (k - 1) + 1 for d, k in zip(layer.dilation, layer.kernel, strict=True))
    inside = all(p < r for p, r in zip(layer.padding, reach, strict=True))
    still = layer.padding == (0, 0) or layer.stride == (1, 1)
    narrow = layer.kernel[1] <= _WIDE or still
    return inside and narrow and layer.padding[1] <= min(_ROW, layer.output_shape[3])


def copies_output_last(layer: Convolution, threads: int) -> bool:
    """Whether a copy of the output is more than an input can be that each thread unfolds.

    A thread unfolds some positions of one image, at most all of them; how many, caches decide.
    Then the output is copied once.
    """
    taps = layer.input_shape[1] // layer.groups * elements(layer.kernel)
    unfolded = taps * elements(layer.output_shape[2:]) * 4
    return threads * unfolded + SCRATCHPAD_ALIGNMENT <= output_bytes(layer)


def has_known_block(layer: Convolution) -> bool:
    """Whether all blocks that a channels-last kernel may take hold the weights in as many bytes.

    Which of them fills the caches best is estimated from their sizes.
    """
    outputs = layer.output_shape[1] // layer.groups
    large = elements(layer.output_shape[2:]) >= _LARGE_MAP
    most = min(up(outputs) // BLOCK, _VECTORS // 2 if large else _VECTORS)
    return len({-(-outputs // (n * BLOCK)) * n for n in range(1, most + 1)}) == 1


def has_known_batch(layer: Convolution) -> bool:
    """Whether the descriptors of a channels-last kernel fill as many pages whatever the caches.

    A batch of products has the taps of a whole kernel, or of one row of it.
    """
    return elements(layer.kernel) <= _ONE_PAGE


def up(channels: int) -> int:
    """Channels in whole vectors."""
    return -(-channels // BLOCK) * BLOCK
