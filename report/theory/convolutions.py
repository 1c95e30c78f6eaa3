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
from report.theory.shapes import elements
from report.theory.terms import padded_channels

#: How PyTorch's build names the library that was read, and its kernel of matrix products.
LIBRARY: Final = "Math Kernel Library Version 2024.2"
MATRIX_MATRIX: Final = "mkl_blas_avx2_sgemm_kernel_nocopy_TN"
#: Channels that it takes at once, and left-over ones that it does not fuse.
ROWS_AT_ONCE: Final = 6
UNFUSED_ROWS: Final = frozenset({1, 2})


def executed_terms(layer: Convolution, threads: int, build: str, width: int) -> tuple[Term, ...]:
    """What is executed beyond theory, or hidden from a counter of fused multiply-adds (MAC).

    Always the same terms, 0 where one does not apply; vectors hold ``width`` elements, ``build`` is
    what ``torch.__config__`` says.
    """
    by_onednn = not computed_by_pytorch(layer, Conditions(threads))
    by_mkl = not by_onednn and LIBRARY in build
    outputs = replace(
        padded_channels(layer, width, f"blocks of {width} channels, oneDNN"),
        # The same words for every layer, so that many of them make one table.
        formula=f"taps inside the input · (C_out rounded up to {width} − C_out) / C_out",
    )
    return (
        _only(by_onednn, outputs),
        _only(by_onednn, padded_input_channels(layer, width, f"blocks of {width}, oneDNN")),
        _only(by_mkl, padded_positions(layer, width, f"kernel {MATRIX_MATRIX}")),
        _only(by_mkl, unfused_channels(layer, width, f"kernel {MATRIX_MATRIX}")),
        _only(not by_onednn, converted_factors(layer, "const int beta in ConvolutionMM2d.cpp")),
    )


def _only(applies: bool, term: Term) -> Term:
    return term if applies else replace(term, amount=0, evidence="")


def padded_input_channels(layer: Convolution, width: int, evidence: str) -> Term:
    """Multiply-adds with zeros that fill up the input's last block of channels (MAC).

    Counted for the output channels with theirs filled up too, so that it adds to
    ``report.theory.terms.padded_channels``.
    """
    batch, outputs, *extents = layer.output_shape
    inputs = layer.input_shape[1]
    positions = batch * elements(extents) * elements(layer.kernel)
    return Term(
        "Input channels padded to the vector width",
        positions * (_up(inputs, width) - inputs) * _up(outputs, width),
        f"N · H_out · W_out · K_h · K_w · (C_in rounded up to {width} − C_in) · "
        f"(C_out rounded up to {width})",
        evidence,
    )


def padded_positions(layer: Convolution, width: int, evidence: str) -> Term:
    """Multiply-adds of positions that only fill up the last vector of an image (MAC)."""
    batch, outputs, *extents = layer.output_shape
    positions = elements(extents)
    return Term(
        "Positions padded to the vector width",
        batch * outputs * _column(layer) * (_up(positions, width) - positions),
        f"N · C_out · C_in · K_h · K_w · (H_out · W_out rounded up to {width} − H_out · W_out)",
        evidence,
    )


def unfused_channels(layer: Convolution, width: int, evidence: str) -> Term:
    """Multiply-adds in separate instructions, which a counter of fused ones misses (MAC)."""
    batch, outputs, *extents = layer.output_shape
    left = outputs % ROWS_AT_ONCE
    lanes = batch * _column(layer) * _up(elements(extents), width)
    numbers = " or ".join(map(str, sorted(UNFUSED_ROWS)))
    return Term(
        "Not fused",
        -left * lanes if left in UNFUSED_ROWS else 0,
        f"−(C_out mod {ROWS_AT_ONCE}, if {numbers}) · N · C_in · K_h · K_w · "
        f"(H_out · W_out rounded up to {width})",
        evidence,
    )


def converted_factors(layer: Convolution, evidence: str) -> Term:
    """The factor β of each image's product, converted from a whole number (counted as MAC)."""
    return Term("Factors converted", layer.output_shape[0], "N", evidence)


def _column(layer: Convolution) -> int:
    """Elements of the input that one element of the output is computed from."""
    return layer.input_shape[1] * elements(layer.kernel)


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
