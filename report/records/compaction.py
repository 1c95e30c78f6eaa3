"""Makes the captures of a record of networks: what is the same in several stands once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec

from report.errors import StudyError
from report.records.captures import (
    Amount,
    Call,
    Capture,
    CaptureRef,
    Captures,
    Layout,
    OperatorForm,
    Place,
    Resident,
    TensorForm,
    all_tensors,
    dense_strides,
    expanded,
    first_sizes,
)
from report.records.operations import Network, Operator, Tensor

Item = TypeVar("Item")


class Ran(NamedTuple):
    """What tells captures apart: a network with its images, its batch and layout."""

    network: str
    batch: int
    layout: Layout


def compact(networks: Mapping[Ran, Network]) -> tuple[Captures, dict[Ran, CaptureRef]]:
    """The captures of a record, and what of them each that ran refers to.

    A capture is made of the same call at two batches, and serves all others that it gives back as
    they were.  Raises ``StudyError`` for a network that it cannot give back.
    """
    captures, refs = Captures(), dict[Ran, CaptureRef]()
    left = {ran: canonical(network) for ran, network in networks.items()}
    while left:
        first = max(left, key=lambda ran: (ran.batch, ran.layout))
        same = [ran for ran in left if (ran.network, ran.layout) == (first.network, first.layout)]
        second = min(same, key=lambda ran: ran.batch)
        for other in (second, first):
            tried = _with(captures, first, left[first], other, left[other])
            covered = {} if tried is None else _covered(tried, first.network, left)
            if tried is not None and first in covered:
                break
        else:
            raise StudyError(f"{first.network}: its operators do not come back as captured.")
        captures, refs = tried, refs | covered
        left = {ran: network for ran, network in left.items() if ran not in covered}
    return captures, refs


def _covered(
    captures: Captures, network: str, wanted: Mapping[Ran, Network]
) -> dict[Ran, CaptureRef]:
    """What of ``wanted`` the newest capture gives back."""
    found = {}
    for ran, expected in wanted.items():
        ref = CaptureRef(len(captures.networks) - 1, ran.batch, ran.layout)
        if ran.network == network and expanded(captures, ref) == expected:
            found[ran] = ref
    return found


def canonical(network: Network) -> Network:
    """The same network as it comes back: arguments by name, and no storages that nothing names."""
    used = {tensor.storage for tensor in all_tensors(network)}
    used |= {storage for operator in network.operators for storage in operator.freed}
    numbers = {storage: number for number, storage in enumerate(sorted(used))}

    def renumbered(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(msgspec.structs.replace(t, storage=numbers[t.storage]) for t in tensors)

    def by_name(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        names = sorted(tensors)
        return dict(zip(names, renumbered(tensors[name] for name in names), strict=True))

    return Network(
        storages=tuple(network.storages[storage] for storage in numbers),
        parameters=by_name(network.parameters),
        buffers=by_name(network.buffers),
        inputs=renumbered(network.inputs),
        state=renumbered(network.state),
        operators=tuple(
            msgspec.structs.replace(
                operator,
                reads={name: renumbered(operator.reads[name]) for name in sorted(operator.reads)},
                settings=dict(sorted(operator.settings.items())),
                writes=renumbered(operator.writes),
                made=tuple(numbers[storage] for storage in operator.made),
                freed=tuple(numbers[storage] for storage in operator.freed),
            )
            for operator in network.operators
        ),
    )


def _with(
    captures: Captures, ran: Ran, network: Network, other: Ran, like: Network
) -> Captures | None:
    """``captures`` and one more, of the same call at two batches; None where they are unlike."""
    writer = _Writer(captures, ran, other)
    try:
        return writer.added(network, like)
    except _UnlikeError:
        return None


class _UnlikeError(Exception):
    """Two calls of a network differ in more than the number of images."""


class _Writer:
    """Numbers forms and operators while a capture is made of two batches of a call."""

    def __init__(self, captures: Captures, ran: Ran, other: Ran) -> None:
        self._captures, self._ran, self._other = captures, ran, other
        self._forms = {form: number for number, form in enumerate(captures.tensors)}
        self._rows = {_key(row): number for number, row in enumerate(captures.operators)}
        self._operators = list(captures.operators)

    def added(self, network: Network, like: Network) -> Captures:
        """The captures with one of ``network``; raises ``_UnlikeError``."""
        sizes = first_sizes(network), first_sizes(like)
        given = {
            storage: self._amount(size, other)
            for storage, (size, other) in enumerate(_pairs(network.storages, like.storages))
            if (size, other) != (sizes[0].get(storage), sizes[1].get(storage))
        }
        resident = Resident(
            parameters=self._named(network.parameters, like.parameters),
            buffers=self._named(network.buffers, like.buffers),
            state=self._places(network.state, like.state),
        )
        residents = self._captures.residents
        if resident not in residents:
            residents = (*residents, resident)
        capture = Capture(
            network=self._ran.network,
            resident=residents.index(resident),
            inputs=self._places(network.inputs, like.inputs),
            sizes=given,
            calls=tuple(self._call(*both) for both in _pairs(network.operators, like.operators)),
        )
        return Captures(
            tensors=tuple(self._forms),
            operators=tuple(self._operators),
            residents=residents,
            networks=(*self._captures.networks, capture),
        )

    def _amount(self, number: int, other: int) -> Amount:
        if number == other:
            return number
        each, rest = divmod(number, self._ran.batch)
        if rest or each * self._other.batch != other:
            raise _UnlikeError
        return f"{each}N"

    def _setting(self, value: Any, other: Any) -> Any:
        if isinstance(value, tuple) and isinstance(other, tuple):
            return tuple(self._setting(*both) for both in _pairs(value, other))
        if type(value) is int and type(other) is int:
            return self._amount(value, other)
        if (type(value), value) != (type(other), other):
            raise _UnlikeError
        return value

    def _form(self, tensor: Tensor, other: Tensor) -> int:
        layout = self._ran.layout
        dense = all(each.strides == dense_strides(each.shape, layout) for each in (tensor, other))
        form = TensorForm(
            dtype=tensor.dtype,
            shape=tuple(self._amount(*both) for both in _pairs(tensor.shape, other.shape)),
            strides=None
            if dense
            else tuple(self._amount(*both) for both in _pairs(tensor.strides, other.strides)),
        )
        return self._forms.setdefault(form, len(self._forms))

    def _places(self, tensors: Sequence[Tensor], others: Sequence[Tensor]) -> tuple[Place, ...]:
        return tuple(Place(t.storage, self._form(t, o)) for t, o in _pairs(tensors, others))

    def _named(self, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Place]:
        return dict(zip(tensors, self._places([*tensors.values()], [*like.values()]), strict=True))

    def _call(self, operator: Operator, like: Operator) -> Call:
        def forms(tensors: Sequence[Tensor], others: Sequence[Tensor]) -> tuple[int, ...]:
            return tuple(self._form(*both) for both in _pairs(tensors, others))

        row = OperatorForm(
            name=operator.name,
            phase=operator.phase,
            reads={
                name: forms(operator.reads[name], like.reads[name])
                for name, _ in _pairs([*operator.reads], [*like.reads])
            },
            settings={
                name: self._setting(value, like.settings[name])
                for name, value in operator.settings.items()
            },
            writes=forms(operator.writes, like.writes),
            updates=operator.updates,
        )
        number = self._rows.setdefault(_key(row), len(self._operators))
        if number == len(self._operators):
            self._operators.append(row)
        tensors = chain(*operator.reads.values(), operator.writes)
        return Call(number, operator.module, tuple(t.storage for t in tensors), operator.freed)


def _key(row: OperatorForm) -> bytes:
    """An operator as text, since its arguments stand in mappings."""
    return msgspec.json.encode(row)


def _pairs(ours: Sequence[Item], theirs: Sequence[Item]) -> Iterator[tuple[Item, Item]]:
    """Both side by side; raises ``_UnlikeError`` where they are not as many."""
    if len(ours) != len(theirs):
        raise _UnlikeError
    return zip(ours, theirs, strict=True)
