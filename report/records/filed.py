"""The record as it lies in a file: JSON in which nothing stands twice, a line for each round.

Layers stand once, as those of one image; networks refer to them by number, and cases to networks.
``units`` gives the unit of each quantity in the file: durations that are whole nanoseconds are
written as such, and read as the same floats in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Final, TypeAlias, TypeVar

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.faults import faults
from report.records.layers import Extent, Layer
from report.records.quantities import QUANTITIES
from report.records.record import (
    SCHEMA_VERSION,
    Case,
    Ceiling,
    Head,
    Measured,
    Measurement,
    Outcome,
    Record,
    Sample,
    Text,
)

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
#: The layers of a network in their order: each one's name, and its number in ``layers``.
Network: TypeAlias = Annotated[tuple[tuple[str, Number], ...], msgspec.Meta(min_length=1)]

Kind = TypeVar("Kind")
AnyCase = TypeVar("AnyCase", bound=Outcome)

REMEDY: Final = "restore the file with git, or run the experiment again"
_VERSION: Final = re.compile(rb'\s*\{\s*"schema":\s*([0-9]{1,9})\s*,')
_NANO: Final = 1e9
#: Whole numbers of nanoseconds up to here are floats too, so that dividing them rounds only once.
_LARGEST_NANO: Final = 2**53


class LayersRef(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The layers of a case: those of ``networks[network]`` at ``batch`` images."""

    network: Number
    batch: Extent


class FiledCase(Measurement, frozen=True, kw_only=True):
    """A case in a file; ``layers`` is absent where none ran."""

    layers: LayersRef | None = None


