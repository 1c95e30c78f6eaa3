"""Modules that wrap functions and layers, for tests of captures."""

from collections.abc import Callable
from typing import Any

from torch import nn


class Function(nn.Module):
    """Module without parameters that calls a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Any) -> Any:
        return self.function(*inputs)


class First(nn.Module):
    """Module that returns the first result of a layer.

    The layer is called with ``inputs`` arguments, all of which are the module's input.
    """

    def __init__(self, layer: nn.Module, inputs: int = 1) -> None:
        super().__init__()
        self.layer, self.inputs = layer, inputs

    def forward(self, source: Any) -> Any:
        return self.layer(*[source] * self.inputs)[0]
