"""Functions of tensors as networks, for tests of captures."""

from collections.abc import Callable
from typing import Any

from torch import nn


class Function(nn.Module):
    """A function of tensors as a module without parameters."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class First(nn.Module):
    """First result of a layer such as attention, whose input is passed ``inputs`` times."""

    def __init__(self, layer: nn.Module, inputs: int = 1) -> None:
        super().__init__()
        self.layer, self.inputs = layer, inputs

    def forward(self, source: Any) -> Any:
        return self.layer(*[source] * self.inputs)[0]
