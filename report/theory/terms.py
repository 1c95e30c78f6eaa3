"""Terms between theory and measurement that follow from shapes.

Each function computes terms of a ``theory.reconciliation.Reconciliation``.  Callers supply
``evidence``, a text on why a term applies.  ``report.theory.work`` defines the letters in formulas.

Docstrings state whether a term is in multiply-adds (MAC) or in single operations (FLOP).
"""

import math
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from report.core.records.layers import Convolution, Layer, Linear
from report.theory.conditions import Conditions
from report.theory.convolution_workspaces import computed_by_pytorch
from report.theory.reconciliation import Term
from report.theory.work import bias_count, elements, macs, round_up, valid_tap_macs

#: Evidence for terms that follow from shapes alone.
FROM_SHAPES: Final = "shapes in the record"

#: Vector width (float32 elements) of kernels that ran under valgrind, which offers programs the
#: vectors of AVX2 and no wider vectors.
COUNTED_WIDTH: Final = 8
#: Text in PyTorch's build that names the library of ``_matrix_product_terms`` (MKL).
MKL_VERSION: Final = "Math Kernel Library Version 2024.2"
#: MKL's matrix kernel.
MATRIX_KERNEL: Final = "mkl_blas_avx2_sgemm_kernel_nocopy_TN"
#: Output channels that MKL's matrix kernel multiplies at once.
ROWS_AT_ONCE: Final = 6
#: Numbers of remaining channels for which MKL's matrix kernel uses no fused multiply-adds.
UNFUSED_ROWS: Final = (1, 2)


def theory_macs(layer: Layer) -> Term:
    """Return the multiply-adds of a layer by theory, the start of a reconciliation (MAC)."""
    formula = "N · H_out · W_out · C_out · C_in/G · K_h · K_w"
    if isinstance(layer, Linear):
        formula = "rows · features in · features out"
    return Term("Theory", macs(layer), formula, FROM_SHAPES)


def as_flops(term: Term) -> Term:
    """Convert a term from multiply-adds to floating-point operations (two per multiply-add)."""
    return replace(term, amount=2 * term.amount, formula=f"2 · ({term.formula})")


def for_each_output(name: Literal["scaling", "additions"], layer: Layer) -> Term:
    """Return one operation per output element (FLOP), for kernels that write α · result + β · y.

    cuDNN defines convolutions in this way, even with α = 1 (API reference,
    ``cudnnConvolutionForward``).  An addition may also be the bias.
    """
    return Term(f"Output {name}", elements(layer.output_shape), "N · C_out · H_out · W_out", "")


def bias_kernel(layer: Layer, evidence: str) -> Term:
    """Return one multiply-add per output element, for a separate kernel that adds α · bias (FLOP).

    PyTorch defines addition as x + α · y (``torch.add``), even with α = 1.
    """
    count = 2 * elements(layer.output_shape) if bias_count(layer) else 0
    formula = "2 · N · C_out · H_out · W_out" if count else "0: no bias"
    return Term("Bias in its own kernel", count, formula, evidence)


#: Extents of the block that a kernel computes at once: positions, output channels, taps.
Tile: TypeAlias = tuple[int, int, int]


def tile_padding(layer: Convolution, tile: Tile, evidence: str) -> Term:
    """Return the multiply-adds that only fill the tiles of an implicit matrix product (MAC).

    The sides of the product are output positions, output channels and taps (Chetlur et al., cuDNN:
    Efficient Primitives for Deep Learning, arXiv:1410.0759, section 3).  Every side is rounded up
    to a multiple of the tile's side.
    """
    formula = "(N · H_out · W_out) · C_out · (C_in · K_h · K_w), each rounded up to tiles − theory"
    count = layer.groups * math.prod(_tiled_sides(layer, tile)) - macs(layer)
    return Term("Filling up tiles", count, formula, evidence)


def tile_epilogue(layer: Convolution, tile: Tile, evidence: str) -> Term:
    """Return an addition and a multiplication per output of the tiles, including padding (FLOP).

    cuDNN defines its convolutions as y = α · conv(x, w) + β · y (API reference,
    ``cudnnConvolutionForward``).
    """
    positions, channels, _ = _tiled_sides(layer, tile)
    formula = "2 · (N · H_out · W_out) · C_out, both rounded up to tiles"
    count = 2 * layer.groups * positions * channels
    return Term("Scaling of the result", count, formula, evidence)


