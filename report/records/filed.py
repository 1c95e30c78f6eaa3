"""The record as it lies in a file: JSON in which nothing stands twice, a line for each round.

Layers stand once, as those of one image; networks refer to them by number, and cases to networks.
``units`` gives the unit of each quantity in the file: durations that are whole nanoseconds are
written as such, and read as the same floats in seconds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Final, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.faults import faults
from report.records.layers import Extent, Layer
from report.records.quantities import QUANTITIES
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Case,
    Ceiling,
    Factors,
    Head,
    Outcome,
    Policy,
    Reason,
    Record,
    Repeats,
    Round,
    Sample,
    Series,
    Status,
    Text,
    Whole,
)

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
#: Samples of each quantity, in the unit that ``units`` gives for it.
Measured: TypeAlias = dict[str, tuple[Sample, ...]]
#: The layers of a network in their order: each one's name, and its number in ``layers``.
Network: TypeAlias = Annotated[tuple[tuple[str, Number], ...], msgspec.Meta(min_length=1)]

Kind = TypeVar("Kind", bound=msgspec.Struct)
OnDisk = TypeVar("OnDisk")
InMemory = TypeVar("InMemory")

REMEDY: Final = "restore the file with git, or run the experiment again"
_VERSION: Final = re.compile(rb'\s*\{\s*"schema":\s*([0-9]{1,9})\s*,')
_NANO: Final = 1e9
#: Whole numbers of nanoseconds up to here are floats too, so that dividing them rounds only once.
_LARGEST_NANO: Final = 2**53


class _Filed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of a file; no other field is allowed."""


class LayersRef(_Filed, frozen=True, array_like=True, kw_only=False):
    """The layers of a case: those of ``networks[network]`` at ``batch`` images."""

    network: Number
    batch: Extent


class FiledRound(_Filed, frozen=True, kw_only=True, omit_defaults=True):
    """One process's measurement of a case; it went well where nothing else is said."""

    process: Repeats
    policy: Policy | None
    status: Status = "ok"
    reason: Reason | None = None
    disturbance: Reason | None = None
    series: Measured


class FiledCase(_Filed, frozen=True, kw_only=True, omit_defaults=True):
    """One combination of factors with its outcome; it went well where nothing else is said.

    ``layers`` is absent where none ran, ``series`` and ``rounds`` where nothing was measured so.
    """

    factors: Factors
    status: Status = "ok"
    reason: Reason | None = None
    layers: LayersRef | None = None
    series: Measured = {}
    rounds: tuple[FiledRound, ...] = ()


class FiledCeiling(Ceiling, frozen=True, kw_only=True, omit_defaults=True):
    """A measured peak; its samples are durations in ``unit``."""

    unit: Literal["s", "ns"]


class FiledRecord(Whole, frozen=True, kw_only=True):
    """One invocation of one experiment on one machine.

    ``layers`` are as of one image, or, where the layers of one network differ in their images, as
    they ran.
    """

    attachments: tuple[Attachment, ...]
    units: dict[str, Text]
    ceilings: tuple[FiledCeiling, ...]
    layers: tuple[Layer, ...]
    networks: tuple[Network, ...]
    cases: tuple[FiledCase, ...]


class _Listed(Head, frozen=True, kw_only=True):
    """Head and outcomes in one look at the text, most of which is neither."""

    cases: tuple[Outcome, ...]


_decoder = msgspec.json.Decoder(FiledRecord)
_listed = msgspec.json.Decoder(_Listed)
_head = msgspec.json.Decoder(Head)


# -------------------------------------------------------------------------------------- writing


def encode(record: Record) -> bytes:
    """The record as JSON, a line for each part that a person reads as one."""
    units = units_of(record.cases)
    layers: dict[Layer, int] = {}
    networks: dict[Network, int] = {}
    # By identity, since cases share their layers and comparing all of them would take long.
    known = {id(case.layers): case.layers for case in record.cases}
    refs = {key: _ref(found, layers, networks) for key, found in known.items()}
    cases = tuple(filed_case(case, units, refs[id(case.layers)]) for case in record.cases)
    return laid_out(
        alike(
            FiledRecord,
            record,
            units=units,
            ceilings=tuple(map(_filed_ceiling, record.ceilings)),
            cases=cases,
            layers=tuple(layers),
            networks=tuple(networks),
        )
    )


