"""The terms between theory and measurement that theory itself can state, from shapes.

Each function computes one term of a ``theory.reconciliation.Reconciliation`` and takes the evidence
that it is there from the caller: a formula says how large a term would be, never that it applies.
Letters in formulas are those of ``report.theory.shapes``.

Terms of work are multiply-adds (``MAC``) or, where the name says so, single operations (``FLOP``);
``as_flops`` turns the former into the latter.  Terms of memory are bytes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final, TypeAlias

from report.errors import StudyError
from report.records.layers import Convolution, Layer, Linear
from report.theory.allocator import Snapshot
from report.theory.memory import element_bytes, output_bytes
from report.theory.reconciliation import Term
from report.theory.shapes import bias_count, elements
from report.theory.work import macs, valid_tap_macs

SHAPES: Final = "shapes in the record"

#: oneDNN aligns what a primitive books as scratchpad to this, and books the alignment with it
#: (``src/common/memory_tracking.hpp``, ``default_alignment``, ``registry_t::book``).
SCRATCHPAD_ALIGNMENT: Final = 128
#: A page, to which oneDNN aligns and rounds the batch descriptors of its matrix kernels.
PAGE: Final = 4096
#: Bytes of one descriptor (``src/cpu/x64/brgemm/brgemm_types.hpp``, ``brgemm_batch_element_t``):
#: two pointers, two paddings and a flag of 8 B each.
DESCRIPTOR: Final = 40
#: The vector width, in float32 elements, of the kernels that ran under the counter: valgrind
#: offers AVX2 and no wider, so that oneDNN chooses its AVX2 kernels there.
COUNTED_WIDTH: Final = 8


def theory_macs(layer: Layer) -> Term:
    """Where a reconciliation of multiply-adds starts."""
    formula = "N · H_out · W_out · C_out · C_in/G · K_h · K_w"
    if isinstance(layer, Linear):
        formula = "rows · features in · features out"
    return Term("Theory", macs(layer), formula, SHAPES)


def as_flops(term: Term) -> Term:
    """A term of multiply-adds in floating-point operations, two each."""
    return replace(term, amount=2 * term.amount, formula=f"2 · ({term.formula})")


def output_scaling(layer: Layer, evidence: str) -> Term:
    """One multiplication an output element: kernels that write α · result, with α = 1 too (FLOP).

    cuDNN defines its convolutions as y = α · conv(x, w) + β · y (API reference,
    ``cudnnConvolutionForward``).
    """
    return _for_each_output("Output scaling", layer, evidence)


def output_additions(layer: Layer, evidence: str) -> Term:
    """One addition an output element: kernels that add β · y or the bias to the result (FLOP)."""
    return _for_each_output("Output additions", layer, evidence)


def _for_each_output(name: str, layer: Layer, evidence: str) -> Term:
    return Term(name, elements(layer.output_shape), "N · C_out · H_out · W_out", evidence)


def bias_kernel(layer: Layer, evidence: str) -> Term:
    """One multiply-add an output element: a kernel of its own that adds α · bias (FLOP).

    PyTorch's addition is defined as x + α · y (``torch.add``), with α = 1 too.
    """
    count = 2 * elements(layer.output_shape) if bias_count(layer) else 0
    formula = "2 · N · C_out · H_out · W_out" if count else "0: no bias"
    return Term("Bias in its own kernel", count, formula, evidence)


#: Extents of the block that a kernel computes at once: positions, output channels, taps.
Tile: TypeAlias = tuple[int, int, int]


def tile_padding(layer: Convolution, tile: Tile, evidence: str) -> Term:
    """Multiply-adds that only fill up the tiles of an implicit matrix product (MAC).

    The positions of the output, its channels and the taps of each are the sides of the product
    (Chetlur et al., cuDNN: Efficient Primitives for Deep Learning, arXiv:1410.0759, section 3), and
    each is rounded up to a multiple of the tile's.
    """
    return Term(
        "Filling up tiles",
        layer.groups * math.prod(_tiled_sides(layer, tile)) - macs(layer),
        "(N · H_out · W_out) · C_out · (C_in · K_h · K_w), each rounded up to tiles − theory",
        evidence,
    )


def tile_epilogue(layer: Convolution, tile: Tile, evidence: str) -> Term:
    """One addition and one multiplication for each output of the tiles, filled-up ones too (FLOP).

    cuDNN defines its convolutions as y = α · conv(x, w) + β · y (API reference,
    ``cudnnConvolutionForward``).
    """
    positions, channels, _ = _tiled_sides(layer, tile)
    return Term(
        "Scaling of the result",
        2 * layer.groups * positions * channels,
        "2 · (N · H_out · W_out) · C_out, both rounded up to tiles",
        evidence,
    )


def _tiled_sides(layer: Convolution, tile: Tile) -> tuple[int, ...]:
    """Positions, output channels and taps of the product, each rounded up to whole tiles."""
    outputs = layer.output_shape
    taps = math.prod(layer.kernel) * layer.input_shape[1] // layer.groups
    sides = (outputs[0] * math.prod(outputs[2:]), outputs[1] // layer.groups, taps)
    return tuple(_up(side, of) for side, of in zip(sides, tile, strict=True))


def skipped_padding(layer: Layer, evidence: str) -> Term:
    """Multiply-adds with the zeros of the padding that are not executed (MAC, at most 0)."""
    return Term(
        "Padding taps skipped",
        valid_tap_macs(layer) - macs(layer),
        "taps inside the input − all taps",
        evidence,
    )


def padded_channels(layer: Convolution, width: int, evidence: str) -> Term:
    """Multiply-adds of output channels that only fill up the vectors of ``width`` (MAC).

    Counted on the taps inside the input, so that it adds to ``skipped_padding``.  The channels of a
    group are filled up by themselves; one-channel groups (depthwise) share vectors.
    """
    channels = layer.output_shape[1]
    channels //= 1 if layer.groups == channels else layer.groups
    added = _up(channels, width) - channels
    return Term(
        "Channels padded to the vector width",
        valid_tap_macs(layer) * added // channels,
        f"taps inside the input · ({channels + added} − {channels}) / {channels}",
        evidence,
    )


def theory_output(layer: Layer) -> Term:
    """Where a reconciliation of a call's memory starts: its result (B)."""
    return Term("Output", output_bytes(layer), f"output elements · {_size(layer)}", SHAPES)


