"""Networks of residual blocks in one flat chain, so that no module holds a stage's input.

- ResNet-18 and ResNet-50 for images of 224 × 224 pixels (He, Zhang, Ren and Sun, CVPR 2016,
  table 1), and the ResNets of the same paper for CIFAR-10 (section 4.2);
- MobileNetV2 (Sandler, Howard, Zhu, Zhmoginov and Chen, CVPR 2018, table 2).

Weights are PyTorch's random defaults, because memory and times do not depend on weights' values.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

import torch
from torch import nn
from torch.nn import functional

#: Classes of ImageNet.
CLASSES: Final = 1000
#: Output channels of a bottleneck block, divided by the channels of its 3 × 3 convolution.
EXPANSION: Final = 4
#: Stages of MobileNetV2 (table 2 of the paper): expansion of the channels inside a block, output
#: channels, number of blocks, stride of the first block.
_MOBILENET_STAGES: Final = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)

#: Names and modules, in the order of their calls.
NamedModules: TypeAlias = Iterator[tuple[str, nn.Module]]


def resnet(depth: int) -> nn.Sequential:
    """Build a ResNet: ``(N, 3, H, W)``, H = W = 224 in the paper, to scores ``(N, 1000)``.

    ``depth`` is 18 (basic blocks, 11,689,512 parameters) or 50 (bottleneck blocks, 25,557,032
    parameters).  The shortcut into a new stage is a projection (option B of the paper).
    """
    stages = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]  # blocks of each stage
    block, expansion = (_bottleneck_block, EXPANSION) if depth == 50 else (basic_block, 1)
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            **dict(_convolution("{}", 3, 64, 7, 2)),
            relu=nn.ReLU(),
            pool=nn.MaxPool2d(3, 2, padding=1),
            **dict(_blocks(stages, (64, 128, 256, 512), block, expansion)),
            average=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(512 * expansion, CLASSES),
        )
    )


def cifar_resnet(depth: int) -> nn.Sequential:
    """Build a ResNet for CIFAR-10: ``(N, 3, H, W)``, H = W = 32 in the paper, to ``(N, 10)``.

    The three stages have n blocks with 16, 32 and 64 channels.  The first block of the second and
    third stage halves height and width and has an ``OptionAShortcut``.  Raises ``ValueError`` for a
    depth that is not 6n + 2.
    """
    if depth < 8 or depth % 6 != 2:
        raise ValueError(f"a residual network for CIFAR-10 has 6n + 2 layers, not {depth}")
    block = partial(basic_block, shortcut=option_a_shortcut, last="relu2")
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            **dict(_convolution("{}", 3, 16, 3)),
            relu=nn.ReLU(),
            **dict(_blocks([(depth - 2) // 6] * 3, (16, 32, 64), block)),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(64, 10),
        )
    )


def mobilenet_v2() -> nn.Sequential:
    """Build MobileNetV2: ``(N, 3, H, W)``, H = W = 224 in the paper, to scores ``(N, 1000)``.

    It has width 1 and 3,504,872 parameters.
    """
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            **dict(_convolution("first_{}", 3, 32, 3, 2)),
            first_relu=nn.ReLU6(),
            **dict(_mobile_blocks()),
            **dict(_convolution("last_{}", 320, 1280, 1)),
            last_relu=nn.ReLU6(),
            average=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            dropout=nn.Dropout(0.2),
            fc=nn.Linear(1280, CLASSES),
        )
    )


def nest_stages(module: nn.Sequential) -> nn.Sequential:
    """Group the blocks of each stage of a residual network in a chain of their own."""
    children = OrderedDict[str, nn.Module]()
    for name, child in module.named_children():
        stage, _, block = name.partition("_block")
        if block:
            chain = children.setdefault(stage, nn.Sequential())
            chain.add_module(f"block{block}", child)
        else:
            children[name] = child
    return nn.Sequential(children)


class Add(nn.Module):
    """Sum of two tensors of the same shape; a module, so that hooks see the addition."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """Return ``left + right``, element by element."""
        return left + right


class Residual(nn.Module):
    """Residual block: a chain of layers, a shortcut around the chain, and a layer on the sum.

    Without ``shortcut``, the block's input is added to the chain's result; without ``last``, the
    sum is the block's output.  Children are in this order, with the addition before ``last``.
    """

    def __init__(
        self,
        chain: Iterable[tuple[str, nn.Module]],
        shortcut: nn.Module | None = None,
        last: tuple[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        ending = ("shortcut", shortcut or nn.Identity()), ("add", Add())
        for name, child in (*chain, *ending, last or ("last", nn.Identity())):
            self.add_module(name, child)

    @property
    def trunk(self) -> list[nn.Module]:
        """Chain of layers that the shortcut bypasses."""
        return [*self.children()][:-3]

    @property
    def after(self) -> nn.Module:
        """Layer on the sum."""
        return [*self.children()][-1]

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return ``after(trunk(inputs) + shortcut(inputs))``.

        ``result`` is reassigned at each step, so that an intermediate tensor is freed at once.
        ``nn.Sequential`` would hold the chain's input until the chain ends.
        """
        result = inputs
        for layer in self.trunk:
            result = layer(result)
        result = self.add(result, self.shortcut(inputs))
        return self.after(result)  # type: ignore[no-any-return]


