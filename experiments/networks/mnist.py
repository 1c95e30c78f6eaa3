"""The CNN of PyTorch's MNIST example (github.com/pytorch/examples, mnist/main.py)."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from torch import nn

#: Channels of the first and the second convolution, kernel of the second, and side of an image.
CHANNELS: Final = (32, 64)
KERNEL: Final = 3
SIZE: Final = 28

#: Channels, height and width of one input image.
INPUT_SHAPE: Final = (1, SIZE, SIZE)

_FIRST_KERNEL: Final = 3
_POOLED: Final = 2
_HIDDEN: Final = 128
_CLASSES: Final = 10


def second_convolution_input_shape(
    channels: tuple[int, int] = CHANNELS, size: int = SIZE
) -> tuple[int, int, int]:
    """Channels, height and width of what the second convolution reads of one image."""
    side = size - _FIRST_KERNEL + 1
    return channels[0], side, side


#: Channels, height and width at the second convolution of the example itself.
SECOND_CONVOLUTION_INPUT_SHAPE: Final = second_convolution_input_shape()


def mnist_cnn() -> nn.Sequential:
    """The whole network: ``(N, 1, 28, 28)`` to log-probabilities ``(N, 10)``.

    As in the example it has 1,199,882 parameters, and the first linear layer takes 9,216 features.
    The example writes the same operations as functions; here each is a module, so that each has a
    name and can be hooked.
    """
    _, side, _ = SECOND_CONVOLUTION_INPUT_SHAPE
    pooled = (side - KERNEL + 1) // _POOLED
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(1, CHANNELS[0], _FIRST_KERNEL, 1),
            relu1=nn.ReLU(),
            conv2=second_convolution(),
            relu2=nn.ReLU(),
            pool=nn.MaxPool2d(_POOLED),
            dropout1=nn.Dropout(0.25),
            flatten=nn.Flatten(),
            fc1=nn.Linear(CHANNELS[1] * pooled**2, _HIDDEN),
            relu3=nn.ReLU(),
            dropout2=nn.Dropout(0.5),
            fc2=nn.Linear(_HIDDEN, _CLASSES),
            log_softmax=nn.LogSoftmax(dim=1),
        )
    )


def second_convolution(channels: tuple[int, int] = CHANNELS, kernel: int = KERNEL) -> nn.Conv2d:
    """The layer with most of the work: ``(N, 32, 26, 26)`` to ``(N, 64, 24, 24)``."""
    return nn.Conv2d(*channels, kernel, 1)
