"""Networks by name, built on request; this module does not import torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from torch import nn

_MNIST: Final = (1, 32, 32)
_CIFAR: Final = (3, 32, 32)
_IMAGENET: Final = (3, 224, 224)

#: Network → channels, height and width of one input image.
INPUT_SHAPES: Final[dict[str, tuple[int, int, int]]] = {
    "LeNet-5": _MNIST,
    "AlexNet": _IMAGENET,
    "VGG-16": _IMAGENET,
    "ResNet-20": _CIFAR,
    "ResNet-32": _CIFAR,
    "ResNet-44": _CIFAR,
    "ResNet-56": _CIFAR,
    "ResNet-110": _CIFAR,
    "ResNet-18": _IMAGENET,
    "ResNet-50": _IMAGENET,
    "MobileNetV2": _IMAGENET,
}

#: Network → the changes that ``build_network`` can make.
CHANGES: Final[dict[str, tuple[str, ...]]] = {
    "ResNet-20": ("in_place", "nested"),
    "ResNet-110": ("in_place", "nested"),
    "AlexNet": ("in_place",),
    "VGG-16": ("in_place",),
}


def build_network(name: str, change: str = "") -> nn.Sequential:
    """Build the network ``name`` with new weights, in training mode.

    A ``change`` makes the network allocate outputs differently, as in torchvision.  With
    ``in_place``, ReLU overwrites its input.  With ``nested``, the blocks of each stage form a
    chain, whose call keeps the stage's input alive until the stage ends.  Raises ``ValueError`` for
    an unknown name.
    """
    if name not in INPUT_SHAPES:
        raise ValueError(f"there is no network {name!r}; possible are {', '.join(INPUT_SHAPES)}")
    from torch import nn

    from experiments.networks import chains, residual

    builders = {
        "LeNet-5": chains.lenet5,
        "AlexNet": chains.alexnet,
        "VGG-16": chains.vgg16,
        "MobileNetV2": residual.mobilenet_v2,
    }
    if name in builders:
        module = builders[name]()
    else:
        build = residual.cifar_resnet if INPUT_SHAPES[name] == _CIFAR else residual.resnet
        module = build(int(name.removeprefix("ResNet-")))
    for layer in module.modules():
        if isinstance(layer, nn.ReLU | nn.ReLU6):
            layer.inplace = change == "in_place"
    return residual.nest_stages(module) if change == "nested" else module
