"""Capture, by forward hooks, of the layers that a network runs, with shapes and settings."""

from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from experiments.networks.residual import Add, OptionAShortcut
from report.core.errors import MeasurementError
from report.core.records import layers as kinds
from report.core.records.layers import Layer

#: Supported activations; a record names an activation by its class in lower case.
_ACTIVATIONS: Final = (
    nn.ReLU, nn.ReLU6, nn.Sigmoid, nn.Tanh, nn.GELU, nn.SiLU, nn.Hardswish,
)  # fmt: skip


class UndescribedError(MeasurementError):
    """Error for a layer that records cannot describe; the record lists operators instead."""


def capture_layers(
    module: nn.Module, *inputs: torch.Tensor, root: str = "layer"
) -> tuple[Layer, ...]:
    """Run ``module`` once, without gradients, and describe its layers in the order of execution.

    ``root`` is the name of ``module`` if it is a layer itself.  A layer that runs twice appears
    twice.  The module may be on the meta device, where nothing is computed or allocated.  Additions
    must be modules of class ``experiments.networks.residual.Add``, since an operator has no hook.
    Raises ``MeasurementError`` for an unknown layer, whose work would be missing.
    """
    layers: list[Layer] = []
    names = {part: name or root for name, part in module.named_modules()}

    def record(part: nn.Module, arguments: tuple[torch.Tensor, ...], output: torch.Tensor) -> None:
        is_layer = next(part.children(), None) is None and not isinstance(part, nn.Identity)
        if is_layer and part in names:
            layers.append(_describe(names[part], part, arguments[0], output))

    with register_module_forward_hook(record), torch.no_grad():
        module(*inputs)
    return tuple(layers)


def _describe(name: str, module: nn.Module, source: torch.Tensor, output: torch.Tensor) -> Layer:
    kind: Any
    facts: dict[str, Any] = {}
    match module:
        case nn.Conv2d() | nn.ConvTranspose2d():
            kind, facts = kinds.Convolution, _convolution(name, module)
        case nn.Linear():
            kind, facts = kinds.Linear, {"bias": module.bias is not None}
        case nn.MaxPool2d() | nn.AvgPool2d() | nn.AdaptiveAvgPool2d() | nn.AdaptiveMaxPool2d():
            kind, facts = kinds.Pooling, _pooling(name, module, source, output)
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            kind, facts = kinds.BatchNorm, {"affine": module.affine}
        case nn.Softmax() | nn.LogSoftmax():
            kind, facts = kinds.Softmax, {"log": isinstance(module, nn.LogSoftmax)}
        case nn.Dropout() | nn.Dropout2d():
            kind, facts = kinds.Dropout, {"probability": module.p}
        case nn.Flatten():
            kind = kinds.Flatten
        case Add():
            kind = kinds.Addition
        case OptionAShortcut():
            kind, facts = kinds.PaddedShortcut, {"stride": _pair(module.stride)}
        case _ if type(module) in _ACTIVATIONS:
            kind, facts = kinds.Activation, {"function": type(module).__name__.lower()}
        case _:
            raise UndescribedError(
                f"Layer {name}: ridgepoint cannot describe {type(module).__name__}; "
                "add it to report/core/records/layers.py and experiments/networks/capture.py."
            )
    shapes = {"input_shape": tuple(source.shape), "output_shape": tuple(output.shape)}
    dtype = str(output.dtype).removeprefix("torch.")
    return kind(name=name, **shapes, dtype=dtype, **facts)  # type: ignore[no-any-return]


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    height, width = (value, value) if isinstance(value, int) else value
    return height, width


def _convolution(name: str, module: nn.Conv2d | nn.ConvTranspose2d) -> dict[str, Any]:
    # Padding in elements per side; torch also converts the words «valid» and «same» to numbers.
    left, right, top, bottom = module._reversed_padding_repeated_twice
    if (left, top) != (right, bottom):
        raise MeasurementError(
            f"Layer {name}: padding='same' with an even kernel pads one side more than the other; "
            "give the padding in numbers."
        )
    return {
        "kernel": _pair(module.kernel_size),
        "stride": _pair(module.stride),
        "padding": (top, left),
        "dilation": _pair(module.dilation),
        "groups": module.groups,
        "bias": module.bias is not None,
        "transposed": isinstance(module, nn.ConvTranspose2d),
    }


def _pooling(name: str, module: Any, source: torch.Tensor, output: torch.Tensor) -> dict[str, Any]:
    """Describe pooling; the input size of adaptive pooling must be a multiple of the output's."""
    mode = "max" if isinstance(module, nn.MaxPool2d | nn.AdaptiveMaxPool2d) else "average"
    if isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
        kernel, stride = _pair(module.kernel_size), _pair(module.stride)
        return {"mode": mode, "kernel": kernel, "stride": stride, "padding": _pair(module.padding)}
    height, width = source.shape[-2:]
    rows, columns = output.shape[-2:]
    if height % rows or width % columns:
        raise MeasurementError(
            f"Layer {name}: adaptive pooling from {height}x{width} to {rows}x{columns} has windows "
            "of different sizes, which ridgepoint cannot describe; use an input size that is a "
            "multiple."
        )
    window = (height // rows, width // columns)
    return {"mode": mode, "kernel": window, "stride": window, "padding": (0, 0)}
