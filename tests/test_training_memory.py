"""What a step keeps: by hand for a small network, and by torch's own rules for what is in place."""

from __future__ import annotations

import pytest

from report.records.layers import Activation, Layer
from report.theory.training_memory import categories, kept_bytes
from tests.networks import Chain
from tests.training import layers_of

#: 2 images of 3 × 8 × 8; 4 channels inside.
IMAGES, MAP, POOLED = 2 * 3 * 64 * 4, 2 * 4 * 64 * 4, 2 * 4 * 16 * 4


def small(function: str = "relu") -> tuple[Layer, ...]:
    net = Chain(2, 3, 8, 8).conv(4, 3, 1, 1, bias=False).norm().act(function)
    return tuple(net.pool("max", 2).flatten().linear(10).layers)


def test_a_small_network_by_hand() -> None:
    # Output of the convolution (for the normalisation), of the activation (for the pooling), of the
    # pooling (for the linear layer); indices; two numbers a channel; log-probabilities; the loss.
    expected = MAP + MAP + POOLED + 2 * POOLED + 2 * 4 * 4 + 2 * 10 * 4 + 8
    assert kept_bytes(small()) == expected


def test_a_relu6_in_place_keeps_a_copy_more() -> None:
    assert kept_bytes(small("relu6")) - kept_bytes(small()) == MAP


def test_categories_add_up() -> None:
    found = categories(small())
    parameters = 4 * (3 * 4 * 9 + 2 * 4 + 64 * 10 + 10)
    assert (found.parameters, found.gradients, found.momentum) == (parameters,) * 3
    assert found.statistics == 2 * 4 * 4 + 8
    assert found.batch == IMAGES + 2 * 8
    assert found.between_steps == 3 * parameters + found.statistics + found.batch
    assert found.before_backward == found.between_steps - parameters + found.kept


def test_a_dropout_keeps_its_mask_in_the_type_of_the_device() -> None:
    net = Chain(2, 5).linear(10).dropout(0.5).linear(3)
    assert kept_bytes(net.layers) - kept_bytes(net.layers, on_host=False) == 2 * 10 * 3


@pytest.mark.parametrize(
    ("network", "kept"),
    # Bytes of 4 images of 64 × 64, by the events of torch 2.13's allocator around a forward pass.
    [("ResNet-18", 7_107_720), ("ResNet-50", 28_114_056), ("MobileNetV2", 25_531_272)],
)
def test_whole_networks_as_the_allocator_of_torch_says(network: str, kept: int) -> None:
    assert kept_bytes(layers_of(network, 4, 64)) == kept


def test_kept_bytes_grow_in_proportion_to_the_batch_but_for_statistics() -> None:
    one, two = (kept_bytes(layers_of("ResNet-18", b, 64)) for b in (1, 2))
    assert 2 * one - two == 8 + 2 * 4 * 4800


def test_a_network_without_layers_keeps_nothing() -> None:
    assert categories(()).between_steps == 0


def test_an_activation_in_place_shares_its_storage() -> None:
    net = Chain(1, 4).linear(6).act().linear(2)
    assert isinstance(net.layers[1], Activation)
    assert kept_bytes(net.layers) == 6 * 4 + 2 * 4 + 8
