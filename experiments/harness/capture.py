"""The geometry of the layers that run in a network, by forward hooks; imports torch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from experiments.networks.blocks import Add, OptionAShortcut
from report.errors import MeasurementError
from report.records.layers import (
    Activation,
    Addition,
    BatchNorm,
    Convolution,
    Dropout,
    Flatten,
    Layer,
    Linear,
    PaddedShortcut,
    Pooling,
    Softmax,
)

Common: TypeAlias = dict[str, Any]
Convert: TypeAlias = Callable[[Any, Common], Layer]


def layers_of(module: nn.Module, *inputs: torch.Tensor, root: str = "layer") -> tuple[Layer, ...]:
    """Run ``module`` once, without gradients, and describe the layers in the order of running.

    Names are those of the modules in the network; ``root`` names a module that is a layer itself.
    A layer that runs twice appears twice.  Works on the meta device, where nothing is computed or
    allocated.  Additions count only as ``experiments.networks.blocks.Add``: an operator has no
    hook.  Raises ``MeasurementError`` for a module that is no known layer, since leaving it out
    would make the work too small.
    """
    found: list[Layer] = []

    def record(
        name: str, part: nn.Module, given: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        if not isinstance(part, nn.Identity):
            found.append(_described(name, part, given[0], output))

    hooks = [
        part.register_forward_hook(partial(record, name or root))
        for name, part in module.named_modules()
        if next(part.children(), None) is None
    ]
    try:
        with torch.no_grad():
            module(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return tuple(found)


def _described(name: str, module: nn.Module, source: torch.Tensor, output: torch.Tensor) -> Layer:
    for kind, convert in _CONVERTERS:
        if isinstance(module, kind):
            common = {
                "name": name,
                "input_shape": tuple(source.shape),
                "output_shape": tuple(output.shape),
                "dtype": str(output.dtype).removeprefix("torch."),
            }
            return convert(module, common)
    raise MeasurementError(
        f"Layer {name}: {type(module).__name__} is not a layer that ridgepoint describes; "
        "add it to report/records/layers.py and experiments/harness/capture.py."
    )


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    if isinstance(value, int):
        return (value, value)
    height, width = value
    return (height, width)


def _padding(module: nn.Conv2d | nn.ConvTranspose2d, name: str) -> tuple[int, int]:
    """Padding in elements a side, also where torch was given the word «valid» or «same»."""
    left, right, top, bottom = module._reversed_padding_repeated_twice
    if (left, top) != (right, bottom):
        raise MeasurementError(
            f"Layer {name}: padding='same' with an even kernel pads one side more than the other; "
            "give the padding in numbers."
        )
    return top, left


def _convolution(module: nn.Conv2d | nn.ConvTranspose2d, common: Common) -> Layer:
    return Convolution(
        **common,
        kernel=_pair(module.kernel_size),
        stride=_pair(module.stride),
        padding=_padding(module, common["name"]),
        dilation=_pair(module.dilation),
        groups=module.groups,
        bias=module.bias is not None,
        transposed=isinstance(module, nn.ConvTranspose2d),
    )


def _pooling(module: nn.MaxPool2d | nn.AvgPool2d, common: Common) -> Layer:
    return Pooling(
        **common,
        mode="max" if isinstance(module, nn.MaxPool2d) else "average",
        kernel=_pair(module.kernel_size),
        stride=_pair(module.stride),
        padding=_pair(module.padding),
    )


def _adaptive(module: nn.AdaptiveAvgPool2d | nn.AdaptiveMaxPool2d, common: Common) -> Layer:
    """Where the output divides the input the windows are all equal and do not overlap."""
    sizes = list(zip(common["input_shape"][-2:], common["output_shape"][-2:], strict=True))
    if any(source % target for source, target in sizes):
        raise MeasurementError(
            f"Layer {common['name']}: adaptive pooling from {sizes[0][0]}x{sizes[1][0]} to "
            f"{sizes[0][1]}x{sizes[1][1]} has windows of different sizes, which ridgepoint cannot "
            "describe; use an input size that is a multiple."
        )
    window = _pair(tuple(source // target for source, target in sizes))
    mode: Any = "max" if isinstance(module, nn.AdaptiveMaxPool2d) else "average"
    return Pooling(**common, mode=mode, kernel=window, stride=window, padding=(0, 0))


def _activation(module: nn.Module, common: Common) -> Layer:
    function = next(name for kind, name in _ACTIVATIONS.items() if isinstance(module, kind))
    return Activation(**common, function=function)


_ACTIVATIONS: Final[dict[type[nn.Module], Any]] = {
    nn.ReLU: "relu",
    nn.ReLU6: "relu6",
    nn.Sigmoid: "sigmoid",
    nn.Tanh: "tanh",
    nn.GELU: "gelu",
    nn.SiLU: "silu",
    nn.Hardswish: "hardswish",
}
_CONVERTERS: Final[tuple[tuple[type[nn.Module] | tuple[type[nn.Module], ...], Convert], ...]] = (
    ((nn.Conv2d, nn.ConvTranspose2d), _convolution),
    (nn.Linear, lambda m, common: Linear(**common, bias=m.bias is not None)),
    ((nn.MaxPool2d, nn.AvgPool2d), _pooling),
    ((nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool2d), _adaptive),
    ((nn.BatchNorm1d, nn.BatchNorm2d), lambda m, common: BatchNorm(**common, affine=m.affine)),
    (tuple(_ACTIVATIONS), _activation),
    (nn.Softmax, lambda m, common: Softmax(**common, log=False)),
    (nn.LogSoftmax, lambda m, common: Softmax(**common, log=True)),
    ((nn.Dropout, nn.Dropout2d), lambda m, common: Dropout(**common, probability=m.p)),
    (nn.Flatten, lambda m, common: Flatten(**common)),
    (Add, lambda m, common: Addition(**common)),
    (OptionAShortcut, lambda m, common: PaddedShortcut(**common, stride=_pair(m.stride))),
)
