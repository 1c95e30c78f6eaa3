"""Capture at the level of operators, and the theory of them, against torch's own counter."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from experiments.harness.operators import Input, capture  # noqa: E402
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