class FiledRecord(Head, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A record in a file.

    ``layers`` are as of one image, or, where the layers of one network differ in their images, as
    they ran.
    """

    units: dict[str, Text]
    ceilings: tuple[Ceiling, ...]
    layers: tuple[Layer, ...]
    networks: tuple[Network, ...]
    cases: tuple[FiledCase, ...]


# -------------------------------------------------------------------------------------- writing


def encode(record: Record) -> bytes:
    """The record as JSON, a line for each part that a person reads as one."""
    units = _units(record.cases)
    layers: dict[Layer, int] = {}
    networks: dict[Network, int] = {}
    # By identity, since cases share their layers and comparing all of them would take long.
    known = {id(case.layers): case.layers for case in record.cases}
    refs = {key: _ref(found, layers, networks) for key, found in known.items()}
    nano = _in_nano(units)
    cases = tuple(
        _scaled(case, FiledCase, refs[id(case.layers)], nano, _nano) for case in record.cases
    )
    return laid_out(
        fields_of(record, Head)
        | {
            "units": units,
            "ceilings": tuple(map(_filed_ceiling, record.ceilings)),
            "layers": tuple(layers),
            "networks": tuple(networks),
            "cases": cases,
        }
    )


def fields_of(record: msgspec.Struct, kind: type[msgspec.Struct]) -> dict[str, object]:
    """The fields of ``kind`` in a record, but for its cases."""
    return {name: getattr(record, name) for name in kind.__struct_fields__ if name != "cases"}


def laid_out(members: Mapping[str, object]) -> bytes:
    """A file's text: a line for each member at the top, and for each of what these hold."""
    lines = (f'"{name}": {_lines(part)}' for name, part in members.items())
    return ("{\n " + ",\n ".join(lines) + "\n}\n").encode()


def _lines(part: object) -> str:
    if isinstance(part, tuple) and part and not isinstance(part[0], str):
        return "[\n  " + ",\n  ".join(map(_one_line, part)) + "\n ]"
    if isinstance(part, msgspec.Struct):
        fields = msgspec.to_builtins(part, order="deterministic").items()
        members = (f'"{name}": {_compact(value)}' for name, value in fields)
        return "{\n  " + ",\n  ".join(members) + "\n }"
    return _compact(part)


def _one_line(part: object) -> str:
    """One part of a list; of a case, a line for each of its rounds."""
    if not isinstance(part, FiledCase) or not part.rounds:
        return _compact(part)
    rounds = ",\n   ".join(map(_compact, part.rounds))
    plain = _compact(msgspec.structs.replace(part, rounds=()))
    return f'{plain[:-1]},"rounds":[\n   {rounds}\n  ]}}'


def _compact(part: object) -> str:
    return msgspec.json.encode(part).decode()


def _units(cases: Iterable[Case]) -> dict[str, str]:
    """The unit of each quantity in the file: nanoseconds where all its samples are whole ones."""
    units: dict[str, str] = {}
    for case in cases:
        for name, samples in case.all_series:
            unit = units.setdefault(name, "ns" if QUANTITIES[name].unit == "s" else "")
            if unit == "ns" and not _is_nano(samples):
                units[name] = "s"
    return {name: units[name] or QUANTITIES[name].unit for name in sorted(units)}


def _is_nano(samples: Sequence[Sample]) -> bool:
    """Whether whole nanoseconds are read as exactly these samples (s)."""
    return all(
        0 <= sample * _NANO <= _LARGEST_NANO and round(sample * _NANO) / _NANO == sample
        for sample in samples
    )


def _filed_ceiling(ceiling: Ceiling) -> Ceiling:
    if not _is_nano(ceiling.samples):
        return ceiling
    return msgspec.structs.replace(ceiling, samples=_nano(ceiling.samples), unit="ns")


def _in_nano(units: Mapping[str, str]) -> frozenset[str]:
    return frozenset(name for name, unit in units.items() if unit == "ns")


def _scaled(
    case: Case | FiledCase,
    kind: Callable[..., AnyCase],
    layers: object,
    nano: Collection[str],
    scale: Callable[[Iterable[Sample]], tuple[Sample, ...]],
) -> AnyCase:
    """The case as one of the other ``kind``, its quantities ``nano`` in the other unit."""

    def measured(found: Measured) -> Measured:
        return {name: scale(s) if name in nano else s for name, s in found.items()}

    rounds = (msgspec.structs.replace(r, series=measured(r.series)) for r in case.rounds)
    return kind(
        factors=dict(sorted(case.factors.items())),
        status=case.status,
        reason=case.reason,
        layers=layers,
        series=measured(case.series),
        rounds=tuple(rounds),
    )


def _nano(samples: Iterable[Sample]) -> tuple[int, ...]:
    return tuple([round(sample * _NANO) for sample in samples])


def _ref(
    found: Sequence[Layer], layers: dict[Layer, int], networks: dict[Network, int]
) -> LayersRef | None:
    """How a case refers to its layers, which are added to those of the record if they are new."""
    if not found:
        return None
    batch = _batch(found)
    network = tuple(
        (layer.name, layers.setdefault(msgspec.structs.replace(layer, name=""), len(layers)))
        for layer in (found if batch is None else _at_batch(found, 1))
    )
    return LayersRef(networks.setdefault(network, len(networks)), batch or 1)


def _batch(layers: Iterable[Layer]) -> int | None:
    """The images that all layers have in their shapes; None where they differ."""
    found = {shape[0] for layer in layers for shape in (layer.input_shape, layer.output_shape)}
    return found.pop() if len(found) == 1 else None


def _at_batch(layers: Sequence[Layer], batch: int) -> tuple[Layer, ...]:
    return tuple(
        msgspec.structs.replace(
            layer,
            input_shape=(batch, *layer.input_shape[1:]),
            output_shape=(batch, *layer.output_shape[1:]),
        )
        for layer in layers
    )


# -------------------------------------------------------------------------------------- reading


def parse(text: bytes, place: str) -> Record:
    """Read one record from JSON.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, what was
    found and what to do.
    """
    with strict.no_cycles():
        filed = decoded(text, FiledRecord, SCHEMA_VERSION, place, REMEDY)
        strict.refuse_first(_faults(filed), place, REMEDY)
        record = _whole(filed)
        strict.refuse_first(faults(record), place, REMEDY)
    return record


def parse_head(text: bytes, place: str) -> Head:
    """Read what a list of records tells of one; raises ``RecordError`` as ``parse`` does."""
    return decoded(text, Head, SCHEMA_VERSION, place, REMEDY, quick=True)


def decoded(
    text: bytes, kind: type[Kind], known: int, place: str, remedy: str, *, quick: bool = False
) -> Kind:
    """What a file of the ``known`` version holds, as a ``kind``; ``quick`` as in ``parse_json``.

    Raises ``RecordError`` as ``parse`` does, and for another version.
    """
    stated = _VERSION.match(text)
    if stated and int(stated[1]) != known:
        newer = int(stated[1]) > known
        what = "update ridgepoint to build from it" if newer else "run the experiment again"
        than = f"{'newer' if newer else 'older'} than {known}, the only one that is read here"
        raise RecordError(f"{place}: schema: found version {int(stated[1])}, {than}; {what}.")
    return strict.parse_json(text, kind, place, remedy, quick=quick)


def _faults(filed: FiledRecord) -> Iterator[str]:
    """What refers to nothing in a file, so that no record can be made of it."""
    yield from unit_faults(filed.units, filed.cases, ("s", "ns"))
    for index, network in enumerate(filed.networks):
        if beyond := [number for _, number in network if number >= len(filed.layers)]:
            yield (
                f"networks[{index}]: found layer {beyond[0]}, but the record has "
                f"{len(filed.layers)}"
            )
    plain = [_batch(filed.layers[n] for _, n in network) == 1 for network in filed.networks]
    for index, case in enumerate(filed.cases):
        ref, where = case.layers, f"cases[{index}].layers"
        if ref and ref.network >= len(plain):
            yield f"{where}: found network {ref.network}, but the record has {len(plain)}"
        elif ref and ref.batch > 1 and not plain[ref.network]:
            yield (
                f"{where}: found {ref.batch} images, but the layers of networks[{ref.network}] are "
                "not those of one image"
            )


def unit_faults(
    units: Mapping[str, str], cases: Iterable[Measurement], of_durations: Collection[str]
) -> Iterator[str]:
    """What is wrong with the ``units`` of a file, in which durations have one ``of_durations``."""
    for name, unit in units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            yield f"units.{name}: found a name that is no quantity of report/records/quantities.py"
        elif unit not in (of_durations if quantity.unit == "s" else (quantity.unit,)):
            yield f"units.{name}: measured in {quantity.unit}, found {unit!r}"
    for name in sorted({name for case in cases for name, _ in case.all_series} - units.keys()):
        yield f"units.{name}: this field is missing"


def _whole(filed: FiledRecord) -> Record:
    """The record in memory; cases of the same layers share them."""
    nano = _in_nano(filed.units)
    refs = {case.layers for case in filed.cases}
    layers = {ref: _layers(ref, filed) if ref else () for ref in refs}
    return Record(
        **fields_of(filed, Head),  # type: ignore[arg-type]
        ceilings=tuple(map(_ceiling, filed.ceilings)),
        cases=tuple(
            _scaled(case, Case, layers[case.layers], nano, _seconds) for case in filed.cases
        ),
    )


def _ceiling(filed: Ceiling) -> Ceiling:
    if filed.unit == "s":
        return filed
    return msgspec.structs.replace(filed, samples=_seconds(filed.samples), unit="s")


def _seconds(samples: Iterable[Sample]) -> tuple[float, ...]:
    return tuple([sample / _NANO for sample in samples])


def _layers(ref: LayersRef, filed: FiledRecord) -> tuple[Layer, ...]:
    layers = tuple(
        msgspec.structs.replace(filed.layers[number], name=name)
        for name, number in filed.networks[ref.network]
    )
    return layers if ref.batch == 1 else _at_batch(layers, ref.batch)
