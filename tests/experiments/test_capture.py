"""Networks as layers and as operators, against parameters, shapes and counts of torch itself."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from experiments import conv_scaling  # noqa: E402
from experiments.harness import memory  # noqa: E402
from experiments.harness.capture import layers_of  # noqa: E402
from experiments.harness.measure import layers_of_case  # noqa: E402
from experiments.harness.operators import Input, capture  # noqa: E402
from experiments.harness.timing import Workload  # noqa: E402
from experiments.networks.blocks import Residual  # noqa: E402
from experiments.networks.chains import mnist_cnn  # noqa: E402
from report.errors import MeasurementError  # noqa: E402
from report.records.layers import Activation, Addition, Convolution, Pooling  # noqa: E402
from report.theory.operators import load  # noqa: E402
from report.theory.work import macs, parameter_count  # noqa: E402
from tests import factory  # noqa: E402

# ----------------------------------------------------------------------------------------- layers


def test_the_mnist_cnn() -> None:
    network = mnist_cnn().eval()
    layers = layers_of(network, torch.zeros(2, 1, 28, 28))
    parameters = sum(p.numel() for p in network.parameters())
    assert sum(map(parameter_count, layers)) == parameters == 1_199_882
    assert sum(map(macs, layers)) == 2 * 11_992_448
    assert [layer.name for layer in layers] == [name for name, _ in network.named_children()]
    assert all(before.output_shape == after.input_shape for before, after in pairwise(layers))


@pytest.mark.parametrize("batch", [1, 10**9])
def test_a_case_has_its_layers_whatever_fits_in_memory(batch: int) -> None:
    (layer,), network = (
        layers_of_case(conv_scaling.STUDY, {"subject": subject, "batch": batch, "pass": "forward"})
        for subject in ("layer", "network")
    )
    assert network[2] == layer == factory.layer(batch)


def test_a_network_that_is_no_chain() -> None:
    block = Residual(
        [
            ("conv", nn.Conv2d(4, 8, 3, stride=2, padding="valid", groups=2, bias=False)),
            ("norm", nn.BatchNorm2d(8)),
        ],
        shortcut=nn.Sequential(nn.Conv2d(4, 8, (1, 1), stride=2), nn.AvgPool2d(2, stride=1)),
        last=("last", nn.ReLU6(inplace=True)),
    )
    layers = layers_of(nn.Sequential(block, nn.AdaptiveAvgPool2d(1)), torch.zeros(2, 4, 10, 10))
    conv, _, _, crop, add, relu, pool = layers
    assert [layer.name for layer in layers[:3]] == ["0.conv", "0.norm", "0.shortcut.0"]
    assert isinstance(add, Addition) and add.output_shape == crop.output_shape == (2, 8, 4, 4)
    assert isinstance(relu, Activation) and relu.function == "relu6"
    assert isinstance(pool, Pooling) and (pool.kernel, pool.mode) == ((4, 4), "average")
    assert sum(map(parameter_count, layers)) == sum(p.numel() for p in block.parameters())
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


# -------------------------------------------------------------------------------------- operators


class Functional(nn.Module):
    """A network that hides from hooks on modules."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 3, 3, 3))
        self.unread = nn.Parameter(torch.randn(5))
        self.first = nn.Linear(8, 8)
        self.second = nn.Linear(8, 8)
        self.second.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        x = functional.relu(functional.conv2d(x, self.weight, padding=1))
        y = x.mean((2, 3))
        return self.second(self.first(y)) + y


def test_what_no_module_tells_is_captured() -> None:
    network = capture(Functional, [Input((2, 3, 16, 16))]).network
    assert network.parameter_count == 8 * 27 + 5 + 64 + 2 * 8, "tied weights count once"
    assert network.unused == ("unread",)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        Functional()(torch.randn(2, 3, 16, 16))
    flops = [found.flops for found in map(load, network.operators) if found is not None]
    assert len(flops) == len(network.operators)
    assert sum(flops) == counter.get_total_flops() == 2 * (2 * 16 * 16 * 8 * 27 + 2 * 2 * 64)
    assert {operator.module for operator in network.operators} >= {"", "first", "second"}


class Branching(nn.Module):
    """Three branches read one tensor, whose gradient is the sum of theirs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 64, bias=False)

    def forward(self, source: Any) -> Any:
        made = self.first(source)
        return made.sigmoid() + made.tanh() + made.relu()


def test_gradients_of_one_tensor_are_added_in_place_as_a_real_backward_pass_does() -> None:
    found = capture(Branching, [Input((512, 64))], train=True).network
    sums = [o for o in found.operators if o.phase == "backward" and o.name == "add.Tensor"]
    assert len(sums) == 2
    for operator in sums:
        (result,) = operator.writes
        assert operator.made == ()
        assert result.storage in {t.storage for read in operator.reads.values() for t in read}
    gone: set[int] = set()
    for operator in found.operators:
        assert not gone & set(operator.freed)
        gone |= set(operator.freed)
        assert not gone & {t.storage for read in operator.reads.values() for t in read}

    def workload() -> Workload:
        module, source = Branching(), torch.randn(512, 64)
        labels = torch.zeros(512, dtype=torch.int64)

        def call() -> None:
            functional.cross_entropy(module(source), labels).backward()
            module.zero_grad()

        return Workload(call, module.zero_grad)

    # The bytes of all tensors as large as the batch, forward and backward.
    size, events = 512 * 64 * 4, memory.measure_cpu(workload, 1)["memory_events"]
    made = [found.storages[storage] for operator in found.operators for storage in operator.made]
    assert events.count(size) == made.count(size)