def _tiled_sides(layer: Convolution, tile: Tile) -> tuple[int, ...]:
    """Return positions, output channels and taps of the product, rounded up to whole tiles."""
    outputs = layer.output_shape
    taps = math.prod(layer.kernel) * layer.input_shape[1] // layer.groups
    sides = (outputs[0] * math.prod(outputs[2:]), outputs[1] // layer.groups, taps)
    return tuple(round_up(side, multiple) for side, multiple in zip(sides, tile, strict=True))


def padded_channels(layer: Convolution, width: int, evidence: str) -> Term:
    """Return the multiply-adds of channels that only fill vectors of ``width`` elements (MAC).

    The channels are output channels, and only taps inside the input count.  Every group is padded
    separately, except groups of one channel (depthwise), which share vectors.
    """
    channels = layer.output_shape[1]
    channels //= 1 if layer.groups == channels else layer.groups
    count = valid_tap_macs(layer) * (round_up(channels, width) - channels) // channels
    # The formula is the same for all layers, so that one table can list them.
    formula = f"taps inside the input · (C_out rounded up to {width} − C_out) / C_out"
    return Term("Channels padded to the vector width", count, formula, evidence)


def executed_terms(layer: Convolution, build: str) -> tuple[Term, ...]:
    """Return the terms between theory and a count of fused multiply-adds under valgrind (MAC).

    The same terms are returned for every layer, with amounts of 0 if they do not apply.  Vectors
    have ``COUNTED_WIDTH`` elements.  ``build`` is the text of ``torch.__config__``.

    PyTorch passes most float32 convolutions to oneDNN (``theory.convolution_workspaces`` decides).
    For small convolutions PyTorch unfolds the input into columns, one per output position, and
    multiplies the columns with the weights, image by image
    (``aten/src/ATen/native/ConvolutionMM2d.cpp``).

    oneDNN's vector kernels block input and output channels by the length of a vector.  MKL computes
    the matrix product: vectors run along the positions, six output channels are multiplied at once,
    and one or two remaining channels use separate multiplications and additions.  These facts were
    found with smaller products: callgrind counted the instructions of MKL 2024.2 in PyTorch 2.13.0
    for 72 shapes, under valgrind 3.19, which presents the same processor on every machine with
    AVX2.  valgrind's lackey confirmed the facts for 463 shapes.  The residual of a layer shows
    whether they hold for this layer.
    """
    by_onednn = not computed_by_pytorch(layer, Conditions(threads=1))
    by_mkl = not by_onednn and MKL_VERSION in build
    # The product of each image converts its factor β from an integer: one counted operation.
    evidence = "const int beta in ConvolutionMM2d.cpp"
    converted = Term("Factors converted", layer.output_shape[0], "N", evidence)
    return (
        *_zero_unless(by_onednn, *_onednn_terms(layer, COUNTED_WIDTH)),
        *_zero_unless(by_mkl, *_matrix_product_terms(layer, COUNTED_WIDTH)),
        *_zero_unless(not by_onednn, converted),
    )


def _zero_unless(applies: bool, *terms: Term) -> tuple[Term, ...]:
    """Return the terms; if they do not apply, set the amounts to 0 and the evidence to ""."""
    if applies:
        return terms
    return tuple(replace(term, amount=0, evidence="") for term in terms)


def _onednn_terms(layer: Convolution, width: int) -> tuple[Term, Term]:
    """Return the multiply-adds with zeros that fill blocks of output and input channels."""
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
    return padded_channels(layer, width, f"blocks of {width} channels, oneDNN"), filled


def _matrix_product_terms(layer: Convolution, width: int) -> tuple[Term, Term]:
    """Return the multiply-adds that fill the last vector of positions, and the unfused ones.

    Unfused multiply-adds are negative, since a counter of fused multiply-adds does not count them.
    """
    evidence = f"kernel {MATRIX_KERNEL}"
    batch, outputs, *extents = layer.output_shape
    positions, filled = elements(extents), round_up(elements(extents), width)
    per_position = batch * layer.input_shape[1] * elements(layer.kernel)
    remainder = outputs % ROWS_AT_ONCE
    padding = outputs * per_position * (filled - positions)
    unfused = remainder * per_position * filled if remainder in UNFUSED_ROWS else 0
    rounded = f"H_out · W_out rounded up to {width}"
    rows = f"C_out mod {ROWS_AT_ONCE}, if {' or '.join(map(str, UNFUSED_ROWS))}"
    formula = f"N · C_out · C_in · K_h · K_w · ({rounded} − H_out · W_out)"
    unfused_formula = f"−({rows}) · N · C_in · K_h · K_w · ({rounded})"
    return (
        Term("Positions padded to the vector width", padding, formula, evidence),
        Term("Not fused", -unfused, unfused_formula, evidence),
    )
