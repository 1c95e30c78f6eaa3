"""Convolutions tile by tile: a part of the image at a time, with the halo that its windows need.

A tile is a rectangle of a chain's *output*.  Which part of each map it needs follows backwards
through the chain: a window of k taps at stride s needs (n - 1) s + k values for n outputs.  Where
that reaches over the border of a map, the map's own zeros are put there, on every map of the chain,
so that a tile holds exactly what the untiled network computes at its place.  Only the chain's input
and output exist as whole maps.  Kernels, strides and paddings are the same along both axes.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Final, Literal, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from experiments.networks.residual import OptionAShortcut, Residual

Form: TypeAlias = Literal["tiled_layers", "tiled_blocks", "tiled_stages"]
#: Height and width of a map.
Extents: TypeAlias = tuple[int, int]
#: A rectangle of a map: its rows and its columns.
Region: TypeAlias = tuple[range, range]
Step: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
#: The part of an input that is needed, and what computes from it.
Plan: TypeAlias = tuple[Region, Step]

#: Modules whose output at a place depends on the input at that place alone.
_POINTWISE: Final = (nn.BatchNorm2d, nn.ReLU, nn.Identity)


def _cut(tensor: torch.Tensor, held: Region, wanted: Region) -> torch.Tensor:
    """The part ``wanted`` of a tensor ``(N, C, H, W)`` that has the part ``held`` of a map."""
    rows, columns = (
        slice(inner.start - outer.start, inner.stop - outer.start)
        for inner, outer in zip(wanted, held, strict=True)
    )
    return tensor[:, :, rows, columns]


def _geometry(module: nn.Conv2d) -> tuple[int, int, int]:
    """Kernel, stride and padding of an axis."""
    return module.kernel_size[0], module.stride[0], int(module.padding[0])


class Tiled(nn.Module):
    """Modules one after the other, computed tile by tile of their output."""

    def __init__(self, modules: Sequence[nn.Module], tile: int) -> None:
        super().__init__()
        self.chain = nn.Sequential(*modules)
        self.tile = tile

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """``(N, C, H, W)`` to what the chain gives, equal but for the order of summing."""
        chain = tuple(self.chain)
        maps = _maps(chain, (source.shape[2], source.shape[3]))
        before, after = ((range(high), range(wide)) for high, wide in (maps[0], maps[-1]))
        result: torch.Tensor | None = None
        # Smaller ones at the far borders.
        rows, columns = (
            [range(extent)[at : at + self.tile] for at in range(0, extent, self.tile)]
            for extent in maps[-1]
        )
        for wanted in product(rows, columns):
            needed, compute = _plan(chain, maps, wanted)
            part = compute(_cut(source, before, needed))
            if result is None:
                result = _empty(part, maps[-1])
            _cut(result, after, wanted).copy_(part)
        assert result is not None
        return result


def _empty(part: torch.Tensor, extents: Extents) -> torch.Tensor:
    """A whole map for tiles like ``part``, in the layout that they have."""
    last = part.is_contiguous(memory_format=torch.channels_last) and not part.is_contiguous()
    layout = torch.channels_last if last else torch.contiguous_format
    shape = (*part.shape[:2], *extents)
    return torch.empty(shape, dtype=part.dtype, device=part.device, memory_format=layout)


def _maps(modules: Sequence[nn.Module], extents: Extents) -> tuple[Extents, ...]:
    """Height and width before the first module and after each."""
    maps = [extents]
    for module in modules:
        maps.append(_extents(module, maps[-1]))
    return tuple(maps)


def _extents(module: nn.Module, extents: Extents) -> Extents:
    """Height and width of what ``module`` gives; raises ``TypeError`` for one that is unknown."""
    match module:
        case nn.Conv2d():
            kernel, stride, padding = _geometry(module)
            height, width = ((n + 2 * padding - kernel) // stride + 1 for n in extents)
            return height, width
        case Residual():
            return _maps(module.trunk, extents)[-1]
        case _ if isinstance(module, _POINTWISE):
            return extents
    raise TypeError(f"{type(module).__name__} cannot be computed tile by tile")


def _plan(modules: Sequence[nn.Module], maps: Sequence[Extents], wanted: Region) -> Plan:
    """How the part ``wanted`` of a chain's output is computed; ``maps`` are all its extents."""
    steps: list[Step] = []
    for module, extents in zip(reversed(modules), reversed(maps[:-1]), strict=True):
        wanted, step = _plan_of(module, extents, wanted)
        steps.append(step)

    def chained(part: torch.Tensor) -> torch.Tensor:
        for step in reversed(steps):
            part = step(part)
        return part

    return wanted, chained


