"""ZFNet (Zeiler and Fergus, ECCV 2014, arXiv:1311.2901, figure 3)."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from experiments.networks.imagenet import classifier


def zfnet(*, in_place: bool = False) -> nn.Sequential:
    """``(N, 3, 224, 224)`` to scores ``(N, 1000)``; 62,357,608 parameters.

    Padding is chosen so that the maps have the extents of the figure: 110, 55, 26, 13, 6.  Contrast
    normalisation is left out, as torchvision leaves it out of AlexNet.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(3, 96, 7, stride=2, padding=1),
            relu1=nn.ReLU(in_place),
            pool1=nn.MaxPool2d(3, 2, padding=1),
            conv2=nn.Conv2d(96, 256, 5, stride=2),
            relu2=nn.ReLU(in_place),
            pool2=nn.MaxPool2d(3, 2, padding=1),
            conv3=nn.Conv2d(256, 384, 3, padding=1),
            relu3=nn.ReLU(in_place),
            conv4=nn.Conv2d(384, 384, 3, padding=1),
            relu4=nn.ReLU(in_place),
            conv5=nn.Conv2d(384, 256, 3, padding=1),
            relu5=nn.ReLU(in_place),
            pool3=nn.MaxPool2d(3, 2),
            **classifier(256 * 6 * 6, in_place),
        )
    )
