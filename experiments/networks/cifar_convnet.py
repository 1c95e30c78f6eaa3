"""The small network for CIFAR-10 that came with cuda-convnet (Krizhevsky 2012)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn


def cifar_convnet(*, in_place: bool = False) -> nn.Sequential:
    """``(N, 3, 32, 32)`` to scores ``(N, 10)``; 89,578 parameters.

    Shapes of Caffe's ``cifar10_full``, the published translation, without response normalisation.
    There the windows of pooling may reach over the far border; here a border of one before them
    gives the same extents, 16, 8 and 4.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(3, 32, 5, padding=2),
            pool1=nn.MaxPool2d(3, 2, padding=1),
            relu1=nn.ReLU(in_place),
            conv2=nn.Conv2d(32, 32, 5, padding=2),
            relu2=nn.ReLU(in_place),
            pool2=nn.AvgPool2d(3, 2, padding=1),
            conv3=nn.Conv2d(32, 64, 5, padding=2),
            relu3=nn.ReLU(in_place),
            pool3=nn.AvgPool2d(3, 2, padding=1),
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 4 * 4, 10),
        )
    )
