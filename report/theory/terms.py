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
from typing import Final, Literal, TypeAlias

from report.core.records.layers import Convolution, Layer, Linear
from report.theory.allocator import Snapshot
from report.theory.conditions import Conditions
from report.theory.convolution_workspaces import computed_by_pytorch
from report.theory.reconciliation import Term
from report.theory.shapes import bias_count, elements, round_up
from report.theory.work import element_bytes, macs, output_bytes, valid_tap_macs

SHAPES: Final = "shapes in the record"

#: The vector width, in float32 elements, of the kernels that ran under the counter: valgrind
#: offers AVX2 and no wider, so that oneDNN chooses its AVX2 kernels there.
COUNTED_WIDTH: Final = 8
#: How PyTorch's build names the library that was read, and its kernel of matrix products.
LIBRARY: Final = "Math Kernel Library Version 2024.2"
MATRIX_MATRIX: Final = "mkl_blas_avx2_sgemm_kernel_nocopy_TN"
#: Channels that it takes at once, and left-over ones that it does not fuse.
ROWS_AT_ONCE: Final = 6
UNFUSED_ROWS: Final = (1, 2)


def theory_macs(layer: Layer) -> Term:
    """Where a reconciliation of multiply-adds starts."""
    formula = "N · H_out · W_out · C_out · C_in/G · K_h · K_w"
    if isinstance(layer, Linear):
        formula = "rows · features in · features out"
    return Term("Theory", macs(layer), formula, SHAPES)


def as_flops(term: Term) -> Term:
    """A term of multiply-adds in floating-point operations, two each."""
    return replace(term, amount=2 * term.amount, formula=f"2 · ({term.formula})")


def for_each_output(name: Literal["scaling", "additions"], layer: Layer) -> Term:
    """One operation an output element (FLOP), which kernels do that write α · result + β · y.

    cuDNN defines its convolutions so (API reference, ``cudnnConvolutionForward``), with α = 1 too;
    an addition may be that of the bias.  Evidence is still to be found.
    """
    return Term(f"Output {name}", elements(layer.output_shape), "N · C_out · H_out · W_out", "")


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
    return tuple(round_up(side, of) for side, of in zip(sides, tile, strict=True))


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
    added = round_up(channels, width) - channels
    return Term(
        "Channels padded to the vector width",
        valid_tap_macs(layer) * added // channels,
        f"taps inside the input · ({channels + added} − {channels}) / {channels}",
        evidence,
    )


def executed_terms(layer: Convolution, threads: int, build: str, width: int) -> tuple[Term, ...]:
    """What is executed beyond theory, or hidden from a counter of fused multiply-adds (MAC).

    Always the same terms, 0 where one does not apply; vectors hold ``width`` elements, ``build`` is
    what ``torch.__config__`` says.

    PyTorch hands most float32 convolutions to oneDNN.  Small ones it computes itself: it unfolds
    the input into columns, one a position of the output, and multiplies them with the weights,
    image by image (``aten/src/ATen/native/ConvolutionMM2d.cpp``).  Which of the two it is, and how
    many bytes each takes, tells ``theory.convolution_workspaces``.

    oneDNN's kernels for vectors keep channels in blocks as long as a vector, on both sides.  The
    matrix product is MKL's; its vectors run along the positions, and it takes output channels by
    the six; one or two that are left over it multiplies and adds in separate instructions.  That
    rule was read off smaller products: callgrind counted the instructions of MKL 2024.2 in PyTorch
    2.13.0 under valgrind 3.19, which shows every machine that has AVX2 the same processor, for 72
    shapes, and lackey met it for 463.  Whether it holds here, each residual shows.
    """
    by_onednn = not computed_by_pytorch(layer, Conditions(threads))
    by_mkl = not by_onednn and LIBRARY in build
    # Each image's product converts its factor β from a whole number.
    beta = "const int beta in ConvolutionMM2d.cpp"
    converted = Term("Factors converted", layer.output_shape[0], "N", beta)
    terms = (
        *((by_onednn, term) for term in _of_onednn(layer, width)),
        *((by_mkl, term) for term in _of_product(layer, width)),
        (not by_onednn, converted),
    )
    return tuple(term if yes else replace(term, amount=0, evidence="") for yes, term in terms)


def _of_onednn(layer: Convolution, width: int) -> tuple[Term, Term]:
    """Multiply-adds with zeros that fill up blocks of channels, output and input."""
    evidence = f"blocks of {width} channels, oneDNN"
    batch, outputs, *extents = layer.output_shape
    inputs = layer.input_shape[1]
    positions = batch * elements(extents) * elements(layer.kernel)
    filled = Term(
        "Input channels padded to the vector width",
        positions * (round_up(inputs, width) - inputs) * round_up(outputs, width),
        f"N · H_out · W_out · K_h · K_w · (C_in rounded up to {width} − C_in) · "
        f"(C_out rounded up to {width})",
        f"blocks of {width}, oneDNN",
    )
    # The same words for every layer, so that many of them make one table.
    words = f"taps inside the input · (C_out rounded up to {width} − C_out) / C_out"
    return replace(padded_channels(layer, width, evidence), formula=words), filled


def _of_product(layer: Convolution, width: int) -> tuple[Term, Term]:
    """Multiply-adds of positions that fill up an image's last vector, and those not fused."""
    evidence = f"kernel {MATRIX_MATRIX}"
    batch, outputs, *extents = layer.output_shape
    positions, filled = elements(extents), round_up(elements(extents), width)
    each = batch * layer.input_shape[1] * elements(layer.kernel)
    left = outputs % ROWS_AT_ONCE
    return (
        Term(
            "Positions padded to the vector width",
            outputs * each * (filled - positions),
            f"N · C_out · C_in · K_h · K_w · (H_out · W_out rounded up to {width} − H_out · W_out)",
            evidence,
        ),
        Term(
            "Not fused",
            -left * each * filled if left in UNFUSED_ROWS else 0,
            f"−(C_out mod {ROWS_AT_ONCE}, if {' or '.join(map(str, UNFUSED_ROWS))}) · N · C_in · "
            f"K_h · K_w · (H_out · W_out rounded up to {width})",
            evidence,
        ),
    )


def theory_output(layer: Layer) -> Term:
    """Where a reconciliation of a call's memory starts: its result (B)."""
    return Term(
        "Output", output_bytes(layer), f"output elements · {element_bytes(layer)} B", SHAPES
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

    ``after`` must follow ``before`` in one replay.
    """
    fresh = after.segments[len(before.segments) :]
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
