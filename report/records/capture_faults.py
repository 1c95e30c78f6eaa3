"""What is wrong with captured operators: numbers of what is not there, tensors that cannot be."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

from report.records.operations import ITEM_BYTES

if TYPE_CHECKING:
    from report.records.captures import Capture, Captures, OperatorForm, Place, TensorForm
    from report.records.record import Case


def capture_faults(captures: Captures, cases: Iterable[Case]) -> Iterator[str]:
    """Every fault with its field, as ``operations.networks[0].calls[7]: what was found``."""
    for number, form in enumerate(captures.tensors):
        yield from _form_faults(form, f"operations.tensors[{number}]")
    forms = range(len(captures.tensors))
    for number, row in enumerate(captures.operators):
        numbers = chain(*row.reads.values(), row.writes)
        yield from _lacking(numbers, forms, f"operations.operators[{number}]", "tensor")
    for number, resident in enumerate(captures.residents):
        places = (*resident.parameters.values(), *resident.buffers.values(), *resident.state)
        yield from _place_faults(places, forms, f"operations.residents[{number}]")
    tensors = tuple(map(_tensors, captures.operators))
    for number, capture in enumerate(captures.networks):
        yield from _network_faults(capture, captures, tensors, f"operations.networks[{number}]")
    networks = range(len(captures.networks))
    for index, case in enumerate(cases):
        # Told here that it is right, since records have very many cases.
        if case.operations is not None and case.operations.capture not in networks:
            where = f"cases[{index}].operations"
            yield from _lacking([case.operations.capture], networks, where, "capture")


def _form_faults(form: TensorForm, where: str) -> Iterator[str]:
    if form.dtype not in ITEM_BYTES:
        yield f"{where}: found the type {form.dtype!r}, which is none of {', '.join(ITEM_BYTES)}"
    if form.strides is not None and len(form.strides) != len(form.shape):
        yield f"{where}: found {len(form.strides)} strides of {len(form.shape)} extents"


def _lacking(numbers: Iterable[int], there: range, where: str, what: str) -> Iterator[str]:
    for number in numbers:
        if number not in there:
            yield f"{where}: found {what} {number}, but the record has {len(there)}"


def _place_faults(places: Iterable[Place], forms: range, where: str) -> Iterator[str]:
    yield from _lacking((place.form for place in places), forms, where, "tensor")


def _network_faults(
    capture: Capture, captures: Captures, tensors: Sequence[int], where: str
) -> Iterator[str]:
    """Faults of a capture, whose storages are numbered from 0 on and let go once.

    ``tensors`` is how many each operator reads and writes.
    """
    yield from _place_faults(capture.inputs, range(len(captures.tensors)), where)
    lacking = [*_lacking([capture.resident], range(len(captures.residents)), where, "resident")]
    yield from lacking
    if lacking:
        return
    before = captures.residents[capture.resident]
    places = (*before.parameters.values(), *before.buffers.values(), *before.state)
    alive = {place.storage for place in (*places, *capture.inputs)}
    known, operators = set(alive), range(len(captures.operators))
    for number, call in enumerate(capture.calls):
        if call.operator not in operators:
            at = f"{where}.calls[{number}]"
            yield from _lacking([call.operator], operators, at, "operator")
            continue
        if len(call.storages) != tensors[call.operator]:
            of = f"{captures.operators[call.operator].name} has {tensors[call.operator]}"
            yield f"{where}.calls[{number}]: found {len(call.storages)} storages, but {of}"
        if not alive.issuperset(call.freed):
            gone = next(storage for storage in call.freed if storage not in alive)
            yield f"{where}.calls[{number}]: found storage {gone} let go, which is not there"
        # In place, since a call touches a few of the hundreds that are there.
        alive.difference_update(call.freed)
        alive.update(call.storages)
        known.update(call.storages)
    yield from _storage_faults(capture.sizes, known, where)


def _tensors(row: OperatorForm) -> int:
    return sum(map(len, row.reads.values())) + len(row.writes)


def _storage_faults(
    sizes: Mapping[int, object], known: Collection[int], where: str
) -> Iterator[str]:
    if unknown := [storage for storage in sizes if storage not in known]:
        yield f"{where}.sizes: found storage {unknown[0]}, in which no tensor lies"
    elif known and max(known) >= len(known):
        yield f"{where}: found storage {max(known)}, but they are {len(known)}"
