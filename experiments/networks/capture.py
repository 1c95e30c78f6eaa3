"""Capture the layers that a network runs, with shapes and settings, by forward hooks."""

from typing import Any, Final

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from experiments.networks.residual import Add, OptionAShortcut
from report.core.errors import MeasurementError
from report.core.records import layers as layer_types
from report.core.records.layers import Layer

#: Supported activations; records contain the class name in lower case.
_ACTIVATIONS: Final = (
    nn.ReLU, nn.ReLU6, nn.Sigmoid, nn.Tanh, nn.GELU, nn.SiLU, nn.Hardswish,
)  # fmt: skip


class UndescribedError(MeasurementError):
    """Error for a layer of a type that records cannot describe."""


def capture_layers(
    module: nn.Module, *inputs: torch.Tensor, root: str = "layer"
) -> tuple[Layer, ...]:
    """Run ``module`` once, without gradients, and describe its layers in the order of execution.

    ``root`` is the name of ``module`` if it is a layer itself.  A layer that runs twice appears
    twice.  The module may be on the meta device, where nothing is computed or allocated.  Additions
    must be modules of class ``experiments.networks.residual.Add``, because operators have no hooks.
    Raises ``UndescribedError`` for a layer of unknown type, whose work would be missing, and
    ``MeasurementError`` for paddings and poolings that records cannot describe.
    """
    layers: list[Layer] = []
    names = {member: name or root for name, member in module.named_modules()}

    def record(
        member: nn.Module, arguments: tuple[torch.Tensor, ...], output: torch.Tensor
    ) -> None:
        is_layer = next(member.children(), None) is None and not isinstance(member, nn.Identity)
        if is_layer and member in names:
            layers.append(_describe(names[member], member, arguments[0], output))

    with register_module_forward_hook(record), torch.no_grad():
        module(*inputs)
    return tuple(layers)


def _describe(name: str, module: nn.Module, inputs: torch.Tensor, output: torch.Tensor) -> Layer:
    """Convert a module and its first input and output into a layer of a record."""
    layer_type: Any
    settings: dict[str, Any] = {}
    match module:
        case nn.Conv2d() | nn.ConvTranspose2d():
            layer_type, settings = layer_types.Convolution, _convolution(name, module)
        case nn.Linear():
            layer_type, settings = layer_types.Linear, {"bias": module.bias is not None}
        case nn.MaxPool2d() | nn.AvgPool2d() | nn.AdaptiveAvgPool2d() | nn.AdaptiveMaxPool2d():
            layer_type, settings = layer_types.Pooling, _pooling(name, module, inputs, output)
        case nn.BatchNorm1d() | nn.BatchNorm2d():
            layer_type, settings = layer_types.BatchNorm, {"affine": module.affine}
        case nn.Softmax() | nn.LogSoftmax():
            is_log = isinstance(module, nn.LogSoftmax)
            layer_type, settings = layer_types.Softmax, {"log": is_log}
        case nn.Dropout() | nn.Dropout2d():
            layer_type, settings = layer_types.Dropout, {"probability": module.p}
        case nn.Flatten():
            layer_type = layer_types.Flatten
        case Add():
            layer_type = layer_types.Addition
        case OptionAShortcut():
            layer_type = layer_types.PaddedShortcut
            settings = {"stride": _pair(module.stride)}
        case _ if type(module) in _ACTIVATIONS:
            layer_type = layer_types.Activation
            settings = {"function": type(module).__name__.lower()}
        case _:
            raise UndescribedError(
                f"Layer {name}: ridgepoint cannot describe {type(module).__name__}; "
                "add it to report/core/records/layers.py and experiments/networks/capture.py."
            )
    shapes = {"input_shape": tuple(inputs.shape), "output_shape": tuple(output.shape)}
    dtype = str(output.dtype).removeprefix("torch.")
    return layer_type(name=name, **shapes, dtype=dtype, **settings)  # type: ignore[no-any-return]


def _pair(value: int | tuple[int, ...]) -> tuple[int, int]:
    """Return a setting for both axes; torch allows one number if height and width are equal."""
    height, width = (value, value) if isinstance(value, int) else value
    return height, width


def _convolution(name: str, module: nn.Conv2d | nn.ConvTranspose2d) -> dict[str, Any]:
    """Describe a convolution; raise ``MeasurementError`` if opposite paddings differ."""
    # Numbers of elements per side; module.padding may also be "valid" or "same".
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


def _pooling(name: str, module: Any, inputs: torch.Tensor, output: torch.Tensor) -> dict[str, Any]:
    """Describe pooling; raise ``MeasurementError`` if adaptive pooling has unequal windows."""
    mode = "max" if isinstance(module, nn.MaxPool2d | nn.AdaptiveMaxPool2d) else "average"
    if isinstance(module, nn.MaxPool2d | nn.AvgPool2d):
        kernel, stride = _pair(module.kernel_size), _pair(module.stride)
        return {"mode": mode, "kernel": kernel, "stride": stride, "padding": _pair(module.padding)}
    height, width = inputs.shape[-2:]
    rows, columns = output.shape[-2:]
    if height % rows or width % columns:
        raise MeasurementError(
            f"Layer {name}: adaptive pooling from {height}x{width} to {rows}x{columns} has windows "
            "of different sizes, which ridgepoint cannot describe; use an input size that is a "
            "multiple of the output size."
        )
    window = (height // rows, width // columns)
    return {"mode": mode, "kernel": window, "stride": window, "padding": (0, 0)}