def input_reorder(layer: Convolution, block: int, evidence: str) -> Term:
    """A copy of the input with channels in blocks of ``block`` (B).

    oneDNN's blocked layouts (nChw8c for AVX2, nChw16c for AVX-512) fill the last block up with
    zeros (oneDNN developer guide, "Understanding Memory Formats").
    """
    formula = f"N · {_up_text('C_in', block)} · H · W · {_size(layer)}"
    size = _blocked_bytes(layer, layer.input_shape, block)
    return Term("Input reorder", size, formula, evidence)


def weight_reorder(layer: Convolution, out_block: int, evidence: str, *, in_block: int = 1) -> Term:
    """A copy of the weights with output and input channels in blocks (B).

    Input channels of a group stay as they are where ``in_block`` is 1; with one channel a group
    (depthwise) there is none to fill up.
    """
    inputs = layer.input_shape[1] // layer.groups
    block = 1 if inputs == 1 else in_block
    size = _up(layer.output_shape[1], out_block) * _up(inputs, block) * elements(layer.kernel)
    channels = f"{_up_text('C_out', out_block)} · {_up_text('C_in/G', block)}"
    formula = f"{channels} · K_h · K_w · {_size(layer)}"
    return Term("Weight reorder", size * element_bytes(layer), formula, evidence)


