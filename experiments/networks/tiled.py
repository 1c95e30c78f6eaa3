"""Convolutions computed tile by tile, each tile from a part of the image with a halo.

A tile is a rectangle of the *output* of a chain of layers.  A map is the input or output of a
layer.  The required part of each map is computed backwards through the chain: along an axis, n
outputs of a convolution with kernel k and stride s need (n - 1) s + k inputs.  A part is padded
with zeros only where it touches the border of a map, so that the tile equals the same rectangle of
the untiled result.  Only the chain's input and output exist as whole maps.  Kernels, strides and
paddings are the same along both axes.
"""

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
#: Rectangle of a map: rows and columns.
Region: TypeAlias = tuple[range, range]
Compute: TypeAlias = Callable[[torch.Tensor], torch.Tensor]
#: Required region of an input, and the function that computes a tile from this region.
TilePlan: TypeAlias = tuple[Region, Compute]

#: Modules whose output at a position depends only on the input at the same position.
_POINTWISE: Final = (nn.BatchNorm2d, nn.ReLU, nn.Identity)


def _cut(tensor: torch.Tensor, held: Region, wanted: Region) -> torch.Tensor:
    """Cut the region ``wanted`` from a tensor ``(N, C, H, W)`` that holds the region ``held``."""
    (wanted_rows, wanted_columns), (held_rows, held_columns) = wanted, held
    top, left = wanted_rows.start - held_rows.start, wanted_columns.start - held_columns.start
    bottom, right = top + len(wanted_rows), left + len(wanted_columns)
    return tensor[:, :, top:bottom, left:right]


def _geometry(module: nn.Conv2d) -> tuple[int, int, int]:
    """Return kernel, stride and padding, which are the same along both axes."""
    return module.kernel_size[0], module.stride[0], int(module.padding[0])


class Tiled(nn.Module):
    """Chain of modules, computed tile by tile of the output."""

    def __init__(self, modules: Sequence[nn.Module], tile: int) -> None:
        super().__init__()
        self.chain = nn.Sequential(*modules)
        self.tile = tile

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Apply the chain to ``(N, C, H, W)``; rounding may differ from the untiled result."""
        chain = tuple(self.chain)
        maps = _maps(chain, (inputs.shape[2], inputs.shape[3]))
        whole_input, whole_output = _whole(maps[0]), _whole(maps[-1])
        result: torch.Tensor | None = None
        height, width = maps[-1]
        for wanted in product(self._spans(height), self._spans(width)):
            needed, compute = _plan(chain, maps, wanted)
            part = compute(_cut(inputs, whole_input, needed))
            if result is None:
                result = _empty(part, maps[-1])
            _cut(result, whole_output, wanted).copy_(part)
        assert result is not None
        return result

    def _spans(self, extent: int) -> list[range]:
        """Divide an axis of ``extent`` elements into tiles; the last one may be smaller."""
        return [range(extent)[start : start + self.tile] for start in range(0, extent, self.tile)]


def _whole(extents: Extents) -> Region:
    """Return the region that covers a whole map."""
    height, width = extents
    return range(height), range(width)


def _empty(part: torch.Tensor, extents: Extents) -> torch.Tensor:
    """Allocate a whole map with the type, device and memory layout of a part of it."""
    last = part.is_contiguous(memory_format=torch.channels_last) and not part.is_contiguous()
    layout = torch.channels_last if last else torch.contiguous_format
    shape = (*part.shape[:2], *extents)
    return torch.empty(shape, dtype=part.dtype, device=part.device, memory_format=layout)


def _maps(modules: Sequence[nn.Module], extents: Extents) -> tuple[Extents, ...]:
    """Return height and width of the chain's input and of every module's output."""
    maps = [extents]
    for module in modules:
        maps.append(_extents(module, maps[-1]))
    return tuple(maps)


def _extents(module: nn.Module, extents: Extents) -> Extents:
    """Return height and width of a module's output; raise ``TypeError`` for an unknown module."""
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


