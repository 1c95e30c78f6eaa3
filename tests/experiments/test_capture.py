"""Layers as hooks see them, against parameters and shapes that torch itself reports."""

from __future__ import annotations

from itertools import pairwise
from math import prod

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402

from experiments import conv_scaling  # noqa: E402
from experiments.harness.capture import layers_of  # noqa: E402
from experiments.harness.measure import layers_of_case  # noqa: E402
from experiments.networks.blocks import Residual  # noqa: E402
from experiments.networks.mnist import (  # noqa: E402
    mnist_cnn,
)
from report.errors import MeasurementError  # noqa: E402
from report.records.layers import (  # noqa: E402
    Activation,
    Addition,
    BatchNorm,
    Convolution,
    Layer,
    Linear,
    Pooling,
)
from tests import factory  # noqa: E402


def parameters(layer: Layer) -> int:
    """Written here again, apart from report.theory.work."""
    match layer:
        case Convolution():
            weights = layer.output_shape[1] * layer.input_shape[1] // layer.groups
            return weights * prod(layer.kernel) + layer.bias * layer.output_shape[1]
        case Linear():
            return (layer.input_shape[-1] + layer.bias) * layer.output_shape[-1]
        case BatchNorm():
            return 2 * layer.affine * layer.input_shape[1]
    return 0


def test_the_mnist_cnn() -> None:
    network = mnist_cnn().eval()
    layers = layers_of(network, torch.zeros(2, 1, 28, 28))
    assert sum(map(parameters, layers)) == 1_199_882
    assert sum(p.numel() for p in network.parameters()) == 1_199_882
    assert [layer.name for layer in layers] == [name for name, _ in network.named_children()]
    shapes = [layer.output_shape for layer in layers]
    assert shapes[2] == (2, 64, 24, 24)
    assert shapes[4] == (2, 64, 12, 12)
    assert shapes[-1] == (2, 10)
    for before, after in pairwise(layers):
        assert before.output_shape == after.input_shape
    macs = sum(
        prod(layer.output_shape) // 2 * prod(layer.kernel) * layer.input_shape[1]
        if isinstance(layer, Convolution)
        else prod(layer.output_shape) // 2 * layer.input_shape[-1]
        for layer in layers
        if isinstance(layer, Convolution | Linear)
    )
    assert macs == 11_992_448


@pytest.mark.parametrize("batch", [1, 1024, 10**9])
def test_a_case_has_its_layers_whatever_fits_in_memory(batch: int) -> None:
    (layer,), network = (
        layers_of_case(conv_scaling.STUDY, {"subject": subject, "batch": batch, "pass": "forward"})
        for subject in ("layer", "network")
    )
    assert network[2] == layer
    assert layer == factory.layer(batch)


def test_a_network_that_is_no_chain() -> None:
    block = Residual(
        [
            ("conv", nn.Conv2d(4, 8, 3, stride=2, padding="valid", groups=2, bias=False)),
            ("norm", nn.BatchNorm2d(8)),
        ],
        shortcut=nn.Sequential(nn.Conv2d(4, 8, (1, 1), stride=2), nn.AvgPool2d(2, stride=1)),
        last=nn.ReLU6(inplace=True),
    )
    layers = layers_of(nn.Sequential(block, nn.AdaptiveAvgPool2d(1)), torch.zeros(2, 4, 10, 10))
    conv, _, _, crop, add, relu, pool = layers
    assert [layer.name for layer in layers[:3]] == ["0.conv", "0.norm", "0.shortcut.0"]
    assert isinstance(add, Addition) and add.output_shape == crop.output_shape == (2, 8, 4, 4)
    assert isinstance(relu, Activation) and relu.function == "relu6"
    assert isinstance(pool, Pooling) and (pool.kernel, pool.mode) == ((4, 4), "average")
    assert sum(map(parameters, layers)) == sum(p.numel() for p in block.parameters())
    assert isinstance(conv, Convolution) and (conv.groups, conv.padding) == (2, (0, 0))


@pytest.mark.filterwarnings("ignore:Using padding='same'")
@pytest.mark.parametrize(
    ("module", "shape", "said"),
    [
        (nn.LSTM(4, 4), (2, 3, 4), r"LSTM is not a layer that ridgepoint describes"),
        (nn.AdaptiveAvgPool2d(3), (1, 1, 10, 10), r"from 10x10 to 3x3 has windows of different"),
        (nn.Conv2d(1, 1, 2, padding="same"), (1, 1, 4, 4), r"padding='same' with an even kernel"),
    ],
)
def test_what_cannot_be_described_is_refused(
    module: nn.Module, shape: tuple[int, ...], said: str
) -> None:
    with pytest.raises(MeasurementError, match=said):
        layers_of(module, torch.zeros(shape))