def blocked_output(layer: Convolution, block: int, evidence: str) -> Term:
    """The result in blocks of ``block`` channels, before it is copied to the plain layout (B)."""
    formula = f"N · {_up_text('C_out', block)} · H_out · W_out · {_size(layer)}"
    size = _blocked_bytes(layer, layer.output_shape, block)
    return Term("Blocked output", size, formula, evidence)


def _blocked_bytes(layer: Convolution, shape: tuple[int, ...], block: int) -> int:
    """Bytes of a tensor of ``shape`` whose channels are filled up to whole blocks."""
    batch, channels, *extents = shape
    return batch * _up(channels, block) * elements(extents) * element_bytes(layer)


def bias_workspace(layer: Convolution, block: int, evidence: str) -> Term:
    """oneDNN's scratchpad for a bias filled up to whole blocks (B); 0 where none is filled up.

    ``init_scratchpad`` of its direct kernels (``src/cpu/x64/jit_avx2_conv_kernel_f32.cpp``) books
    ``key_conv_padded_bias`` for a bias whose channels are not whole blocks.
    """
    channels = layer.output_shape[1]
    needed = layer.bias and channels % block != 0
    size = _up(channels, block) * element_bytes(layer) + SCRATCHPAD_ALIGNMENT if needed else 0
    formula = f"{_up_text('C_out', block)} · {_size(layer)} + {SCRATCHPAD_ALIGNMENT} B"
    return Term("Workspace, padded bias", size, formula if needed else "0", evidence)


def descriptor_workspace(layer: Convolution, threads: int, evidence: str) -> Term:
    """oneDNN's scratchpad for the descriptors of its batched matrix kernels (B).

    A convolution in the channels-last layout is a batch of small matrix products, one a position
    of the kernel.  Each thread has room for the descriptors of one batch, rounded up to whole pages
    and then to whole descriptors; a page of alignment is added
    (``src/cpu/x64/jit_brgemm_conv_utils.cpp``: ``adjusted_batch_size``, ``init_scratchpad``; blocks
    of input channels that share a batch are taken to be one).
    """
    batch = math.ceil(_up(elements(layer.kernel) * DESCRIPTOR, PAGE) / DESCRIPTOR)
    return Term(
        "Workspace, batch descriptors",
        threads * batch * DESCRIPTOR + PAGE,
        f"threads · {batch} descriptors · {DESCRIPTOR} B + {PAGE} B",
        evidence,
    )


def allocator_rounding(before: Snapshot, after: Snapshot, evidence: str) -> Term:
    """What blocks hold beyond the bytes asked for, between two states of the allocator (B)."""
    return Term(
        "Allocator rounding",
        (after.allocated - before.allocated) - (after.requested - before.requested),
        "blocks − requests",
        evidence,
    )


def segment_granularity(before: Snapshot, after: Snapshot, evidence: str) -> tuple[Term, Term]:
    """From allocated to reserved bytes: blocks in segments held before, room in new ones (B).

    ``after`` must follow ``before`` in one replay without a segment given back between them;
    raises ``StudyError`` otherwise.
    """
    held = {segment.number for segment in before.segments}
    fresh = [segment for segment in after.segments if segment.number not in held]
    if len(after.segments) - len(fresh) != len(held):
        raise StudyError(
            "segment granularity: a segment was given back between the two states; compare states "
            "without empty_cache between them."
        )
    in_fresh = sum(segment.allocated for segment in fresh)
    return (
        Term(
            "Served from segments held before",
            -(after.allocated - before.allocated - in_fresh),
            "−(blocks in earlier segments)",
            evidence,
        ),
        Term(
            "Segment granularity",
            sum(segment.size for segment in fresh) - in_fresh,
            "new segments − blocks in them",
            evidence,
        ),
    )


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple


def _up_text(letter: str, multiple: int) -> str:
    return letter if multiple == 1 else f"({letter} rounded up to {multiple})"


def _size(layer: Layer) -> str:
    return f"{element_bytes(layer)} B"