def _plan(modules: Sequence[nn.Module], maps: Sequence[Extents], wanted: Region) -> TilePlan:
    """Plan the region ``wanted`` of a chain's output; ``maps`` is the result of ``_maps``."""
    steps: list[Compute] = []
    for module, extents in zip(reversed(modules), reversed(maps[:-1]), strict=True):
        wanted, step = _plan_module(module, extents, wanted)
        steps.append(step)

    def compute_chain(part: torch.Tensor) -> torch.Tensor:
        for step in reversed(steps):
            part = step(part)
        return part

    return wanted, compute_chain


def _plan_module(module: nn.Module, extents: Extents, wanted: Region) -> TilePlan:
    """Return the input region for a module's ``wanted`` outputs, and a function that computes them.

    ``extents`` is the size of the whole input.
    """
    match module:
        case nn.Conv2d():
            rows, top, bottom = _window(module, wanted[0], extents[0])
            columns, left, right = _window(module, wanted[1], extents[1])
            return (rows, columns), partial(_convolve, module, (left, right, top, bottom))
        case Residual():
            held, trunk = _plan(module.trunk, _maps(module.trunk, extents), wanted)

            def compute_block(part: torch.Tensor) -> torch.Tensor:
                result = module.add(trunk(part), _shortcut(module, part, held, wanted))
                return module.after(result)  # type: ignore[no-any-return]

            return held, compute_block
    return wanted, module


def _window(module: nn.Conv2d, wanted: range, extent: int) -> tuple[range, int, int]:
    """Return the inputs that ``wanted`` outputs need along an axis, and the zeros on both sides."""
    kernel, stride, padding = _geometry(module)
    first = wanted.start * stride - padding
    end = (wanted.stop - 1) * stride - padding + kernel
    span = range(max(first, 0), min(end, extent))
    return span, span.start - first, end - span.stop


def _convolve(module: nn.Conv2d, zeros: tuple[int, ...], part: torch.Tensor) -> torch.Tensor:
    """Convolve a part of a map, padded only where the part touches the border."""
    # If all four sides need the module's own padding, it can be called as it is.
    if set(zeros) == {int(module.padding[0])}:
        return module(part)  # type: ignore[no-any-return]
    if any(zeros):
        part = functional.pad(part, zeros)
    return functional.conv2d(part, module.weight, module.bias, module.stride, 0, 1, module.groups)


def _shortcut(block: Residual, part: torch.Tensor, held: Region, wanted: Region) -> torch.Tensor:
    """Compute ``wanted`` outputs of the shortcut from ``part``, which holds the region ``held``."""
    stride = block.shortcut.stride if isinstance(block.shortcut, OptionAShortcut) else 1
    rows, columns = (range(span.start * stride, (span.stop - 1) * stride + 1) for span in wanted)
    return block.shortcut(_cut(part, held, (rows, columns)))  # type: ignore[no-any-return]


def tile_network(network: nn.Sequential, form: Form, tile: int) -> nn.Sequential:
    """Tile a network built by ``cifar_resnet``; tiles of an output have ``tile`` pixels per side.

    - ``tiled_layers``: tiles each convolution alone, in a copy of the network.
    - ``tiled_blocks``: tiles the three modules before the first block as one chain, and each block.
    - ``tiled_stages``: tiles these three modules and stage 1 as one chain, and each later stage.
    """
    if form == "tiled_layers":
        tiled = copy.deepcopy(network)
        blocks = [module for module in tiled.modules() if isinstance(module, Residual)]
        for module in [tiled, *blocks]:
            for name, child in module.named_children():
                if isinstance(child, nn.Conv2d):
                    setattr(module, name, Tiled([child], tile))
        return tiled
    children = dict(network.named_children())
    untiled = [children.pop(name) for name in ("pool", "flatten", "fc")]
    groups: dict[str, list[nn.Module]] = {}
    for name, module in children.items():
        groups.setdefault(_group(name, form), []).append(module)
    return nn.Sequential(*(Tiled(group, tile) for group in groups.values()), *untiled)


def _group(name: str, form: Form) -> str:
    """Return the name of the group in which a module is tiled."""
    if not name.startswith("stage"):
        return "stage1" if form == "tiled_stages" else "first"
    return name.partition("_")[0] if form == "tiled_stages" else name
