"""The MNIST example's network with other channels, kernels and image sizes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from experiments.networks.mnist import (  # noqa: E402
    INPUT_SHAPE,
    SECOND_CONVOLUTION_INPUT_SHAPE,
    SECOND_CONVOLUTION_OUTPUT_SHAPE,
    mnist_cnn,
    second_convolution,
    second_convolution_input_shape,
    second_convolution_output_shape,
)


def parameters(network: Any) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_the_example_itself() -> None:
    network: Any = mnist_cnn()
    assert parameters(network) == 1_199_882
    assert (network.fc1.in_features, network.fc1.out_features) == (9216, 128)
    assert INPUT_SHAPE == (1, 28, 28)
    assert SECOND_CONVOLUTION_INPUT_SHAPE == (32, 26, 26)
    assert SECOND_CONVOLUTION_OUTPUT_SHAPE == (64, 24, 24)
    assert repr(network.conv2) == repr(second_convolution())


@pytest.mark.parametrize("channels", [(1, 1), (20, 40), (33, 65)])
def test_what_is_left_of_an_image_fits_the_linear_layer(channels: tuple[int, int]) -> None:
    network: Any = mnist_cnn(channels).eval()
    image = torch.zeros(2, *INPUT_SHAPE)
    first = network.conv1(image)
    assert first.shape[1:] == second_convolution_input_shape(channels)
    assert network.conv2(first).shape[1:] == second_convolution_output_shape(channels)
    assert network(image).shape == (2, 10)