def alike(kind: type[Kind], part: msgspec.Struct, **others: Any) -> Kind:
    """A ``kind`` with the fields of ``part``, but for ``others``."""
    same = (name for name in kind.__struct_fields__ if name not in others)
    return kind(**{name: getattr(part, name) for name in same}, **others)


def laid_out(filed: msgspec.Struct) -> bytes:
    """A file's text: a line for each member at the top, and for each of what these hold."""
    members = (f'"{name}": {_lines(getattr(filed, name))}' for name in filed.__struct_fields__)
    return ("{\n " + ",\n ".join(members) + "\n}\n").encode()


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
    return (
        f'{_compact(msgspec.structs.replace(part, rounds=()))[:-1]},"rounds":[\n   {rounds}\n  ]}}'
    )


def _compact(part: object) -> str:
    return msgspec.json.encode(part).decode()


def units_of(cases: Iterable[Case]) -> dict[str, str]:
    """The unit of each quantity in the file: nanoseconds where all its samples are whole ones."""
    series = [each for case in cases for each in case.all_series]
    units = {each.quantity: each.unit for each in series}
    inexact = {each.quantity for each in series if not _is_nano(each.samples)}
    return {
        name: "ns" if unit == "s" and name not in inexact else unit
        for name, unit in sorted(units.items())
    }


def _is_nano(samples: Sequence[Sample]) -> bool:
    """Whether whole nanoseconds are read as exactly these samples (s)."""
    return all(
        0 <= sample * _NANO <= _LARGEST_NANO and round(sample * _NANO) / _NANO == sample
        for sample in samples
    )


def _filed_ceiling(ceiling: Ceiling) -> FiledCeiling:
    if _is_nano(ceiling.samples):
        return alike(FiledCeiling, ceiling, samples=_nano(ceiling.samples), unit="ns")
    return alike(FiledCeiling, ceiling, unit="s")


def filed_case(case: Case, units: Mapping[str, str], layers: LayersRef | None) -> FiledCase:
    """A case as it lies in a file with these ``units``."""
    return alike(
        FiledCase,
        case,
        factors=dict(sorted(case.factors.items())),
        layers=layers,
        series=_measured(case.series, units),
        rounds=tuple(
            alike(FiledRound, round_, series=_measured(round_.series, units))
            for round_ in case.rounds
        ),
    )


def _measured(series: Iterable[Series], units: Mapping[str, str]) -> Measured:
    found: Measured = {}
    for each in series:
        if each.quantity in found:
            raise ValueError(f"found the quantity {each.quantity} twice")
        nano = units[each.quantity] == "ns"
        found[each.quantity] = _nano(each.samples) if nano else each.samples
    return found


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


def _batch(layers: Sequence[Layer]) -> int | None:
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
    return read_filed(text, place, REMEDY, _decoder, SCHEMA_VERSION, _record, faults)


def read_filed(
    text: bytes,
    place: str,
    remedy: str,
    decoder: msgspec.json.Decoder[OnDisk],
    version: int,
    assemble: Callable[[OnDisk], InMemory],
    faults_of: Callable[[InMemory], Iterable[str]],
) -> InMemory:
    """What ``assemble`` makes of a file that ``decoder`` reads, if nothing is wrong with either.

    ``assemble`` raises ``ContentError``; raises ``RecordError`` as ``parse`` does.
    """
    with strict.no_cycles():
        check_version(text, place, version)
        filed = strict.parse_json(text, decoder.decode, place, remedy)
        strict.refuse_repeated_keys(text, place, remedy)
        try:
            record = assemble(filed)
        except ContentError as error:
            raise RecordError(f"{place}: {error}; {remedy}.") from error
        strict.refuse_first(faults_of(record), place, remedy)
    return record


class ContentError(ValueError):
    """What a file says cannot be read: «field: what was found»."""


class Listing(NamedTuple):
    """What a list of records tells of one."""

    head: Head
    outcomes: tuple[Outcome, ...]


def parse_listing(text: bytes, place: str) -> Listing:
    """Read the head of a record, and how each of its cases ended.

    There are no outcomes where the cases are wrong: only whether a record is used needs them to be
    right, and is told by who uses it.  Raises ``RecordError`` for a wrong head as ``parse`` does.
    """
    try:
        both = _listed.decode(text)
    except strict.NO_JSON:
        check_version(text, place, SCHEMA_VERSION)
        return Listing(strict.parse_json(text, _head.decode, place, REMEDY), ())
    return Listing(alike(Head, both), both.cases)


