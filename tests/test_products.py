"""The kernels of matrix products: the rule against what lackey and callgrind counted of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.records.layers import Linear
from report.theory.products import (
    LIBRARY,
    MATRIX_MATRIX,
    MATRIX_VECTOR,
    product_kernel,
    product_terms,
)
from report.theory.terms import padded_channels, theory_macs
from tests.networks import linear

BUILD = f"PyTorch built with: - GCC 13.3 - Intel(R) oneAPI {LIBRARY}-Product Build 20240605"
#: Conversions of the two factors of every product, which lackey counts too.
CONVERSIONS = 2


def executed(layer: Linear, kernel: str | None) -> int:
    """The fused multiply-adds of the terms."""
    channels = 0 if kernel == MATRIX_VECTOR else padded_channels(layer, 8, "").amount
    terms = product_terms(layer, kernel, 8)
    return theory_macs(layer).amount + channels + sum(term.amount for term in terms)


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs", "counted"),
    # As lackey of valgrind 3.19 counted calls of torch.nn.Linear of PyTorch 2.13.0; the first four
    # are the variants of the study, the others are of a grid or were drawn at random.
    [
        (1, 784, 10, 7852),
        (2, 784, 10, 2),
        (8, 784, 10, 75_266),
        (64, 784, 10, 802_818),
        (1, 7, 10, 92),
        (1, 783, 10, 7852),
        (1, 785, 10, 7932),
        (1, 784, 1, 787),
        (1, 1882, 47, 88_785),
        (1, 841, 241, 204_611),
        (1, 1632, 860, 1_404_382),
        (2, 2, 20, 2),
        (3, 784, 5, 18_818),
        (4, 784, 20, 75_266),
        (6, 784, 10, 75_266),
        (7, 784, 13, 75_266),
        (8, 783, 10, 75_170),
        (8, 785, 10, 75_362),
        (8, 784, 4, 37_634),
        (9, 784, 9, 112_898),
        (11, 194, 38, 85_362),
        (13, 784, 9, 150_530),
        (38, 1818, 28, 2_094_338),
        (64, 2, 20, 3074),
        (65, 784, 8, 407_682),
        (76, 142, 33, 431_682),
        (91, 169, 19, 365_042),
        (122, 1354, 45, 7_799_042),
        (128, 2012, 26, 8_112_386),
    ],
)
def test_the_rule_gives_what_was_counted(
    rows: int, inputs: int, outputs: int, counted: int
) -> None:
    layer = linear(rows, inputs, outputs)
    kernel = product_kernel(layer, BUILD)
    assert kernel == (MATRIX_VECTOR if rows == 1 else MATRIX_MATRIX)
    assert executed(layer, kernel) + CONVERSIONS == counted


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs", "lanes"),
    # Lanes of vmulps whose result the next vaddps takes, as callgrind counted these instructions.
    [
        (2, 784, 8, 12_544),
        (2, 784, 10, 25_088),
        (2, 7, 10, 224),
        (6, 784, 10, 0),
        (7, 784, 20, 18_816),
        (8, 784, 10, 25_088),
        (8, 785, 10, 25_120),
        (13, 784, 9, 12_544),
        (64, 784, 10, 0),
        (128, 784, 20, 37_632),
    ],
)
def test_what_is_not_fused_is_multiplied_and_added(
    rows: int, inputs: int, outputs: int, lanes: int
) -> None:
    layer = linear(rows, inputs, outputs)
    *_, unfused = product_terms(layer, product_kernel(layer, BUILD), 8)
    assert unfused.amount == -lanes
    assert unfused.evidence == f"callgrind: vmulps and vaddps in kernel {MATRIX_MATRIX}"


@given(st.integers(2, 128), st.integers(2, 2048), st.integers(4, 48))
def test_six_rows_more_are_fused(rows: int, inputs: int, outputs: int) -> None:
    more = executed(linear(rows + 6, inputs, outputs), MATRIX_MATRIX)
    added = more - executed(linear(rows, inputs, outputs), MATRIX_MATRIX)
    assert added == 6 * inputs * -(-outputs // 8) * 8


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"),
    # Where lackey counted something else than the rule would say.
    [(2, 784, 1), (2, 784, 3), (2, 1, 10), (64, 784, 100), (256, 784, 10), (1024, 784, 48)],
)
def test_no_kernel_is_named_where_none_was_seen(rows: int, inputs: int, outputs: int) -> None:
    assert product_kernel(linear(rows, inputs, outputs), BUILD) is None


def test_an_unknown_kernel_has_the_same_terms_of_zero() -> None:
    unknown = product_terms(linear(8, 784, 10), None, 8)
    known = product_terms(linear(8, 784, 10), MATRIX_MATRIX, 8)
    assert [(term.amount, term.evidence) for term in unknown] == [(0, "")] * len(known)
    assert [term.name for term in unknown] == [term.name for term in known]
