"""Convolutions tile by tile: a part of the image at a time, with the halo that its windows need.

A tile is a rectangle of a chain's *output*.  Which part of each map it needs follows backwards
through the chain: a window of k taps at stride s needs (n - 1) s + k values for n outputs.  Where
that reaches over the border of a map, the map's own zeros are put there, on every map of the chain,
so that a tile holds exactly what the untiled network computes at its place.  Only the chain's input
and output exist as whole maps.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from experiments.networks.blocks import OptionAShortcut
from experiments.networks.cifar_resnet import BasicBlock

Form: TypeAlias = Literal["tiled_layers", "tiled_blocks", "tiled_stages"]

#: Modules whose output at a place depends on the input at that place alone.
_POINTWISE: Final = (nn.BatchNorm2d, nn.ReLU, nn.Identity)


@dataclass(frozen=True)
class Span:
    """Positions from ``start`` up to ``stop``, which is not among them, along one axis of a map."""

    start: int
    stop: int

    def __len__(self) -> int:
        """How many positions there are."""
        return self.stop - self.start

    def within(self, outer: Span) -> slice:
        """Where these positions lie in a tensor that begins at ``outer``."""
        return slice(self.start - outer.start, self.stop - outer.start)


@dataclass(frozen=True)
class Region:
    """A rectangle of a map."""

    rows: Span
    columns: Span

    def of(self, tensor: torch.Tensor, held: Region) -> torch.Tensor:
        """This part of a tensor ``(N, C, H, W)`` that has the part ``held`` of the map."""
        return tensor[:, :, self.rows.within(held.rows), self.columns.within(held.columns)]


Extents: TypeAlias = tuple[int, int]


def whole(extents: Extents) -> Region:
    """All of a map."""
    return Region(*(Span(0, extent) for extent in extents))


def tiles(extents: Extents, tile: int) -> Iterator[Region]:
    """Rectangles of ``tile`` × ``tile`` that cover a map, smaller at its far borders."""
    rows, columns = (_cut(extent, tile) for extent in extents)
    return (Region(row, column) for row in rows for column in columns)


def _cut(extent: int, tile: int) -> list[Span]:
    return [Span(start, min(start + tile, extent)) for start in range(0, extent, tile)]


@dataclass(frozen=True)
class Window:
    """What a convolution needs along one axis: positions of its input, and zeros on both sides."""

    span: Span
    before: int
    after: int


def window(wanted: Span, kernel: int, stride: int, padding: int, extent: int) -> Window:
    """What the outputs ``wanted`` need of an axis with ``extent`` values."""
    first = wanted.start * stride - padding
    behind = (wanted.stop - 1) * stride - padding + kernel
    span = Span(max(first, 0), min(behind, extent))
    return Window(span, span.start - first, behind - span.stop)


class Tiled(nn.Module):
    """Modules one after the other, computed tile by tile of their output."""

    def __init__(self, modules: Sequence[nn.Module], tile: int) -> None:
        super().__init__()
        self.chain = nn.Sequential(*modules)
        self.tile = tile

    def forward(self, source: torch.Tensor) -> torch.Tensor:
        """``(N, C, H, W)`` to what the chain gives, equal but for the order of summing."""
        height, width = source.shape[-2:]
        maps = _maps(tuple(self.chain), (height, width))
        result: torch.Tensor | None = None
        for wanted in tiles(maps[-1], self.tile):
            part = _chained(tuple(self.chain), maps, source, whole(maps[0]), wanted)
            if result is None:
                result = _empty(part, maps[-1])
            wanted.of(result, whole(maps[-1])).copy_(part)
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
    found = [extents]
    for module in modules:
        found.append(_extents(module, found[-1]))
    return tuple(found)


def _extents(module: nn.Module, extents: Extents) -> Extents:
    """Height and width of what ``module`` gives; raises ``TypeError`` for one that is unknown."""
    match module:
        case nn.Conv2d():
            height, width = (
                (extent + 2 * padding - kernel) // stride + 1
                for extent, (kernel, stride, padding) in zip(
                    extents, _geometry(module), strict=True
                )
            )
            return height, width
        case BasicBlock():
            return _maps(_trunk(module), extents)[-1]
        case _ if isinstance(module, _POINTWISE):
            return extents
    raise TypeError(f"{type(module).__name__} cannot be computed tile by tile")


def _geometry(module: nn.Conv2d) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Kernel, stride and padding of both axes."""
    assert not isinstance(module.padding, str)
    assert tuple(module.dilation) == (1, 1)
    height, width = zip(module.kernel_size, module.stride, module.padding, strict=True)
    return height, width


def _trunk(block: BasicBlock) -> tuple[nn.Module, ...]:
    """What lies on a block's way with the convolutions, up to the addition."""
    return (block.conv1, block.bn1, block.relu1, block.conv2, block.bn2)


