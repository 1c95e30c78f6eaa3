"""What operators give on tensors without elements, against the same operators with elements."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils._pytree import tree_map_only  # noqa: E402

from experiments.harness.fake_tensors import (  # noqa: E402
    RULES,
    DispatchMode,
    FakeMode,
    FakeResults,
)


class Compared(DispatchMode):
    """Compares each operator that runs with its rule."""

    def __init__(self) -> None:
        super().__init__()
        self.mode, self.tried = FakeMode(), set[Any]()
        self.results = FakeResults(self.mode)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        fake = tree_map_only(torch.Tensor, self.results.fake, (args, kwargs or {}))
        with self.mode:
            found = self.results.by_rule(func, *fake)
        result = func(*args, **(kwargs or {}))
        if found is not None:
            self.tried.add(func)
            made = result if isinstance(result, tuple) else (result,)
            assert list(map(form, found)) == list(map(form, made)), func
        return result


def form(of: Any) -> object:
    """Shape, type, and the strides of the extents that have one."""
    if of is None:
        return None
    strides = of.stride() if isinstance(of, torch.Tensor) else of.strides
    steps = [s for s, n in zip(strides, of.shape, strict=True) if n != 1]
    return tuple(of.shape), steps, of.dtype


def network() -> nn.Module:
    """Every operator that has a rule, forward or backward, with strides, paddings and groups."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, padding=2, dilation=2), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, padding=1, groups=4, bias=False), nn.ReLU6(), nn.MaxPool2d(3, 2, 1),
        nn.Conv2d(8, 16, 1), nn.Sigmoid(), nn.MaxPool2d(2), nn.Tanh(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 5),
    )  # fmt: skip


def test_rules_give_what_operators_do() -> None:
    compared = Compared()
    for layout in (torch.contiguous_format, torch.channels_last):
        module = network().to(memory_format=layout)
        source = torch.randn(2, 3, 29, 30).to(memory_format=layout)
        optimizer = torch.optim.Adam(module.parameters())
        with compared:
            loss = nn.functional.cross_entropy(module(source), torch.tensor([0, 1]))
            loss.backward()
            optimizer.step()
            module.eval()(source)
    with compared:
        hidden = torch.zeros(3, 4) @ torch.ones(4, 3)
        _ = (hidden * hidden + hidden).mean() + hidden.sum()
        _ = torch.empty(2, 3, dtype=torch.float64), torch.empty_like(hidden), torch.ones(2)
    assert compared.tried == set(RULES)


ASK = """
import sys
from experiments.__main__ import main
words = "theory study:ResNet-50 --image 64 --train --optimizer adamw --fits 1GB"
assert main(words.split()) == 0
print([name for name in ("torch._dynamo", "sympy", "pandas") if name in sys.modules])
"""


def test_a_network_of_convolutions_needs_no_compiler() -> None:
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
