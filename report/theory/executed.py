"""What a forward call executes beyond or below theory, by the kernels that PyTorch takes for it."""

from __future__ import annotations

from dataclasses import replace

from report.records.layers import Convolution, Layer, Linear
from report.theory.products import MATRIX_VECTOR, product_kernel, product_terms
from report.theory.reconciliation import Term
from report.theory.terms import COUNTED_WIDTH, padded_channels, skipped_padding


def counted_terms(layer: Layer, build: str) -> tuple[Term, ...]:
    """The terms (MAC) from theory to what lackey counts; ``build`` is how PyTorch was built.

    Of convolutions that oneDNN computes, and of matrix products;
    ``report.theory.convolutions.executed_terms`` also knows those that PyTorch unfolds.
    """
    kernel = product_kernel(layer, build)
    return (
        skipped_padding(layer, _padding(layer)),
        _vector_channels(layer, kernel),
        *product_terms(layer, kernel, COUNTED_WIDTH),
        _factor_conversions(layer),
    )


def _vector_channels(layer: Layer, kernel: str | None) -> Term:
    """Output channels that only fill up vectors; none where these run along the inputs."""
    seen = f", kernel {kernel}" if kernel else ""
    term = padded_channels(layer, COUNTED_WIDTH, f"{_channels(layer)}{seen}")
    return replace(term, amount=0) if kernel == MATRIX_VECTOR else term


def _factor_conversions(layer: Layer) -> Term:
    """What the counter cannot tell from a multiply-add in a matrix product of PyTorch.

    Its two factors, α and β, are converted to float32 (``c10::Scalar::toFloat``), one operation
    each of the kind that is counted.
    """
    count = 2 if isinstance(layer, Linear) else 0
    formula, evidence = "2 for a matrix product, else 0", "callgrind: c10::Scalar::toFloat"
    return Term("Factors converted", count, formula, evidence)


def _padding(layer: Layer) -> str:
    padding = layer.padding if isinstance(layer, Convolution) else (0, 0)
    return f"padding {padding[0]} in the recorded shapes"


def _channels(layer: Layer) -> str:
    channels = layer.output_shape[-1] if isinstance(layer, Linear) else layer.output_shape[1]
    return f"{channels} output channels in the recorded shapes, vectors of {COUNTED_WIDTH}"