def check_version(text: bytes, place: str, known: int) -> None:
    """Raise ``RecordError`` for a file that begins with another version than the ``known`` one."""
    stated = _VERSION.match(text)
    if stated and int(stated[1]) != known:
        newer = int(stated[1]) > known
        what = "update ridgepoint to build from it" if newer else "run the experiment again"
        than = f"{'newer' if newer else 'older'} than {known}, the only one that is read here"
        raise RecordError(f"{place}: schema: found version {int(stated[1])}, {than}; {what}.")


def _record(filed: FiledRecord) -> Record:
    """The record in memory; cases of the same layers share them.  Raises ``ContentError``."""
    units = known_units(filed.units)
    known: dict[LayersRef | None, tuple[Layer, ...]] = {None: ()}
    cases = []
    for index, case in enumerate(filed.cases):
        if case.layers is not None and case.layers not in known:
            known[case.layers] = _layers(case.layers, filed, f"cases[{index}].layers")
        cases.append(whole_case(case, units, known[case.layers], f"cases[{index}]"))
    return alike(
        Record,
        filed,
        ceilings=tuple(
            _ceiling(each, f"ceilings[{index}]") for index, each in enumerate(filed.ceilings)
        ),
        cases=tuple(cases),
    )


def known_units(units: Mapping[str, str]) -> Mapping[str, str]:
    """The ``units`` of a file, checked; raises ``ContentError``."""
    for name, unit in units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            raise ContentError(
                f"units.{name}: found a name that is no quantity of report/records/quantities.py"
            )
        if unit != quantity.unit and (unit, quantity.unit) != ("ns", "s"):
            raise ContentError(f"units.{name}: measured in {quantity.unit}, found {unit!r}")
    return units


def whole_case(
    case: FiledCase, units: Mapping[str, str], layers: tuple[Layer, ...], where: str
) -> Case:
    """A case of a file with these ``units``; raises ``ContentError``."""
    return alike(
        Case,
        case,
        layers=layers,
        series=_series(case.series, units, f"{where}.series"),
        rounds=tuple(
            alike(
                Round,
                round_,
                series=_series(round_.series, units, f"{where}.rounds[{index}].series"),
            )
            for index, round_ in enumerate(case.rounds)
        ),
    )


def _series(measured: Measured, units: Mapping[str, str], where: str) -> tuple[Series, ...]:
    if missing := measured.keys() - units.keys():
        raise ContentError(f"{where}.{min(missing)}: found a quantity that is not in units")
    return tuple(
        Series(quantity=name, unit="s", samples=_seconds(samples, f"{where}.{name}"))
        if units[name] == "ns"
        else Series(quantity=name, unit=units[name], samples=samples)
        for name, samples in measured.items()
    )


def _seconds(samples: tuple[Sample, ...], where: str) -> tuple[Sample, ...]:
    try:
        return tuple([sample / _NANO for sample in samples])
    except OverflowError:
        raise ContentError(f"{where}: found a number of more than 64 bits") from None


def _ceiling(filed: FiledCeiling, where: str) -> Ceiling:
    nano = filed.unit == "ns"
    samples = _seconds(filed.samples, f"{where}.samples") if nano else filed.samples
    return alike(Ceiling, filed, samples=samples)


def _layers(ref: LayersRef, filed: FiledRecord, where: str) -> tuple[Layer, ...]:
    """The layers to which a case refers; raises ``ContentError`` where there are none."""
    if ref.network >= len(filed.networks):
        raise ContentError(
            f"{where}: found network {ref.network}, but the record has {len(filed.networks)}"
        )
    network = filed.networks[ref.network]
    if missing := [number for _, number in network if number >= len(filed.layers)]:
        raise ContentError(
            f"networks[{ref.network}]: found layer {missing[0]}, but the record has "
            f"{len(filed.layers)}"
        )
    layers = tuple(
        msgspec.structs.replace(filed.layers[number], name=name) for name, number in network
    )
    if ref.batch == 1:
        return layers
    if _batch(layers) != 1:
        raise ContentError(
            f"{where}: found {ref.batch} images, but the layers of networks[{ref.network}] are not "
            "those of one image"
        )
    return _at_batch(layers, ref.batch)