class OptionAShortcut(nn.Module):
    """Shortcut without parameters into a stage with more channels and smaller images.

    It selects every ``stride``-th row and column, and adds channels of zeros, half before and half
    after the existing channels (option A of He et al., CVPR 2016, section 4.2).
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        added = channels_out - channels_in
        self.stride = stride
        self.zeros = (added // 2, added - added // 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Map ``(N, channels_in, H, W)`` to ``(N, channels_out, ⌈H / stride⌉, ⌈W / stride⌉)``."""
        selected = inputs[:, :, :: self.stride, :: self.stride]
        return functional.pad(selected, (0, 0, 0, 0, *self.zeros))


def _blocks(
    counts: Sequence[int],
    channels: Sequence[int],
    block: Callable[[int, int, int], nn.Module],
    expansion: int = 1,
) -> NamedModules:
    """Yield ``counts[i]`` blocks of ``channels[i]`` channels, times ``expansion``, for stage i.

    The first block of each stage after the first halves height and width.
    """
    in_channels = channels[0]
    for stage, (count, width) in enumerate(zip(counts, channels, strict=True), start=1):
        for number in range(1, count + 1):
            stride = 2 if stage > 1 and number == 1 else 1
            yield f"stage{stage}_block{number}", block(in_channels, width, stride)
            in_channels = width * expansion


def _projection_shortcut(in_channels: int, channels: int, stride: int) -> nn.Module | None:
    """Return a 1 × 1 convolution, or None if the block keeps channels, height and width."""
    if stride == 1 and in_channels == channels:
        return None
    return nn.Sequential(OrderedDict(_convolution("{}1", in_channels, channels, 1, stride)))


def option_a_shortcut(in_channels: int, channels: int, stride: int) -> nn.Module | None:
    """Return a shortcut that adds channels of zeros, or None if their number stays the same."""
    return None if in_channels == channels else OptionAShortcut(in_channels, channels, stride)


def basic_block(
    in_channels: int,
    width: int,
    stride: int,
    shortcut: Callable[[int, int, int], nn.Module | None] = _projection_shortcut,
    last: str = "last",
) -> Residual:
    """Return a block of two 3 × 3 convolutions; ``last`` names the ReLU after the addition."""
    chain = (
        *_convolution("{}1", in_channels, width, 3, stride),
        ("relu1", nn.ReLU()),
        *_convolution("{}2", width, width, 3),
    )
    return Residual(chain, shortcut(in_channels, width, stride), (last, nn.ReLU()))


def _bottleneck_block(in_channels: int, width: int, stride: int) -> Residual:
    """Return a block of 1 × 1, 3 × 3 and 1 × 1 convolutions; the 3 × 3 convolution has the stride.

    In the paper, the first convolution has the stride.  Frameworks moved the stride to the second,
    for higher accuracy at more work (NVIDIA DeepLearningExamples, ResNet-50 v1.5).
    """
    out_channels = EXPANSION * width
    chain = (
        *_convolution("{}1", in_channels, width, 1),
        ("relu1", nn.ReLU()),
        *_convolution("{}2", width, width, 3, stride),
        ("relu2", nn.ReLU()),
        *_convolution("{}3", width, out_channels, 1),
    )
    shortcut = _projection_shortcut(in_channels, out_channels, stride)
    return Residual(chain, shortcut, ("last", nn.ReLU()))


def _mobile_blocks() -> NamedModules:
    """Yield MobileNetV2's blocks; blocks that keep channels, height and width have a shortcut."""
    in_channels = 32
    for stage, (expansion, channels, count, first_stride) in enumerate(_MOBILENET_STAGES, start=1):
        for number in range(1, count + 1):
            stride = first_stride if number == 1 else 1
            chain = _mobile_layers(in_channels, channels, expansion, stride)
            has_shortcut = stride == 1 and in_channels == channels
            block = Residual(chain) if has_shortcut else nn.Sequential(OrderedDict(chain))
            yield f"stage{stage}_block{number}", block
            in_channels = channels


def _mobile_layers(in_channels: int, channels: int, expansion: int, stride: int) -> NamedModules:
    """Yield an expansion to more channels, a depthwise convolution and a linear projection."""
    hidden = in_channels * expansion
    if expansion != 1:
        yield from _convolution("expand_{}", in_channels, hidden, 1)
        yield "expand_relu", nn.ReLU6()
    yield from _convolution("depthwise_{}", hidden, hidden, 3, stride, groups=hidden)
    yield "depthwise_relu", nn.ReLU6()
    yield from _convolution("project_{}", hidden, channels, 1)


def _convolution(
    name: str, in_channels: int, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> NamedModules:
    """Yield a convolution without bias and its batch norm; ``{}`` in ``name`` stands for both.

    Kernels have odd size; with stride 1, the padding keeps height and width.
    """
    padding = (kernel - 1) // 2
    yield (
        name.format("conv"),
        nn.Conv2d(in_channels, channels, kernel, stride, padding, groups=groups, bias=False),
    )
    yield name.format("bn"), nn.BatchNorm2d(channels)
