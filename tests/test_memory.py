"""Bytes against the source study's tables and closed forms."""

from __future__ import annotations

from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.records.layers import ELEMENT_BYTES, DType, Layer, PaddedShortcut
from report.theory.work import (
    compulsory_traffic,
    element_bytes,
    input_bytes,
    output_bytes,
    parameter_bytes,
)
from tests.networks import Chain, mnist_conv2


@given(st.integers(1, 10_000))
def test_only_parameters_are_independent_of_the_batch(batch: int) -> None:
    layer = mnist_conv2(batch)
    assert parameter_bytes(layer) == 73_984
    assert output_bytes(layer) == 147_456 * batch


@pytest.mark.parametrize("dtype", get_args(DType))
def test_bytes_follow_the_element_type(dtype: str) -> None:
    layer = msgspec.structs.replace(mnist_conv2(2), dtype=dtype)
    single = mnist_conv2(2)
    assert element_bytes(layer) == ELEMENT_BYTES[dtype]
    assert input_bytes(layer) * 4 == input_bytes(single) * element_bytes(layer)
    assert output_bytes(layer) * 4 == output_bytes(single) * element_bytes(layer)
    assert parameter_bytes(layer) * 4 == parameter_bytes(single) * element_bytes(layer)


def test_a_flatten_is_a_view() -> None:
    (layer,) = Chain(2, 3, 4, 4).flatten().layers
    assert output_bytes(layer) == 2 * 48 * 4
    assert compulsory_traffic(layer) == 0


def only(chain: Chain) -> Layer:
    (layer,) = chain.layers
    return layer


#: Every second row and column of two maps, and as many of zeros.
SHORTCUT = PaddedShortcut(
    input_shape=(1, 2, 4, 6), output_shape=(1, 4, 2, 3), dtype="float32", stride=(2, 2)
)


# 48 elements of 4 bytes: a map is 192 B.
@pytest.mark.parametrize(
    ("layer", "forward", "weight", "input_gradient"),
    [
        (only(Chain(1, 2, 4, 6).act()), 2 * 192, 0, 3 * 192),
        (only(Chain(1, 2, 4, 6).add()), 3 * 192, 0, 0),
        (only(Chain(1, 2, 4, 6).norm()), 2 * 192 + 16, 2 * 192 + 16, 3 * 192 + 8),
        (only(Chain(1, 2, 4, 6).pool("max", 2)), 192 + 48, 0, 2 * 192 + 48),
        (only(Chain(1, 2, 4, 6).pool("average", 2)), 192 + 48, 0, 192 + 48),
        (SHORTCUT, 48 + 96, 0, 48 + 192),
        (only(Chain(1, 48).softmax()), 2 * 192, 0, 3 * 192),
        (only(Chain(1, 48).dropout(0.5)), 2 * 192, 0, 2 * 192 + 48),
        (only(Chain(2, 3).linear(5)), 24 + 80 + 40, 24 + 80 + 40, 24 + 60 + 40),
    ],
    ids=lambda value: type(value).__name__,
)
def test_compulsory_traffic(layer: Layer, forward: int, weight: int, input_gradient: int) -> None:
    assert compulsory_traffic(layer) == forward
    assert compulsory_traffic(layer, "weight_gradient") == weight
    assert compulsory_traffic(layer, "input_gradient") == input_gradient
