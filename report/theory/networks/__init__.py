"""The networks of the studies as captured operators, in files beside this one; needs no PyTorch.

``python -m experiments theory --capture`` writes the files: a network on images of one size, called
in several ways.  It is captured at a batch of ``BATCH`` images, a large prime number, so that every
extent, setting and size that this number divides grows with the batch and no other one does (the
command captures another batch too and compares).
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.layers import Layer, at_batch
from report.core.records.operations import Network, Operator, Setting, Tensor
from report.theory.conditions import Layout
from report.theory.operators import multiply_adds
from report.theory.shapes import parameter_count
from report.theory.timeline import living
from report.theory.work import forward_macs

BATCH: Final = 7919
_REMEDY: Final = "its operators were not captured; run python -m experiments theory --capture"


class Kept(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A file: the layers on one image, and operators by the way of the call, if papers need any."""

    layers: tuple[Layer, ...]
    ways: dict[str, Network]


_decoder: Final = msgspec.json.Decoder(Kept)


class Way(NamedTuple):
    """How a network is called in an inference, which may run under autocast to ``precision``."""

    layout: Layout = "contiguous"
    precision: str = "float32"


@dataclass(frozen=True, eq=False)
class Captured:
    """A network that was captured at ``BATCH`` images, for any batch.

    ``reduced`` is the type that stands for bfloat16.
    """

    network: Network
    reduced: str = "bfloat16"

    @cached_property
    def _resident(self) -> frozenset[int]:
        """What does not grow with the batch, whatever divides its size."""
        tensors = (*self.network.parameters.values(), *self.network.buffers.values())
        return frozenset(tensor.storage for tensor in (*tensors, *self.network.state))

    @cached_property
    def _growth(self) -> tuple[tuple[int, int], ...]:
        """The bytes of every storage: whatever the batch, and for each image."""
        return tuple(
            (size, 0) if size % BATCH or storage in self._resident else (0, size // BATCH)
            for storage, size in enumerate(self.network.storages)
        )

    @lru_cache(maxsize=64)  # noqa: B019  # networks are kept as long as the process
    def sizes(self, batch: int) -> tuple[int, ...]:
        """The bytes of every storage."""
        return tuple([fixed + each * batch for fixed, each in self._growth])

    @cached_property
    def living(self) -> tuple[tuple[int, int], ...]:
        """The bytes alive at each operator: whatever the batch, and for each image."""
        at = (living(self.network, self.sizes(batch)) for batch in (1, 2))
        totals = ([sum(alive.values()) for alive in each] for each in at)
        return tuple((2 * one - two, two - one) for one, two in zip(*totals, strict=True))

    @cached_property
    def per_image(self) -> int:
        """The multiply-adds of the forward pass on an image."""
        forward = (each for each in self.network.operators if each.phase == "forward")
        return sum(map(multiply_adds, forward)) // BATCH

    @cached_property
    def alike(self) -> tuple[int, ...]:
        """For each operator the first one that does the same with tensors of the same shapes."""
        first: dict[object, int] = {}
        return tuple(
            first.setdefault(signature(operator), number)
            for number, operator in enumerate(self.network.operators)
        )

    @lru_cache(maxsize=2**14)  # noqa: B019  # as above
    def operator(self, number: int, batch: int) -> Operator:
        """One of its operators at a batch."""
        return self.scaled(self.network.operators[number], batch)

    def scaled(self, operator: Operator, batch: int) -> Operator:
        """An operator on its tensors at a batch; nothing grows in most of an update."""
        touched = {tensor.storage for tensor in (*operator.read, *operator.writes)}
        if touched <= self._resident:
            return operator
        return msgspec.structs.replace(
            operator,
            reads={name: self._tensors(each, batch) for name, each in operator.reads.items()},
            settings={
                name: _setting(value, batch, self.reduced)
                for name, value in operator.settings.items()
            },
            writes=self._tensors(operator.writes, batch),
        )

    def at(self, batch: int) -> Network:
        """The whole network at a batch."""
        return msgspec.structs.replace(
            self.network,
            storages=self.sizes(batch),
            inputs=self._tensors(self.network.inputs, batch),
            operators=tuple(self.operator(n, batch) for n in range(len(self.network.operators))),
        )

    def _tensors(self, tensors: tuple[Tensor, ...], batch: int) -> tuple[Tensor, ...]:
        return tuple(
            tensor if tensor.storage in self._resident else self._tensor(tensor, batch)
            for tensor in tensors
        )

    def _tensor(self, tensor: Tensor, batch: int) -> Tensor:
        return Tensor(
            tensor.storage,
            tuple([n if n % BATCH else n // BATCH * batch for n in tensor.shape]),
            tuple([n if n % BATCH else n // BATCH * batch for n in tensor.strides]),
            self.reduced if tensor.dtype == "bfloat16" else tensor.dtype,
            _scaled(tensor.offset, batch),
        )


def _scaled(number: int, batch: int) -> int:
    return number if number % BATCH else number // BATCH * batch


def _setting(value: Setting, batch: int, reduced: str) -> Setting:
    if isinstance(value, str):
        return value.replace("bfloat16", reduced)
    if isinstance(value, tuple):
        return tuple(_scaled(n, batch) if type(n) is int else n for n in value)
    return _scaled(value, batch) if type(value) is int else value


def signature(operator: Operator) -> object:
    """Name, settings and shapes, which decide the work of an operator."""
    reads = ((name, tuple(map(_form, each))) for name, each in operator.reads.items())
    settings = tuple(operator.settings.items())
    return operator.name, tuple(reads), settings, tuple(map(_form, operator.writes))


def _form(tensor: Tensor) -> object:
    return tensor.shape, tensor.strides, tensor.dtype


def scales(network: Network, seen: Sequence[Operator], batch: int) -> bool:
    """Whether the forward pass that was seen at ``batch`` is that of ``network``, scaled.

    Of accumulated gradients the first one is compared.
    """
    captured = Captured(network)
    forward = [n for n, each in enumerate(network.operators) if each.phase == "forward"]
    return len(forward) % max(1, len(seen)) == 0 and all(
        signature(captured.operator(number, batch)) == signature(operator)
        for number, operator in zip(forward, seen, strict=False)
    )


# ------------------------------------------------------------------------------------------ files


def file_of(network: str, image: int) -> Path:
    """Where the operators of a network on images of ``image`` pixels a side lie."""
    return Path(__file__).parent / f"{network}-{image}.json.gz"


def captured(
    network: str, image: int, way: Way, *, like: Sequence[Layer] = ()
) -> Captured | Missing:
    """The operators of a network, or why they are not known.

    ``like`` are layers that ran; they must have as many parameters and multiply-adds.
    """
    found = _captured(network, image, way)
    if found is None:
        return Missing(f"{network} on images of {image} pixels: {_REMEDY}")
    if like:
        ran = sum(map(parameter_count, like)), forward_macs(like) // like[0].input_shape[0]
        if ran != (found.network.parameter_count, found.per_image):
            return Missing(f"other layers of {network} ran than were captured")
    return found


@lru_cache(maxsize=128)
def _captured(network: str, image: int, way: Way) -> Captured | None:
    # Both reduced precisions run the same operators.
    kept = way._replace(precision="bfloat16") if way.precision == "float16" else way
    file = _read(network, image)
    found = None if file is None else file.ways.get(" ".join(kept))
    return None if found is None else Captured(found, way.precision)


def layers_of(network: str, image: int, batch: int = 1) -> tuple[Layer, ...]:
    """The layers of a network that was captured; raises ``StudyError`` for another one."""
    file = _read(network, image)
    if file is None:
        raise StudyError(f"{network} on images of {image} pixels: {_REMEDY}.")
    return at_batch(file.layers, batch)


@lru_cache(maxsize=32)
def _read(network: str, image: int) -> Kept | None:
    file = file_of(network, image)
    return _decoder.decode(gzip.decompress(file.read_bytes())) if file.is_file() else None
