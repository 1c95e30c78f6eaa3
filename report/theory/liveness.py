"""What a forward pass must hold at each layer, and its peak: liveness from the layers' shapes.

Eager PyTorch without gradients frees a tensor when nothing refers to it any more.  While a layer
runs, these are alive: parameters and the network's input, which the caller holds; what the layer
reads and writes; what later layers read (a residual block's input); the arguments of the modules
around it, which their calls keep until they return; and what the layer's own implementation
allocates (``theory.workspaces``).  All of it follows from the layers of a record and the conditions
of the run, nothing from the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from report.errors import StudyError
from report.missing import Missing
from report.records.layers import (
    ELEMENT_BYTES,
    Activation,
    BatchNorm,
    Convolution,
    Dropout,
    Flatten,
    Layer,
    Linear,
)
from report.theory.dataflow import NETWORK_INPUT, callers, sources
from report.theory.memory import element_bytes, output_bytes
from report.theory.reconciliation import Reconciliation, Term
from report.theory.shapes import elements, parameter_count
from report.theory.terms import SHAPES
from report.theory.workspaces import (
    WORKSPACES,
    Conditions,
    largest,
    moments,
    unknown_workspace,
)

PARAMETERS: Final = "Parameters"
STATISTICS: Final = "Running statistics"
INPUT: Final = "Network input"
READ: Final = "Layer input"
WRITTEN: Final = "Layer output"
LATER: Final = "Held for later layers"
PENDING: Final = "Output not yet allocated"
CALLERS: Final = "Held by calling modules"
WEIGHT_CASTS: Final = "Casts of parameters"
INPUT_CAST: Final = "Cast of the input"

_ORDER: Final = "order of the layers"
_AUTOCAST: Final = "cached until autocast ends"
#: Mean and variance a channel in float32, and the number of batches seen as one int64.
_COUNTER_BYTES: Final = ELEMENT_BYTES["int64"]
_FLOAT_BYTES: Final = ELEMENT_BYTES["float32"]
#: The activations that torch can compute in place of their input.
_IN_PLACE: Final = frozenset({"relu", "relu6", "silu", "hardswish"})


@dataclass(frozen=True)
class Held:
    """What is alive while one layer runs, at its largest moment (B).

    ``terms`` always have the same names in the same order, 0 where there is nothing.  ``needed``
    are parameters, the network's input, and the tensors that this layer or a later one reads or
    writes: what no way of computing layer by layer can do without.  ``complete`` is false where the
    layer takes a workspace of unknown size, which is then left out.
    """

    layer: str
    terms: tuple[Term, ...]
    needed: int
    complete: bool

    @property
    def total(self) -> int:
        """All bytes."""
        return sum(term.amount for term in self.terms)

    def amount(self, name: str) -> int:
        """The bytes of one term; raises ``StudyError`` for a name that is none."""
        for term in self.terms:
            if term.name == name:
                return term.amount
        raise StudyError(
            f"layer {self.layer}: no part of its memory is called {name!r}; the parts are "
            f"{', '.join(term.name for term in self.terms)}."
        )


def held(layers: Sequence[Layer], conditions: Conditions) -> tuple[Held, ...]:
    """What is alive at each layer, in their order."""
    places, resident = _places(layers, conditions)
    return tuple(_held_at(place, resident) for place in places)


def peaks(layers: Sequence[Layer], conditions: Conditions) -> tuple[Held, Held]:
    """Where most is alive and where most is needed, each the first of equals.

    The latter is a lower bound of what computing layer by layer takes.  Much quicker than all that
    ``held`` tells; raises ``StudyError`` for a network without layers.
    """
    if not layers:
        raise StudyError("peak memory: a network without layers has none; give its layers.")
    places, resident = _places(layers, conditions)
    most = max(places, key=lambda place: place.total), max(places, key=lambda place: place.needed)
    return _held_at(most[0], resident), _held_at(most[1], resident)


def peak(layers: Sequence[Layer], conditions: Conditions) -> Held:
    """The layer at which most is alive, the first of equals; raises ``StudyError`` if none."""
    return peaks(layers, conditions)[0]


def reconciled_peak(id: str, subject: str, at: Held, measured: Term | Missing) -> Reconciliation:
    """From the parameters, by what else is alive at the peak, to the bytes that were measured."""
    start, *terms = at.terms
    return Reconciliation(id, subject, "B", start, tuple(terms), measured)


def _in_type(layer: Layer, conditions: Conditions) -> Layer:
    """The layer with activations in the type that autocast computes in."""
    if conditions.autocast is None:
        return layer
    return msgspec.structs.replace(layer, dtype=conditions.autocast)


def _storages(
    layers: Sequence[Layer], read: Sequence[tuple[int, ...]], conditions: Conditions
) -> tuple[int, ...]:
    """For each layer the number of the one that allocated what its output lies in."""
    stored: list[int] = []
    for number, layer in enumerate(layers):
        if _allocates(layer, conditions):
            stored.append(number)
        else:
            source = read[number][0]
            stored.append(source if source == NETWORK_INPUT else stored[source])
    return tuple(stored)


def _allocates(layer: Layer, conditions: Conditions) -> bool:
    """Whether a layer has memory of its own for its output.

    Dropout does nothing in inference; a flatten is a view, but of a channels-last map, whose
    elements must change their order, it is a copy.
    """
    match layer:
        case Dropout():
            return False
        case Activation():
            return not (conditions.in_place and layer.function in _IN_PLACE)
        case Flatten():
            mixed = len(layer.input_shape) == 4 and layer.input_shape[1] > 1
            return (
                conditions.layout == "channels_last"
                and mixed
                and elements(layer.input_shape[2:]) > 1
            )
        case _:
            return True


class _Own(NamedTuple):
    """What a layer takes by itself, whatever its name: parameters, and sizes in bytes.

    ``workspaces`` are those of its largest moment, at which its output is there or is not.
    """

    parameters: int
    element: int
    output: int
    workspaces: tuple[Term, ...]
    taken: int
    with_output: bool
    complete: bool


class _Place(NamedTuple):
    """A layer in its network, with the bytes of all that is alive around it, each counted once.

    What was in memory before the call is left out.
    """

    name: str
    own: _Own
    read: int
    written: int
    later: int
    calling: int
    weights: int
    source: int

    @property
    def needed(self) -> int:
        """The bytes of tensors that this layer or a later one reads or writes."""
        return self.read + self.written + self.later

    @property
    def pending(self) -> int:
        """The output, less than 0, where it is not live at the layer's largest moment."""
        return 0 if self.own.with_output else -self.written

    @property
    def total(self) -> int:
        """All bytes."""
        extra = self.calling + self.weights + self.source + self.own.taken
        return self.needed + self.pending + extra


