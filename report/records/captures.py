"""The operators of a record's cases as they lie in its file: every row once, for any batch.

The form of a tensor, an operator and the calls of a network stand once in a record and are referred
to by number.  What grows with the images is written as a number of images (``"64N"``), and strides
that are dense in the layout of the case are left out, so that one capture serves all batches of a
network, and where nothing else differs both layouts.  ``records.compaction`` makes captures of
networks, ``expanded`` a network of a capture.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from report.records.operations import Network, Operator, Phase, Tensor

Layout: TypeAlias = Literal["contiguous", "channels_last"]
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
#: A number, or so many for each image.
Amount: TypeAlias = Number | Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,17}N$")]
_PER_IMAGE: Final = re.compile(r"[1-9][0-9]{0,17}N")
Scalar: TypeAlias = int | float | bool | str | None


class _Filed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of a file."""


class TensorForm(_Filed, frozen=True, array_like=True, kw_only=False):
    """Type, extents, and strides in elements; null where those are dense in the case's layout."""

    dtype: str
    shape: tuple[Amount, ...]
    strides: tuple[Amount, ...] | None


class OperatorForm(_Filed, frozen=True, omit_defaults=True):
    """An operator with the numbers of its tensors' forms, as ``Operator`` names its parts."""

    name: str
    phase: Phase
    reads: dict[str, tuple[Number, ...]]
    settings: dict[str, Scalar | tuple[Scalar | tuple[Scalar, ...], ...]]
    writes: tuple[Number, ...]
    updates: tuple[str, ...] = ()


class Place(_Filed, frozen=True, array_like=True, kw_only=False):
    """A tensor: the storage that it lies in, and its form."""

    storage: Number
    form: Number


class Call(_Filed, frozen=True, array_like=True, kw_only=False):
    """An operator's number, its module, the storages of what it reads and writes, and those freed.

    They stand in the order of the operator's arguments, then of its results.
    """

    operator: Number
    module: str
    storages: tuple[Number, ...]
    freed: tuple[Number, ...]


class Resident(_Filed, frozen=True):
    """What is in memory before a network is called, but its inputs, as ``Network`` names it."""

    parameters: dict[str, Place]
    buffers: dict[str, Place]
    state: tuple[Place, ...]


class Capture(_Filed, frozen=True):
    """A network's calls in order; ``sizes`` are those of storages larger than their first tensor.

    ``network`` names it with its images and what was done, for a person; ``resident`` is the number
    of what was there before.
    """

    network: str
    resident: Number
    inputs: tuple[Place, ...]
    sizes: dict[Number, Amount]
    calls: tuple[Call, ...]


class Captures(_Filed, frozen=True):
    """All of a record: what its captures share, and they themselves."""

    tensors: tuple[TensorForm, ...] = ()
    operators: tuple[OperatorForm, ...] = ()
    residents: tuple[Resident, ...] = ()
    networks: tuple[Capture, ...] = ()


class CaptureRef(_Filed, frozen=True):
    """What a case ran: a capture at so many images, in a layout."""

    capture: Number
    batch: Annotated[int, msgspec.Meta(ge=1)]
    layout: Layout


def expanded(captures: Captures, ref: CaptureRef) -> Network:
    """The operators of a case; ``captures`` are those of a record that was read without fault."""
    capture = captures.networks[ref.capture]
    resident = captures.residents[capture.resident]
    forms = tuple(_tensor_of(form, ref) for form in captures.tensors)

    def placed(place: Place) -> Tensor:
        return msgspec.structs.replace(forms[place.form], storage=place.storage)

    network = Network(
        storages=(),
        operators=(),
        parameters={name: placed(place) for name, place in resident.parameters.items()},
        buffers={name: placed(place) for name, place in resident.buffers.items()},
        inputs=tuple(map(placed, capture.inputs)),
        state=tuple(map(placed, resident.state)),
    )
    operators = tuple(_operators(captures, capture, forms, ref.batch, all_tensors(network)))
    network = msgspec.structs.replace(network, operators=operators)
    given = {storage: _number(size, ref.batch) for storage, size in capture.sizes.items()}
    sizes = {**first_sizes(network), **given}
    storages = tuple(sizes[number] for number in range(len(sizes)))
    return msgspec.structs.replace(network, storages=storages)


def _tensor_of(form: TensorForm, ref: CaptureRef) -> Tensor:
    shape = tuple(_number(extent, ref.batch) for extent in form.shape)
    if form.strides is None:
        strides = dense_strides(shape, ref.layout)
    else:
        strides = tuple(_number(stride, ref.batch) for stride in form.strides)
    return Tensor(0, shape, strides, form.dtype)


def _number(amount: Amount, batch: int) -> int:
    return amount if isinstance(amount, int) else int(amount[:-1]) * batch


def _setting(value: Any, batch: int) -> Any:
    if isinstance(value, tuple):
        return tuple(_setting(each, batch) for each in value)
    grows = isinstance(value, str) and _PER_IMAGE.fullmatch(value)
    return _number(value, batch) if grows else value


def dense_strides(shape: tuple[int, ...], layout: Layout) -> tuple[int, ...]:
    """The strides of a tensor without gaps; of maps and filters the channels may be last."""
    last = layout == "channels_last" and len(shape) == 4
    order = (1, 3, 2, 0) if last else tuple(reversed(range(len(shape))))
    strides, following = [0] * len(shape), 1
    for place in order:
        strides[place] = following
        following *= max(shape[place], 1)
    return tuple(strides)


def _operators(
    captures: Captures,
    capture: Capture,
    forms: Sequence[Tensor],
    batch: int,
    before: Iterable[Tensor],
) -> Iterator[Operator]:
    """The calls as operators; what they make are the storages that they are the first to write."""
    seen = {tensor.storage for tensor in before}
    for call in capture.calls:
        row, storages = captures.operators[call.operator], iter(call.storages)

        def placed(numbers: Iterable[int], of: Iterator[int] = storages) -> tuple[Tensor, ...]:
            return tuple(msgspec.structs.replace(forms[n], storage=next(of)) for n in numbers)

        reads = {name: placed(numbers) for name, numbers in row.reads.items()}
        writes = placed(row.writes)
        seen |= {tensor.storage for found in reads.values() for tensor in found}
        made = tuple(dict.fromkeys(t.storage for t in writes if t.storage not in seen))
        seen |= set(made)
        yield Operator(
            name=row.name,
            module=call.module,
            phase=row.phase,
            reads=reads,
            settings={n: _setting(value, batch) for n, value in row.settings.items()},
            writes=writes,
            updates=row.updates,
            made=made,
            freed=call.freed,
        )


def all_tensors(network: Network) -> Iterator[Tensor]:
    """All tensors, those that are there before the first operator first."""
    yield from chain(network.parameters.values(), network.buffers.values())
    yield from chain(network.inputs, network.state)
    for operator in network.operators:
        yield from chain(*operator.reads.values(), operator.writes)


def first_sizes(network: Network) -> dict[int, int]:
    """The bytes of the first tensor in each storage."""
    sizes: dict[int, int] = {}
    for tensor in all_tensors(network):
        sizes.setdefault(tensor.storage, tensor.bytes)
    return sizes
