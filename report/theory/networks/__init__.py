"""Captured operators of the studies' networks, in files of this folder; imports no PyTorch.

``python -m experiments theory --capture`` writes one file per network and image size, with one
entry per ``Variant``.  A capture has a batch of ``CAPTURED_BATCH`` images, a large prime number: a
captured number that is a multiple of this batch grows with the batch, any other number does not.
The command verifies this at a second batch.
"""

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
from report.core.records.operations import Network, Operator, OperatorSetting, Tensor
from report.theory.conditions import Layout
from report.theory.operators import multiply_adds
from report.theory.timeline import bytes_by_category
from report.theory.work import forward_macs, parameter_count

#: Images in the batch of every capture.
CAPTURED_BATCH: Final = 7919
#: Reason and remedy for a network without captured operators.
_NOT_CAPTURED: Final = "its operators were not captured; run python -m experiments theory --capture"


class NetworkFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Content of a file: layers on one image, and key of each ``Variant`` → its capture."""

    layers: tuple[Layer, ...]
    variants: dict[str, Network] = msgspec.field(name="ways")


_decoder: Final = msgspec.json.Decoder(NetworkFile)


class Variant(NamedTuple):
    """Settings of an inference: memory layout, and the precision that autocast uses.

    ``change`` names a change of the network's memory (``experiments.networks.catalogue``), such as
    in-place operators; the unchanged network has an empty ``change``.
    """

    layout: Layout = "contiguous"
    precision: str = "float32"
    change: str = ""

    @property
    def key(self) -> str:
        """Key of the variant in a file."""
        return " ".join(filter(None, self))


@dataclass(frozen=True, eq=False)
class CapturedNetwork:
    """A network captured at ``CAPTURED_BATCH`` images that scales to any batch.

    ``reduced_type`` replaces the captured bfloat16.
    """

    network: Network
    reduced_type: str = "bfloat16"

    @cached_property
    def _fixed_storages(self) -> frozenset[int]:
        """Storages of parameters, buffers and state, whose sizes do not depend on the batch."""
        tensors = (*self.network.parameters.values(), *self.network.buffers.values())
        return frozenset(tensor.storage for tensor in (*tensors, *self.network.state))

    @cached_property
    def _storage_sizes(self) -> tuple[tuple[int, int], ...]:
        """Bytes of every storage, as (fixed bytes, bytes per image)."""
        growth = []
        for storage, size in enumerate(self.network.storages):
            is_fixed = size % CAPTURED_BATCH != 0 or storage in self._fixed_storages
            growth.append((size, 0) if is_fixed else (0, size // CAPTURED_BATCH))
        return tuple(growth)

    @lru_cache(maxsize=64)  # noqa: B019  # networks live as long as the process
    def sizes(self, batch: int) -> tuple[int, ...]:
        """Return the bytes of every storage at a batch."""
        return tuple([fixed + per_image * batch for fixed, per_image in self._storage_sizes])

    @cached_property
    def live_bytes(self) -> tuple[tuple[int, int], ...]:
        """Live bytes at each operator, as (fixed bytes, bytes per image)."""
        parts = []
        at_one, at_two = (bytes_by_category(self.network, self.sizes(batch)) for batch in (1, 2))
        for alive_at_one, alive_at_two in zip(at_one, at_two, strict=True):
            one, two = sum(alive_at_one.values()), sum(alive_at_two.values())
            # Live bytes grow linearly with the batch, so two batches determine both parts.
            parts.append((2 * one - two, two - one))
        return tuple(parts)

    @cached_property
    def multiply_adds_per_image(self) -> int:
        """Multiply-adds of the forward pass per image."""
        operators = self.network.operators
        forward = (operator for operator in operators if operator.phase == "forward")
        return sum(map(multiply_adds, forward)) // CAPTURED_BATCH

    @cached_property
    def first_with_signature(self) -> tuple[int, ...]:
        """Index of the first operator with the same signature, for every operator."""
        first: dict[object, int] = {}
        operators = enumerate(self.network.operators)
        return tuple(first.setdefault(signature(item), number) for number, item in operators)

    @cached_property
    def read_storages(self) -> tuple[frozenset[int], ...]:
        """Storages that every operator reads."""
        storages = []
        for operator in self.network.operators:
            storages.append(frozenset(tensor.storage for tensor in operator.read_tensors))
        return tuple(storages)

    @lru_cache(maxsize=2**14)  # noqa: B019  # networks live as long as the process
    def operator(self, number: int, batch: int) -> Operator:
        """Return the operator with the index ``number`` at a batch."""
        return self.scale_operator(self.network.operators[number], batch)

    def scale_operator(self, operator: Operator, batch: int) -> Operator:
        """Scale an operator to a batch; return it unchanged if no tensor depends on the batch."""
        storages = {tensor.storage for tensor in (*operator.read_tensors, *operator.writes)}
        if storages <= self._fixed_storages:
            return operator
        return msgspec.structs.replace(
            operator,
            reads={name: self._scale_tensors(read, batch) for name, read in operator.reads.items()},
            settings={
                name: _scale_setting(value, batch, self.reduced_type)
                for name, value in operator.settings.items()
            },
            writes=self._scale_tensors(operator.writes, batch),
        )

    def scale_network(self, batch: int) -> Network:
        """Scale the whole network to a batch."""
        return msgspec.structs.replace(
            self.network,
            storages=self.sizes(batch),
            inputs=self._scale_tensors(self.network.inputs, batch),
            operators=tuple(self.operator(n, batch) for n in range(len(self.network.operators))),
        )

    def _scale_tensors(self, tensors: tuple[Tensor, ...], batch: int) -> tuple[Tensor, ...]:
        return tuple([self._scale_tensor(tensor, batch) for tensor in tensors])

    def _scale_tensor(self, tensor: Tensor, batch: int) -> Tensor:
        if tensor.storage in self._fixed_storages:
            return tensor
        return Tensor(
            tensor.storage,
            tuple([_scale_number(extent, batch) for extent in tensor.shape]),
            tuple([_scale_number(stride, batch) for stride in tensor.strides]),
            self.reduced_type if tensor.dtype == "bfloat16" else tensor.dtype,
            _scale_number(tensor.offset, batch),
        )


def _scale_number(number: int, batch: int) -> int:
    """Scale a captured number to a batch if it grows with the batch."""
    return number if number % CAPTURED_BATCH else number // CAPTURED_BATCH * batch


def _scale_setting(value: OperatorSetting, batch: int, reduced_type: str) -> OperatorSetting:
    """Scale the numbers of a setting to a batch; in text, replace the captured precision."""
    if isinstance(value, str):
        return value.replace("bfloat16", reduced_type)
    if isinstance(value, tuple):
        return tuple(_scale_number(n, batch) if type(n) is int else n for n in value)
    return _scale_number(value, batch) if type(value) is int else value


def signature(operator: Operator) -> object:
    """Return an operator's name, settings, shapes, strides and types, which determine its work."""
    reads = ((name, tuple(map(_layout_of, read))) for name, read in operator.reads.items())
    settings = tuple(operator.settings.items())
    return operator.name, tuple(reads), settings, tuple(map(_layout_of, operator.writes))


