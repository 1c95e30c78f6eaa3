"""What the code that computes a convolution on a CPU executes beyond theory; pure.

PyTorch hands most float32 convolutions to oneDNN.  Small ones it computes itself: it unfolds the
input into columns, one a position of the output, and multiplies them with the weights, image by
image (``aten/src/ATen/native/ConvolutionMM2d.cpp``).  Which of the two it is, and how many bytes
each takes, tells ``theory.convolution_workspaces``.

oneDNN's kernels for vectors keep channels in blocks as long as a vector, on both sides.  The matrix
product is MKL's; its vectors run along the positions, and it takes output channels by the six; one
or two that are left over it multiplies and adds in separate instructions.  That rule was read off
smaller products: callgrind counted the instructions of MKL 2024.2 in PyTorch 2.13.0 under valgrind
3.19, which shows every machine that has AVX2 the same processor, for 72 shapes, and lackey met it
for 463.  Whether it holds here, each residual shows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from report.records.layers import Convolution
from report.theory.conditions import Conditions
from report.theory.convolution_workspaces import computed_by_pytorch
from report.theory.reconciliation import Term
from report.theory.shapes import elements, round_up
from report.theory.terms import padded_channels

#: How PyTorch's build names the library that was read, and its kernel of matrix products.
LIBRARY: Final = "Math Kernel Library Version 2024.2"
MATRIX_MATRIX: Final = "mkl_blas_avx2_sgemm_kernel_nocopy_TN"
#: Channels that it takes at once, and left-over ones that it does not fuse.
ROWS_AT_ONCE: Final = 6
UNFUSED_ROWS: Final = (1, 2)


def executed_terms(layer: Convolution, threads: int, build: str, width: int) -> tuple[Term, ...]:
    """What is executed beyond theory, or hidden from a counter of fused multiply-adds (MAC).

    Always the same terms, 0 where one does not apply; vectors hold ``width`` elements, ``build`` is
    what ``torch.__config__`` says.
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
