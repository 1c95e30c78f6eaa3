"""LeNet-5 (LeCun, Bottou, Bengio and Haffner, Proceedings of the IEEE 1998)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def lenet5(channels: int = 1) -> nn.Sequential:
    """``(N, channels, 32, 32)`` to scores ``(N, 10)``; 61,706 parameters with one channel.

    As frameworks teach it: the second convolution is connected to all maps, pooling is a plain
    average, and the last layer is linear.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(channels, 6, 5),
            tanh1=nn.Tanh(),
            pool1=nn.AvgPool2d(2),
            conv2=nn.Conv2d(6, 16, 5),
            tanh2=nn.Tanh(),
            pool2=nn.AvgPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(16 * 5 * 5, 120),
            tanh3=nn.Tanh(),
            fc2=nn.Linear(120, 84),
            tanh4=nn.Tanh(),
            fc3=nn.Linear(84, 10),
        )
    )
