"""What a forward pass must hold at each layer, and its peak: liveness from the layers' shapes.

Eager PyTorch without gradients frees a tensor when nothing refers to it any more.  While a layer
runs, these are alive: parameters and the network's input, which the caller holds; what the layer
reads and writes; what later layers read (a residual block's input); the arguments of the modules
around it, which their calls keep until they return; and what the layer's own implementation
allocates (``report.workspaces``).  All of it follows from the layers of a record and the conditions
of the run, nothing from the measurement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from report.dataflow import NETWORK_INPUT, callers, sources
from report.errors import StudyError
from report.layers import (
    ELEMENT_BYTES,
    Activation,
    BatchNorm,
    Convolution,
    Dropout,
    Flatten,
    Layer,
    Linear,
)
from report.memory import element_bytes, output_bytes
from report.missing import Missing
from report.reconciliation import Reconciliation, Term
from report.shapes import elements, parameter_count
from report.terms import SHAPES
from report.workspaces import (
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
    chain = tuple(_in_type(layer, conditions) for layer in layers)
    read = sources(chain)
    resident = _resident(chain, conditions)
    # Networks have hundreds of layers, so that nothing here looks at all of them for each.
    tensors = _tensors(chain, read, _storages(chain, read, conditions))
    casts = _casts(chain, read, conditions)
    return tuple(
        _held_at(layer, around, copies, resident, conditions)
        for layer, around, copies in zip(chain, tensors, casts, strict=True)
    )


def peak(layers: Sequence[Layer], conditions: Conditions) -> Held:
    """The layer at which most is alive, the first of equals; raises ``StudyError`` if none."""
    if not layers:
        raise StudyError("peak memory: a network without layers has none; give its layers.")
    return max(held(layers, conditions), key=lambda at: at.total)


def needed_peak(layers: Sequence[Layer], conditions: Conditions) -> Held:
    """The layer at which most is needed: a lower bound of what computing layer by layer takes."""
    if not layers:
        raise StudyError("needed memory: a network without layers has none; give its layers.")
    return max(held(layers, conditions), key=lambda at: at.needed)


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


def _resident(layers: Sequence[Layer], conditions: Conditions) -> tuple[Term, ...]:
    """What was in memory before the call."""
    sized = conditions.autocast is not None
    parameters = sum(
        parameter_count(layer) * (_FLOAT_BYTES if sized else element_bytes(layer))
        for layer in layers
    )
    statistics = sum(
        2 * layer.input_shape[1] * _FLOAT_BYTES + _COUNTER_BYTES
        for layer in layers
        if isinstance(layer, BatchNorm)
    )
    first = layers[0] if layers else None
    size = 0
    if first is not None:
        element = _FLOAT_BYTES if sized else element_bytes(first)
        size = elements(first.input_shape) * element
    return (
        Term(PARAMETERS, parameters, "sum of weights and biases", SHAPES),
        Term(STATISTICS, statistics, "sum of 2 · C · 4 B + 8 B a batch norm", SHAPES),
        Term(INPUT, size, "N · C · H · W elements", SHAPES),
    )


class _Tensors(NamedTuple):
    """The bytes of the tensors that are alive around one layer, each counted once."""

    read: int
    written: int
    later: int
    calling: int


def _held_at(
    layer: Layer,
    around: _Tensors,
    casts: tuple[Term, Term],
    resident: tuple[Term, ...],
    conditions: Conditions,
) -> Held:
    moment = largest(layer, moments(layer, conditions))
    needed = (
        *resident,
        Term(READ, around.read, "tensors that the layer reads", _ORDER),
        Term(WRITTEN, around.written, "output elements", _ORDER),
        Term(LATER, around.later, "tensors that later layers read", _ORDER),
    )
    pending = -around.written * (not moment.with_output)
    terms = (
        *needed,
        Term(PENDING, pending, "−output while it is not live", _ORDER),
        Term(CALLERS, around.calling, "arguments of the modules around it", _ORDER),
        *casts,
        *_workspaces(moment.terms),
    )
    return Held(
        layer.name,
        terms,
        needed=sum(term.amount for term in needed),
        complete=not unknown_workspace(layer, conditions),
    )


def _tensors(
    layers: Sequence[Layer], read: Sequence[tuple[int, ...]], stored: Sequence[int]
) -> Iterator[_Tensors]:
    """The tensors around each layer; the network's input is counted by itself."""
    sizes = {number: output_bytes(layer) for number, layer in enumerate(layers)}
    sizes[NETWORK_INPUT] = 0
    inputs = [{_storage(source, stored) for source in of} for of in read]
    around = zip(inputs, _read_later(inputs), _held_by_callers(layers, stored), strict=True)
    for number, (of, after, calling) in enumerate(around):
        later = after - of
        yield _Tensors(
            read=sum(sizes[storage] for storage in of),
            written=sizes[number] if stored[number] == number else 0,
            later=sum(sizes[storage] for storage in later),
            calling=sum(sizes[storage] for storage in calling - of - later),
        )


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
    layers: Sequence[Layer], read: Sequence[tuple[int, ...]], conditions: Conditions
) -> Iterator[tuple[Term, Term]]:
    """What autocast copies: parameters of every layer so far, once; the float32 input, each time.

    ``aten/src/ATen/autocast_mode.cpp``, ``cached_cast``: casts of parameters that require
    gradients are kept until autocast ends, also without gradients.
    """
    weights = 0
    for layer, of in zip(layers, read, strict=True):
        source = 0
        if conditions.autocast is not None and isinstance(layer, Convolution | Linear):
            weights += parameter_count(layer) * element_bytes(layer)
            if NETWORK_INPUT in of:
                source = elements(layer.input_shape) * element_bytes(layer)
        yield (
            Term(WEIGHT_CASTS, weights, "weights and biases of layers so far", _AUTOCAST),
            Term(INPUT_CAST, source, "N · C · H · W elements", "freed with the layer"),
        )


#: What stands for a workspace that a layer does not take.
_NO_WORKSPACE: Final = {name: Term(name, 0, "0", SHAPES) for name in WORKSPACES}


def _workspaces(found: Sequence[Term]) -> tuple[Term, ...]:
    """Every kind of workspace in one order, with 0 for what the layer does not take."""
    named = _NO_WORKSPACE | {term.name: term for term in found}
    return tuple(named[name] for name in WORKSPACES)
