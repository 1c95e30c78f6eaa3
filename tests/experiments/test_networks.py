"""Networks as layers and operators, against published figures, torch's own count and other ways."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from experiments.harness.capture import layers_of  # noqa: E402
from experiments.harness.operators import Input, capture  # noqa: E402
from experiments.networks.catalogue import INPUT_SHAPES, network  # noqa: E402
from experiments.networks.chains import mnist_cnn  # noqa: E402
from experiments.networks.residual import basic, cifar_resnet, option_a  # noqa: E402
from experiments.networks.tiled import Form, Tiled, tiled  # noqa: E402
from report.errors import MeasurementError  # noqa: E402
from report.records.layers import Activation, Convolution, Layer, Linear  # noqa: E402
from report.theory.operators import load  # noqa: E402
from report.theory.shapes import check, parameter_count  # noqa: E402
from report.theory.work import forward_macs  # noqa: E402

SHAPES = {"MNIST": (1, 28, 28), **INPUT_SHAPES}
#: Parameters, multiply-adds and digits behind the point of millions, as printed by their authors or
#: by torchvision's documentation.
PUBLISHED: dict[str, tuple[int, float, int]] = {
    "MNIST": (1_199_882, 11.992448, 6),
    "LeNet-5": (61_706, 0.416520, 6),
    "AlexNet": (61_100_840, 714.188480, 6),
    "VGG-16": (138_357_544, 15_470, 0),
    "ResNet-20": (269_722, 40.55, 2),
    "ResNet-32": (464_154, 68.86, 2),
    "ResNet-44": (658_586, 97.17, 2),
    "ResNet-56": (853_018, 125.49, 2),
    "ResNet-110": (1_727_962, 252.89, 2),
    "ResNet-18": (11_689_512, 1_814.073344, 6),
    "ResNet-50": (25_557_032, 4_089.184256, 6),
    "MobileNetV2": (3_504_872, 300.774272, 6),
}


def build(name: str) -> nn.Module:
    return mnist_cnn() if name == "MNIST" else network(name)


def layers(name: str, batch: int = 1) -> tuple[Layer, ...]:
    with torch.device("meta"):
        return layers_of(build(name).eval(), torch.empty(batch, *SHAPES[name]))


@pytest.mark.parametrize("name", SHAPES)
def test_layers_are_those_of_the_module_and_of_its_authors(name: str) -> None:
    with torch.device("meta"):
        parameters = sum(p.numel() for p in build(name).parameters())
    found = layers(name, batch=2)
    assert sum(map(parameter_count, found)) == parameters
    assert len({layer.name for layer in found}) == len(found)
    for layer in found:
        check(layer)
        assert layer.input_shape[0] == layer.output_shape[0] == 2
    functions = {layer.function for layer in found if isinstance(layer, Activation)}
    assert functions == {"MobileNetV2": {"relu6"}, "LeNet-5": {"tanh"}}.get(name, {"relu"})
    published, millions, digits = PUBLISHED[name]
    assert (parameters, round(forward_macs(found) / 2e6, digits)) == (published, millions)
    if SHAPES[name] == (3, 32, 32):
        depth = sum(isinstance(layer, Convolution | Linear) for layer in found)
        assert name == f"ResNet-{depth}"
    if "ResNet" not in name and name != "MobileNetV2":
        assert all(before.output_shape == after.input_shape for before, after in pairwise(found))


def test_a_block_computes_what_the_paper_defines() -> None:
    block = basic(4, 8, 2, shortcut=option_a).eval()
    source = torch.randn(2, 4, 6, 6, generator=torch.Generator().manual_seed(3))
    main = functional.relu(block.bn1(functional.conv2d(source, block.conv1.weight, None, 2, 1)))
    main = block.bn2(functional.conv2d(main, block.conv2.weight, None, 1, 1))
    around = torch.zeros(2, 8, 3, 3)
    around[:, 2:6] = source[:, :, ::2, ::2]
    with torch.no_grad():
        assert torch.allclose(block(source), functional.relu(main + around), atol=1e-6)


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


class Functional(nn.Module):
    """A network that hides from hooks on modules."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 3, 3, 3))
        self.unread = nn.Parameter(torch.randn(5))
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        y = functional.relu(functional.conv2d(x, self.weight, padding=1)).mean((2, 3))
        return self.second(self.first(y)) + y


def test_what_no_module_tells_is_captured() -> None:
    found = capture(Functional, [Input((2, 3, 16, 16))]).network
    assert found.parameter_count == 8 * 27 + 5 + 64 + 2 * 8, "tied weights count once"
    assert found.unused == ("unread",)
    loads = [known.flops for known in map(load, found.operators) if known is not None]
    assert len(loads) == len(found.operators)
    assert sum(loads) == 2 * (2 * 16 * 16 * 8 * 27 + 2 * 2 * 64)
    assert {operator.module for operator in found.operators} >= {"", "first", "second"}


# ------------------------------------------------ tiling changes when things are computed, not what


def whole_numbers(module: nn.Module) -> nn.Module:
    """Small whole numbers for weights, so that float64 sums are exact in whatever order."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-2, 3, parameter.shape, generator=generator))
    return module.double().eval()


def block(channels: int, stride: int) -> nn.Module:
    made = basic(4, channels, stride, shortcut=option_a, last="relu2")
    whole_numbers(made)
    for norm in (made.trunk[1], made.trunk[4]):
        norm.running_var.fill_(1.0 - norm.eps)  # so that normalising divides by exactly 1
    return made


def convolution(kernel: int, stride: int, padding: int) -> nn.Module:
    return whole_numbers(nn.Conv2d(4, 3, kernel, stride, min(padding, kernel - 1)))


CONVOLUTIONS = st.builds(
    partial, st.just(convolution), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2)
)
BLOCKS = st.sampled_from([partial(block, 4, 1), partial(block, 8, 2)])


@given(
    make=CONVOLUTIONS | BLOCKS,
    extents=st.tuples(st.integers(5, 40), st.integers(5, 25)),
    tile=st.integers(1, 45),
)
@settings(max_examples=80, deadline=None)
def test_what_is_tiled_is_exactly_what_is_not(
    make: Callable[[], nn.Module], extents: tuple[int, int], tile: int
) -> None:
    """Also where tiles do not divide the map and where padding exceeds a tile's halo."""
    module, generator = make(), torch.Generator().manual_seed(1)
    source = torch.randint(-3, 4, (2, 4, *extents), generator=generator).double()
    with torch.no_grad():
        assert torch.equal(Tiled([module], tile)(source), module(source))


@pytest.mark.parametrize("form", ["tiled_layers", "tiled_blocks", "tiled_stages"])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_maps_are_the_same_and_only_whole_layers_compute_nothing_twice(
    form: Form, layout: torch.memory_format
) -> None:
    """Scores average over the map, so that a wrong border could hide in them."""
    torch.manual_seed(0)
    network = cifar_resnet(8).eval().to(memory_format=layout)
    source = torch.randn(1, 3, 40, 24).contiguous(memory_format=layout)
    found, work = [], []
    for each in (network, tiled(network, form, 8)):
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            found.append(each[:-3](source))
        work.append(counter.get_total_flops())
    wanted, maps = found
    assert torch.allclose(maps, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
    assert maps.is_contiguous(memory_format=layout)
    assert (work[1] > work[0]) == (form != "tiled_layers") and work[1] >= work[0]