def _places(
    layers: Sequence[Layer], conditions: Conditions
) -> tuple[tuple[_Place, ...], tuple[Term, ...]]:
    """The layers in their order, and what was in memory before the call.

    Networks have hundreds of layers, so that nothing here looks at all of them for each.
    """
    chain = tuple(_in_type(layer, conditions) for layer in layers)
    own, read = _each_own(chain, conditions), sources(chain)
    around = _around(chain, own, read, _storages(chain, read, conditions))
    casts = _casts(chain, own, read, conditions)
    places = tuple(
        _Place(layer.name, takes, *tensors, *copies)
        for layer, takes, tensors, copies in zip(chain, own, around, casts, strict=True)
    )
    return places, _resident(chain, own, conditions)


def _each_own(layers: Sequence[Layer], conditions: Conditions) -> list[_Own]:
    """What each layer takes, computed once for layers that differ in nothing but their names."""
    known: dict[Layer, _Own] = {}
    found = []
    for layer in layers:
        nameless = msgspec.structs.replace(layer, name="")
        if nameless not in known:
            known[nameless] = _own(layer, conditions)
        found.append(known[nameless])
    return found


def _own(layer: Layer, conditions: Conditions) -> _Own:
    moment = largest(layer, moments(layer, conditions))
    workspaces = _workspaces(moment.terms)
    return _Own(
        parameters=parameter_count(layer),
        element=element_bytes(layer),
        output=output_bytes(layer),
        workspaces=workspaces,
        taken=sum(term.amount for term in workspaces),
        with_output=moment.with_output,
        complete=not unknown_workspace(layer, conditions),
    )


def _resident(
    layers: Sequence[Layer], own: Sequence[_Own], conditions: Conditions
) -> tuple[Term, ...]:
    """What was in memory before the call."""
    sized = conditions.autocast is not None
    parameters = sum(of.parameters * (_FLOAT_BYTES if sized else of.element) for of in own)
    statistics = sum(
        2 * layer.input_shape[1] * _FLOAT_BYTES + _COUNTER_BYTES
        for layer in layers
        if isinstance(layer, BatchNorm)
    )
    first = layers[0] if layers else None
    size = 0
    if first is not None:
        size = elements(first.input_shape) * (_FLOAT_BYTES if sized else own[0].element)
    return (
        Term(PARAMETERS, parameters, "sum of weights and biases", SHAPES),
        Term(STATISTICS, statistics, "sum of 2 · C · 4 B + 8 B a batch norm", SHAPES),
        Term(INPUT, size, "N · C · H · W elements", SHAPES),
    )