def _plan_of(module: nn.Module, extents: Extents, wanted: Region) -> Plan:
    """The same of one module, whose input is a map of these ``extents``."""
    match module:
        case nn.Conv2d():
            rows, columns = (_window(module, *axis) for axis in zip(wanted, extents, strict=True))
            zeros = (*columns[1:], *rows[1:])
            return (rows[0], columns[0]), partial(_convolved, module, zeros)
        case Residual():
            held, trunk = _plan(module.trunk, _maps(module.trunk, extents), wanted)

            def added(part: torch.Tensor) -> torch.Tensor:
                result = module.add(trunk(part), _shortcut(module, part, held, wanted))
                return module.after(result)  # type: ignore[no-any-return]

            return held, added
    return wanted, module


def _window(module: nn.Conv2d, wanted: range, extent: int) -> tuple[range, int, int]:
    """What outputs need of an axis with ``extent`` values: those, and the zeros on both sides."""
    kernel, stride, padding = _geometry(module)
    first = wanted.start * stride - padding
    behind = (wanted.stop - 1) * stride - padding + kernel
    span = range(max(first, 0), min(behind, extent))
    return span, span.start - first, behind - span.stop


def _convolved(module: nn.Conv2d, zeros: tuple[int, ...], part: torch.Tensor) -> torch.Tensor:
    """The convolution of a part with the zeros that the map has around it, and no others."""
    if set(zeros) == {int(module.padding[0])}:
        return module(part)  # type: ignore[no-any-return]
    if any(zeros):
        part = functional.pad(part, zeros)
    return functional.conv2d(part, module.weight, module.bias, module.stride, 0, 1, module.groups)


def _shortcut(block: Residual, part: torch.Tensor, held: Region, wanted: Region) -> torch.Tensor:
    """What goes around the convolutions: every stride-th value of the input, from ``wanted`` on."""
    stride = block.shortcut.stride if isinstance(block.shortcut, OptionAShortcut) else 1
    rows, columns = (range(span.start * stride, (span.stop - 1) * stride + 1) for span in wanted)
    return block.shortcut(_cut(part, held, (rows, columns)))  # type: ignore[no-any-return]


def tiled(network: nn.Sequential, form: Form, tile: int) -> nn.Sequential:
    """The residual network of ``experiments.networks.residual``, tiled; its weights are shared.

    - ``tiled_layers``: each convolution alone, in a copy; what lies between works on whole maps.
    - ``tiled_blocks``: the first three modules, and each block.
    - ``tiled_stages``: the first three modules with the first stage, and each further stage.
    """
    if form == "tiled_layers":
        twin = copy.deepcopy(network)
        for module in [twin, *(m for m in twin.modules() if isinstance(m, Residual))]:
            for name, child in module.named_children():
                if isinstance(child, nn.Conv2d):
                    setattr(module, name, Tiled([child], tile))
        return twin
    parts = dict(network.named_children())
    tail = [parts.pop(name) for name in ("pool", "flatten", "fc")]
    groups: dict[str, list[nn.Module]] = {}
    for name, module in parts.items():
        groups.setdefault(_group(name, form), []).append(module)
    return nn.Sequential(*(Tiled(group, tile) for group in groups.values()), *tail)


def _group(name: str, form: Form) -> str:
    """What a module of the chain is computed together with."""
    if not name.startswith("stage"):
        return "stage1" if form == "tiled_stages" else "first"
    return name.partition("_")[0] if form == "tiled_stages" else name
