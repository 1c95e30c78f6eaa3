"""Networks that are one flat chain of layers, so that no enclosing module holds a tensor.

- the CNN of PyTorch's MNIST example (github.com/pytorch/examples, mnist/main.py);
- LeNet-5 (LeCun, Bottou, Bengio and Haffner, Proceedings of the IEEE 1998);
- AlexNet with torchvision's shapes, in one column (Krizhevsky, arXiv:1404.5997) and without local
  response normalization;
- VGG-16 (Simonyan and Zisserman, ICLR 2015, arXiv:1409.1556, table 1, column D).
"""

from collections import OrderedDict
from typing import Final

from torch import nn

from experiments.networks.residual import CLASSES

#: Outputs of the hidden linear layers of AlexNet and VGG-16.
_HIDDEN: Final = 4096
#: Stages of VGG-16, as (number of convolutions, output channels of each).
_VGG_STAGES: Final = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))


def mnist_cnn() -> nn.Sequential:
    """Build the MNIST CNN: ``(N, 1, 28, 28)`` to log-probabilities ``(N, 10)``.

    It has 1,199,882 parameters.  The second convolution, on ``(N, 32, 26, 26)``, does most of the
    work.  Unlike in PyTorch's example, every operation is a module, so that hooks see it.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(1, 32, 3, 1),
            relu1=nn.ReLU(),
            conv2=nn.Conv2d(32, 64, 3, 1),
            relu2=nn.ReLU(),
            pool=nn.MaxPool2d(2),
            dropout1=nn.Dropout(0.25),
            flatten=nn.Flatten(),
            fc1=nn.Linear(64 * 12 * 12, 128),
            relu3=nn.ReLU(),
            dropout2=nn.Dropout(0.5),
            fc2=nn.Linear(128, 10),
            log_softmax=nn.LogSoftmax(dim=1),
        )
    )


def lenet5() -> nn.Sequential:
    """Build LeNet-5: ``(N, 1, 32, 32)`` to scores ``(N, 10)``; 61,706 parameters.

    As is common today and unlike in the original, the second convolution reads all channels,
    pooling is a plain average, and the last layer is linear.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(1, 6, 5),
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


def alexnet() -> nn.Sequential:
    """Build AlexNet: ``(N, 3, 224, 224)`` to scores ``(N, 1000)``; 61,100,840 parameters.

    It includes torchvision's average pooling to 6 × 6, which does nothing at this size.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(3, 64, 11, stride=4, padding=2),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(3, 2),
            conv2=nn.Conv2d(64, 192, 5, padding=2),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(3, 2),
            conv3=nn.Conv2d(192, 384, 3, padding=1),
            relu3=nn.ReLU(),
            conv4=nn.Conv2d(384, 256, 3, padding=1),
            relu4=nn.ReLU(),
            conv5=nn.Conv2d(256, 256, 3, padding=1),
            relu5=nn.ReLU(),
            pool3=nn.MaxPool2d(3, 2),
            average=nn.AdaptiveAvgPool2d(6),
            **_classifier(256 * 6 * 6),
        )
    )


def vgg16() -> nn.Sequential:
    """Build VGG-16: ``(N, 3, 224, 224)`` to scores ``(N, 1000)``; 138,357,544 parameters.

    The 3 × 3 convolutions of a stage keep height and width; the pooling after them halves both.
    """
    layers = OrderedDict[str, nn.Module]()
    in_channels = 3
    for stage, (count, channels) in enumerate(_VGG_STAGES, start=1):
        for number in range(1, count + 1):
            layers[f"conv{stage}_{number}"] = nn.Conv2d(in_channels, channels, 3, padding=1)
            layers[f"relu{stage}_{number}"] = nn.ReLU()
            in_channels = channels
        layers[f"pool{stage}"] = nn.MaxPool2d(2)
    layers.update(_classifier(512 * 7 * 7))
    return nn.Sequential(layers)


def _classifier(features: int) -> dict[str, nn.Module]:
    """Return the layers after the convolutions, whose output has ``features`` numbers per image."""
    return {
        "flatten": nn.Flatten(),
        "dropout1": nn.Dropout(0.5),
        "fc1": nn.Linear(features, _HIDDEN),
        "relu_fc1": nn.ReLU(),
        "dropout2": nn.Dropout(0.5),
        "fc2": nn.Linear(_HIDDEN, _HIDDEN),
        "relu_fc2": nn.ReLU(),
        "fc3": nn.Linear(_HIDDEN, CLASSES),
    }