def _held_at(place: _Place, resident: tuple[Term, ...]) -> Held:
    needed = (
        *resident,
        Term(READ, place.read, "tensors that the layer reads", _ORDER),
        Term(WRITTEN, place.written, "output elements", _ORDER),
        Term(LATER, place.later, "tensors that later layers read", _ORDER),
    )
    terms = (
        *needed,
        Term(PENDING, place.pending, "−output while it is not live", _ORDER),
        Term(CALLERS, place.calling, "arguments of the modules around it", _ORDER),
        Term(WEIGHT_CASTS, place.weights, "weights and biases of layers so far", _AUTOCAST),
        Term(INPUT_CAST, place.source, "N · C · H · W elements", "freed with the layer"),
        *place.own.workspaces,
    )
    total = sum(term.amount for term in needed)
    return Held(place.name, terms, needed=total, complete=place.own.complete)


def _around(
    layers: Sequence[Layer],
    own: Sequence[_Own],
    read: Sequence[tuple[int, ...]],
    stored: Sequence[int],
) -> Iterator[tuple[int, int, int, int]]:
    """For each layer the bytes that it reads and writes, that later layers read, and the rest.

    The rest is what only the modules around it hold.  The network's input is counted by itself.
    """
    sizes = {number: of.output for number, of in enumerate(own)} | {NETWORK_INPUT: 0}
    inputs = [{_storage(source, stored) for source in of} for of in read]
    each = zip(inputs, _read_later(inputs), _held_by_callers(layers, stored), strict=True)
    for number, (of, after, calling) in enumerate(each):
        later = after - of
        written = sizes[number] if stored[number] == number else 0
        others = calling - of - later
        yield _size(of, sizes), written, _size(later, sizes), _size(others, sizes)


def _size(storages: set[int], sizes: dict[int, int]) -> int:
    return sum(sizes[storage] for storage in storages)


def _storage(source: int, stored: Sequence[int]) -> int:
    return source if source == NETWORK_INPUT else stored[source]


def _read_later(inputs: Sequence[set[int]]) -> Iterator[set[int]]:
    """For each layer the storages from before it that a layer after it reads."""
    last = {storage: number for number, of in enumerate(inputs) for storage in of}
    alive = {NETWORK_INPUT}
    for number in range(len(inputs)):
        alive = {storage for storage in alive if last.get(storage, number) > number}
        yield alive
        alive = alive | {number}


def _held_by_callers(layers: Sequence[Layer], stored: Sequence[int]) -> list[set[int]]:
    """For each layer the storages that the modules around it were called with."""
    found: list[set[int]] = [set() for _ in layers]
    for caller in callers(layers):
        for number in range(caller.argument + 1, caller.last + 1):
            found[number].add(_storage(caller.argument, stored))
    return found


def _casts(
    layers: Sequence[Layer],
    own: Sequence[_Own],
    read: Sequence[tuple[int, ...]],
    conditions: Conditions,
) -> Iterator[tuple[int, int]]:
    """What autocast copies: parameters of every layer so far, once; the float32 input, each time.

    ``aten/src/ATen/autocast_mode.cpp``, ``cached_cast``: casts of parameters that require
    gradients are kept until autocast ends, also without gradients.
    """
    weights = 0
    for layer, takes, of in zip(layers, own, read, strict=True):
        source = 0
        if conditions.autocast is not None and isinstance(layer, Convolution | Linear):
            weights += takes.parameters * takes.element
            if NETWORK_INPUT in of:
                source = elements(layer.input_shape) * takes.element
        yield weights, source


#: What stands for a workspace that a layer does not take.
_NO_WORKSPACE: Final = {name: Term(name, 0, "0", SHAPES) for name in WORKSPACES}


def _workspaces(found: Sequence[Term]) -> tuple[Term, ...]:
    """Every kind of workspace in one order, with 0 for what the layer does not take."""
    named = _NO_WORKSPACE | {term.name: term for term in found}
    return tuple(named[name] for name in WORKSPACES)