def _layout_of(tensor: Tensor) -> object:
    return tensor.shape, tensor.strides, tensor.dtype


def scales_to(network: Network, trial: Sequence[Operator], batch: int) -> bool:
    """Tell whether ``network`` scaled to ``batch`` has the operators of the pass ``trial``.

    ``trial`` is a forward pass that was captured at this batch.  In a step with several forward
    passes (accumulated gradients), the first pass is compared.
    """
    captured = CapturedNetwork(network)
    forward = [n for n, operator in enumerate(network.operators) if operator.phase == "forward"]
    if len(forward) % max(1, len(trial)):
        return False
    for number, operator in zip(forward, trial, strict=False):
        if signature(captured.operator(number, batch)) != signature(operator):
            return False
    return True


def capture_file(network: str, image: int) -> Path:
    """Return the file of a network on images with a side of ``image`` pixels."""
    return Path(__file__).parent / f"{network}-{image}.json.gz"


def load_capture(
    network: str, image: int, variant: Variant, *, like: Sequence[Layer] = ()
) -> CapturedNetwork | Missing:
    """Return a captured network, or the reason why it is missing.

    If ``like`` contains layers, the capture must have their number of parameters and multiply-adds.
    """
    capture = _cached_capture(network, image, variant)
    if capture is None:
        return Missing(f"{network} on images of {image} pixels: {_NOT_CAPTURED}")
    known = (capture.network.parameter_count, capture.multiply_adds_per_image)
    if like and _parameters_and_macs(tuple(like)) != known:
        return Missing(f"other layers of {network} ran than were captured")
    return capture


@lru_cache(maxsize=4096)
def _parameters_and_macs(layers: tuple[Layer, ...]) -> tuple[int, int]:
    """Return the number of parameters of layers, and the multiply-adds per image."""
    return sum(map(parameter_count, layers)), forward_macs(layers) // layers[0].input_shape[0]


@lru_cache(maxsize=128)
def _cached_capture(network: str, image: int, variant: Variant) -> CapturedNetwork | None:
    # Both reduced precisions run the same operators.
    stored = variant._replace(precision="bfloat16") if variant.precision == "float16" else variant
    file = _read(network, image)
    capture = None if file is None else file.variants.get(stored.key)
    return None if capture is None else CapturedNetwork(capture, variant.precision)


def layers_of(network: str, image: int, batch: int = 1) -> tuple[Layer, ...]:
    """Return the layers of a network; raise ``StudyError`` if the network was not captured."""
    file = _read(network, image)
    if file is None:
        raise StudyError(f"{network} on images of {image} pixels: {_NOT_CAPTURED}.")
    return at_batch(file.layers, batch)


@lru_cache(maxsize=32)
def _read(network: str, image: int) -> NetworkFile | None:
    file = capture_file(network, image)
    return _decoder.decode(gzip.decompress(file.read_bytes())) if file.is_file() else None
