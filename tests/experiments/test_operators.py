"""Capture at the level of operators, and the theory of them, against torch's own counter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from experiments.harness.operators import Input, capture  # noqa: E402
from report.errors import MeasurementError  # noqa: E402
from report.records.operations import Network  # noqa: E402
from report.theory.operators import load  # noqa: E402


def counted(network: Network) -> int:
    """FLOPs of all operators; all of them must be known."""
    loads = [load(operator) for operator in network.operators]
    unknown = {o.name for o, found in zip(network.operators, loads, strict=True) if found is None}
    assert not unknown
    return sum(found.flops for found in loads if found is not None)


def by_torch(module: nn.Module, *inputs: Any, train: bool = False) -> int:
    """What torch's own counter says of a real call."""
    counter = FlopCounterMode(display=False)
    with counter:
        if train:
            module.train()(*inputs).sum().backward()
        else:
            with torch.no_grad():
                module.eval()(*inputs)
    return int(counter.get_total_flops())


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
    assert counted(network) == 2 * (2 * 16 * 16 * 8 * 27 + 2 * 2 * 64)
    assert counted(network) == by_torch(Functional(), torch.randn(2, 3, 16, 16))
    modules = {operator.module for operator in network.operators}
    assert {"", "first", "second"} <= modules


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda: nn.Conv1d(4, 6, 3), (2, 4, 20)),
        (lambda: nn.Conv3d(2, 4, 3, groups=2), (1, 2, 6, 7, 8)),
        (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, groups=2), (2, 4, 9, 9)),
        (lambda: nn.Conv2d(4, 8, 3, dilation=2, padding="same", padding_mode="circular"),
         (2, 4, 9, 9)),
        (lambda: nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.LayerNorm(12)), (2, 5, 6)),
        (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(),
                               nn.AvgPool2d(3, ceil_mode=True)), (2, 3, 12, 12)),
    ],
)  # fmt: skip
def test_multiply_adds_are_those_of_torch(build: Callable[[], nn.Module], shape: Any) -> None:
    captured = capture(build, [Input(shape)])
    assert counted(captured.network) == by_torch(build(), torch.randn(shape))
    assert counted(captured.network) == sum(captured.flops.values())


def test_a_network_that_needs_values_is_refused_with_the_operator() -> None:
    class Choosing(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0]

    with pytest.raises(MeasurementError, match="cannot be captured") as caught:
        capture(Choosing, [Input((2, 3))])
    assert "\n" not in str(caught.value)


def test_attention_counts_projections_scores_and_values() -> None:
    batch, length, width = 2, 7, 12

    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(width, 3, batch_first=True)

        def forward(self, x: Any) -> Any:
            return self.attention(x, x, x, need_weights=False)[0]

    macs = batch * length * 4 * width * width + 2 * batch * length * length * width
    for train in (False, True):
        network = capture(Attending, [Input((batch, length, width))], train=train).network
        forward = [o for o in network.operators if o.phase == "forward"]
        assert sum(found.multiply_adds for o in forward if (found := load(o))) == macs


def test_recurrent_layers_count_every_step() -> None:
    def build() -> nn.Module:
        class Last(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.recurrent = nn.LSTM(5, 6, batch_first=True)

            def forward(self, x: Any) -> Any:
                return self.recurrent(x)[0][:, -1]

        return Last()

    for train in (False, True):
        network = capture(build, [Input((2, 4, 5))], train=train).network
        forward = [o for o in network.operators if o.phase == "forward"]
        macs = sum(found.multiply_adds for o in forward if (found := load(o)))
        assert macs == 2 * 4 * 4 * 6 * (5 + 6)
