"""AlexNet with torchvision's shapes: one column (Krizhevsky, arXiv:1404.5997), no normalisation."""

from __future__ import annotations

from collections import OrderedDict

from torch import nn

from experiments.networks.imagenet import classifier


def alexnet(*, in_place: bool = False) -> nn.Sequential:
    """``(N, 3, 224, 224)`` to scores ``(N, 1000)``; 61,100,840 parameters.

    The layers stand in one chain, so that no module around them holds a tensor that is not needed
    any more; torchvision's average pooling to 6 × 6, which does nothing at this size, is kept.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(3, 64, 11, stride=4, padding=2),
            relu1=nn.ReLU(in_place),
            pool1=nn.MaxPool2d(3, 2),
            conv2=nn.Conv2d(64, 192, 5, padding=2),
            relu2=nn.ReLU(in_place),
            pool2=nn.MaxPool2d(3, 2),
            conv3=nn.Conv2d(192, 384, 3, padding=1),
            relu3=nn.ReLU(in_place),
            conv4=nn.Conv2d(384, 256, 3, padding=1),
            relu4=nn.ReLU(in_place),
            conv5=nn.Conv2d(256, 256, 3, padding=1),
            relu5=nn.ReLU(in_place),
            pool3=nn.MaxPool2d(3, 2),
            average=nn.AdaptiveAvgPool2d(6),
            **classifier(256 * 6 * 6, in_place),
        )
    )