def _chained(
    modules: Sequence[nn.Module],
    maps: Sequence[Extents],
    source: torch.Tensor,
    held: Region,
    wanted: Region,
) -> torch.Tensor:
    """The part ``wanted`` of a chain's output; ``source`` is the part ``held`` of its input."""
    regions = _regions(modules, maps, wanted)
    part = regions[0].of(source, held)
    for index, module in enumerate(modules):
        part = _on_part(module, maps[index], part, regions[index], regions[index + 1])
    return part


def _regions(
    modules: Sequence[nn.Module], maps: Sequence[Extents], wanted: Region
) -> tuple[Region, ...]:
    """The part of each map that the part ``wanted`` of the last one needs, the last included."""
    found = [wanted]
    for module, extents in zip(reversed(modules), reversed(maps[:-1]), strict=True):
        found.append(_needed(module, extents, found[-1]))
    return tuple(reversed(found))


def _needed(module: nn.Module, extents: Extents, wanted: Region) -> Region:
    """The part of a module's input that the part ``wanted`` of its output needs."""
    match module:
        case nn.Conv2d():
            return Region(*(axis.span for axis in _windows(module, extents, wanted)))
        case BasicBlock():
            trunk = _trunk(module)
            return _regions(trunk, _maps(trunk, extents), wanted)[0]
    return wanted


def _windows(module: nn.Conv2d, extents: Extents, wanted: Region) -> tuple[Window, Window]:
    rows, columns = (
        window(span, *geometry, extent)
        for span, geometry, extent in zip(
            (wanted.rows, wanted.columns), _geometry(module), extents, strict=True
        )
    )
    return rows, columns


def _on_part(
    module: nn.Module, extents: Extents, part: torch.Tensor, held: Region, wanted: Region
) -> torch.Tensor:
    """What ``module`` gives at ``wanted`` from the part ``held`` of its input map."""
    match module:
        case nn.Conv2d():
            return _convolved(module, part, *_windows(module, extents, wanted))
        case BasicBlock():
            return _through_block(module, extents, part, held, wanted)
    result: torch.Tensor = module(part)
    return result


def _convolved(
    module: nn.Conv2d, part: torch.Tensor, rows: Window, columns: Window
) -> torch.Tensor:
    """The convolution of a part with the zeros that the map has around it, and no others."""
    zeros = (columns.before, columns.after, rows.before, rows.after)
    (*_, height), (*_, width) = _geometry(module)
    if zeros == (width, width, height, height):
        result: torch.Tensor = module(part)
        return result
    if any(zeros):
        part = functional.pad(part, zeros)
    return functional.conv2d(part, module.weight, module.bias, module.stride, 0, 1, module.groups)


def _through_block(
    block: BasicBlock, extents: Extents, part: torch.Tensor, held: Region, wanted: Region
) -> torch.Tensor:
    trunk = _trunk(block)
    result = _chained(trunk, _maps(trunk, extents), part, held, wanted)
    result = block.add(result, _shortcut(block, part, held, wanted))
    return block.relu2(result)  # type: ignore[no-any-return]


def _shortcut(block: BasicBlock, part: torch.Tensor, held: Region, wanted: Region) -> torch.Tensor:
    """What goes around the convolutions: every stride-th value of the input, from ``wanted`` on."""
    stride = block.shortcut.stride if isinstance(block.shortcut, OptionAShortcut) else 1
    taken = Region(*(_strided(span, stride) for span in (wanted.rows, wanted.columns)))
    return block.shortcut(taken.of(part, held))  # type: ignore[no-any-return]


def _strided(span: Span, stride: int) -> Span:
    """The positions of the input from the first to the last that are kept."""
    return Span(span.start * stride, (span.stop - 1) * stride + 1)


def tiled(network: nn.Sequential, form: Form, tile: int) -> nn.Sequential:
    """The residual network of ``experiments.networks.cifar_resnet``, tiled; its weights are shared.

    - ``tiled_layers``: each convolution alone; what lies between works on whole maps.
    - ``tiled_blocks``: the first three modules, and each block.
    - ``tiled_stages``: the first three modules with the first stage, and each further stage.
    """
    if form == "tiled_layers":
        return _tiled_layers(network, tile)
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


def _tiled_layers(network: nn.Sequential, tile: int) -> nn.Sequential:
    """A copy in which every convolution is ``Tiled``."""
    import copy

    made = copy.deepcopy(network)
    for module in [made, *(m for m in made.modules() if isinstance(m, BasicBlock))]:
        for name, child in module.named_children():
            if isinstance(child, nn.Conv2d):
                setattr(module, name, Tiled([child], tile))
    return made
