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
from report.errors import MeasurementError  # noqa: E402


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


def test_the_changed_channels_of_the_profiling_study() -> None:
    network: Any = mnist_cnn((20, 40))
    assert (network.conv1.out_channels, network.conv2.out_channels) == (20, 40)
    assert (network.fc1.in_features, network.fc1.out_features) == (5760, 128)
    first, second = 20 * 9 + 20, 40 * 20 * 9 + 40
    assert parameters(network) == first + second + 5760 * 128 + 128 + 1290


@pytest.mark.parametrize("channels", [(1, 1), (8, 16), (20, 40), (33, 65)])
@pytest.mark.parametrize("kernel", [1, 2, 3, 5])
@pytest.mark.parametrize("size", [14, 28, 32])
def test_what_is_left_of_an_image_fits_the_linear_layer(
    channels: tuple[int, int], kernel: int, size: int
) -> None:
    network: Any = mnist_cnn(channels, kernel, size).eval()
    image = torch.zeros(2, 1, size, size)
    first = network.conv1(image)
    assert first.shape[1:] == second_convolution_input_shape(channels, size)
    assert network.conv2(first).shape[1:] == second_convolution_output_shape(channels, kernel, size)
    assert network(image).shape == (2, 10)


def test_the_smallest_image() -> None:
    assert mnist_cnn((2, 3), 5, 8)(torch.zeros(1, 1, 8, 8)).shape == (1, 10)
    with pytest.raises(MeasurementError, match=r"7×7 pixels is too small .* take one of 8×8"):
        mnist_cnn((2, 3), 5, 7)
