"""Parts that several networks share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from torch import nn
from torch.nn import functional

#: Classes of ImageNet.
CLASSES: Final = 1000


class Add(nn.Module):
    """The sum of two tensors of the same shape, as a module so that a hook can see it run."""

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """``left + right``, element by element."""
        return left + right


class Residual(nn.Module):
    """Layers one after the other with a way around them, and what follows the sum."""

    def __init__(
        self,
        parts: Iterable[tuple[str, nn.Module]],
        shortcut: nn.Module | None = None,
        last: tuple[str, nn.Module] | None = None,
    ) -> None:
        super().__init__()
        named = dict(parts)
        self.names = tuple(named)
        for name, part in named.items():
            self.add_module(name, part)
        self.shortcut = shortcut or nn.Identity()
        self.add = Add()
        self.last_name, module = last or ("last", nn.Identity())
        self.add_module(self.last_name, module)

    @property
    def trunk(self) -> tuple[nn.Module, ...]:
        """The layers that the way leads around."""
        return tuple(map(self.get_submodule, self.names))

    @property
    def after(self) -> nn.Module:
        """What follows the sum."""
        return self.get_submodule(self.last_name)

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """``after(trunk(source) + shortcut(source))``.

        One name, step by step: a nested call would keep its argument alive a step longer.
        """
        result = source
        for name in self.names:
            result = self.get_submodule(name)(result)
        result = self.add(result, self.shortcut(source))
        return self.after(result)  # type: ignore[no-any-return]


class OptionAShortcut(nn.Module):
    """A shortcut without parameters into a stage with more channels and smaller images.

    Every ``stride``-th row and column is kept, and channels of zeros are added, half of them before
    and half behind (option A of He et al., CVPR 2016, section 4.2).
    """

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        added = channels_out - channels_in
        self.stride = stride
        self.zeros = (added // 2, added - added // 2)

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """``(N, C, H, W)`` to ``(N, C', H / stride, W / stride)``, rounded up."""
        kept = source[:, :, :: self.stride, :: self.stride]
        return functional.pad(kept, (0, 0, 0, 0, *self.zeros))
