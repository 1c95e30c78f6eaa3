"""Which layer reads which tensor, and which modules hold one meanwhile, from a record's layers.

A record gives the layers in the order of running, by the names of their modules, and no more.  That
is enough by two rules of names, which the networks here keep (``experiments.networks.blocks``): in
a residual block ``b`` the sum is the layer ``b.add``, and the layers on the other way are
``b.shortcut`` or below it.  Both ways start at the block's input; every other layer reads what the
layer before it wrote.  So a record needs no list of edges that could contradict its shapes, and the
shapes, which it has anyway, are used to check what the names say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from report.errors import StudyError
from report.records.layers import Addition, Layer

#: Stands for the network's input where the number of a layer is expected.
NETWORK_INPUT: Final = -1

_SHORTCUT: Final = "shortcut"

#: The names of a network's layers in the order of running.
_Names: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Caller:
    """A module with layers inside, which holds its argument until the last of them has run.

    ``argument`` is the number of the layer that wrote it, or ``NETWORK_INPUT``; ``last`` is the
    number of the last layer inside.
    """

    name: str
    argument: int
    last: int


def sources(layers: Sequence[Layer]) -> tuple[tuple[int, ...], ...]:
    """For each layer the numbers of the layers whose outputs it reads, two for an addition.

    Raises ``StudyError`` where a source does not have the shape that the layer read: then the
    names do not keep the rules above.
    """
    sums = (number for number, layer in enumerate(layers) if isinstance(layer, Addition))
    found = _sources(_names(layers), frozenset(sums))
    for layer, read in zip(layers, found, strict=True):
        for source in read:
            _check(layer, source, layers)
    return found


def callers(layers: Sequence[Layer]) -> tuple[Caller, ...]:
    """The modules around the layers, outermost first, with what each was called with.

    An interpreter keeps the arguments of a call until it returns.  Of the whole network, whose
    input its own caller holds, nothing is said.
    """
    return _callers(_names(layers))


#: Records hold a network at many batch sizes, and tiles take pieces of it, with the same names.
_NETWORKS: Final = 512


@lru_cache(maxsize=_NETWORKS)
def _callers(names: _Names) -> tuple[Caller, ...]:
    spans: dict[str, tuple[int, int]] = {}
    for number, name in enumerate(names):
        path = name.split(".")
        for depth in range(1, len(path)):
            module = ".".join(path[:depth])
            first, _ = spans.get(module, (number, number))
            spans[module] = (first, number)
    return tuple(Caller(name, first - 1, last) for name, (first, last) in spans.items())


@lru_cache(maxsize=_NETWORKS)
def _sources(names: _Names, sums: frozenset[int]) -> tuple[tuple[int, ...], ...]:
    """What ``sources`` finds by the names, and by the numbers of the layers that are additions."""
    firsts = _blocks(names, sums)
    return tuple(_read(number, names, sums, firsts) for number in range(len(names)))


def _names(layers: Sequence[Layer]) -> _Names:
    return tuple(layer.name for layer in layers)


def _blocks(names: _Names, sums: frozenset[int]) -> dict[str, int]:
    """The residual blocks by name, each with the number of its first layer."""
    firsts: dict[str, int] = {}
    for number, name in enumerate(names):
        for module in _modules(name):
            firsts.setdefault(module, number)
    return {block: firsts[block] for block in (_parent(names[number]) for number in sums)}


def _modules(name: str) -> Iterator[str]:
    """The modules around a layer, the innermost first and the network, which has no name, last."""
    while True:
        name = _parent(name)
        yield name
        if not name:
            return


def _parent(name: str) -> str:
    return name.rpartition(".")[0]


def _read(
    number: int, names: _Names, sums: frozenset[int], firsts: dict[str, int]
) -> tuple[int, ...]:
    block = next((module for module in _modules(names[number]) if module in firsts), None)
    if block is None:
        return (number - 1,)
    if number in sums:
        ways = (False, True)
        return tuple(_previous(number, names, block, firsts[block], way) for way in ways)
    shortcut = _on_shortcut(names[number], block)
    return (_previous(number, names, block, firsts[block], shortcut),)


def _previous(number: int, names: _Names, block: str, first: int, on_shortcut: bool) -> int:
    """The layer before on one way through a block, or what wrote the block's input."""
    before = range(number - 1, first - 1, -1)
    same = (i for i in before if _on_shortcut(names[i], block) == on_shortcut)
    return next(same, first - 1)


def _on_shortcut(name: str, block: str) -> bool:
    inner = name[len(block) + 1 :] if block else name
    return inner.split(".")[0] == _SHORTCUT


def _check(layer: Layer, source: int, layers: Sequence[Layer]) -> None:
    if source == NETWORK_INPUT:
        return
    written = layers[source]
    if written.output_shape != layer.input_shape:
        raise StudyError(
            f"layer {layer.name}: by its name it reads the output of {written.name}, but that is "
            f"{written.output_shape} and it read {layer.input_shape}; name a block's sum add and "
            "the layers of its other way shortcut."
        )
