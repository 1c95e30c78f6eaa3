"""The CNN of PyTorch's MNIST example (github.com/pytorch/examples, mnist/main.py)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

#: Channels, height and width of one input image.
INPUT_SHAPE = (1, 28, 28)

#: Channels, height and width at the second convolution.
SECOND_CONVOLUTION_INPUT_SHAPE = (32, 26, 26)
SECOND_CONVOLUTION_OUTPUT_SHAPE = (64, 24, 24)


def mnist_cnn() -> nn.Sequential:
    """The whole network: ``(N, 1, 28, 28)`` to log-probabilities ``(N, 10)``; 1,199,882 parameters.

    The example writes the same operations as functions; here each is a module, so that each has a
    name and can be hooked.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(1, 32, 3, 1),
            relu1=nn.ReLU(),
            conv2=second_convolution(),
            relu2=nn.ReLU(),
            pool=nn.MaxPool2d(2),
            dropout1=nn.Dropout(0.25),
            flatten=nn.Flatten(),
            fc1=nn.Linear(9216, 128),
            relu3=nn.ReLU(),
            dropout2=nn.Dropout(0.5),
            fc2=nn.Linear(128, 10),
            log_softmax=nn.LogSoftmax(dim=1),
        )
    )


def second_convolution() -> nn.Conv2d:
    """The layer with most of the work: ``(N, 32, 26, 26)`` to ``(N, 64, 24, 24)``."""
    return nn.Conv2d(32, 64, 3, 1)
