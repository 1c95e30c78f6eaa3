"""Records as they lie in files: JSON with a line for each round.

Layers stand once, as those of one image, or, where the layers of one network differ in their
images, as they ran; networks refer to them by number, and cases to networks.  ``units`` gives the
unit of each quantity in the file: durations in whole nanoseconds are read as seconds.

Every fault is «field: what was found», the fields as ``cases[3].series.time[7]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.imported import IMPORT_SCHEMA, ImportedRecord, nullable
from report.records.layers import Extent, Layer, at_batch
from report.records.quantities import QUANTITIES
from report.records.record import (
    SCHEMA_VERSION,
    Case,
    Factor,
    Head,
    Measured,
    Record,
    Round,
    Sample,
    Text,
    in_seconds,
)

AnyRecord = TypeVar("AnyRecord", Record, ImportedRecord)
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
#: The layers of a network in their order: each one's name, and its number in ``layers``.
Network: TypeAlias = Annotated[tuple[tuple[str, Number], ...], msgspec.Meta(min_length=1)]
#: The layers of a case: the number of their network, and the images that they ran on.
Ref: TypeAlias = tuple[Number, Extent]
#: A case that went well: its levels, and a sample of each column, null where it has none.
Row: TypeAlias = tuple[tuple[Factor, ...], tuple[Sample | None, ...]]

REMEDY: Final = "restore the file with git, or run the experiment again"
IMPORT_AGAIN: Final = "restore the file with git, or import the published file again"


class _Ran(msgspec.Struct, frozen=True):
    """Which layers a case has in a file; none ran where it does not say."""

    layers: Ref | None = None


class _Tables(msgspec.Struct, frozen=True):
    """What a file says beside the fields of its record, and which layers its cases have.

    ``rows`` are cases before the others, with the same ``factors`` and at most one sample of each
    quantity of ``columns``: published tables that were imported until November 2026.
    """

    units: dict[str, Text]
    cases: tuple[_Ran, ...]
    layers: tuple[Layer, ...] = ()
    networks: tuple[Network, ...] = ()
    factors: tuple[Text, ...] = ()
    columns: tuple[Text, ...] = ()
    rows: tuple[Row, ...] = ()


# -------------------------------------------------------------------------------------- writing


def encode(record: Record | ImportedRecord) -> bytes:
    """The record as JSON, a line for each part that a person reads as one."""
    layers: dict[Layer, int] = {}
    networks: dict[tuple[tuple[str, int], ...], int] = {}
    ref = cache(lambda found: _ref(found, layers, networks))
    filed = []
    for case in record.cases:
        ordered = dict(sorted(case.factors.items()))
        plain = msgspec.to_builtins(msgspec.structs.replace(case, factors=ordered, layers=()))
        filed.append({**plain, "layers": ref(case.layers)} if case.layers else plain)
    names = sorted({name for series in _series(record.cases) for name in series})
    content = msgspec.to_builtins(msgspec.structs.replace(record, cases=()), order="deterministic")
    del content["cases"]
    content |= {
        "units": {name: QUANTITIES[name].unit for name in names},
        "layers": msgspec.to_builtins(tuple(layers)),
        "networks": tuple(networks),
        "cases": filed,
    }
    return f"{_laid_out(content)}\n".encode()


def _laid_out(part: Any, depth: int = 0) -> str:
    """JSON with a line for each object of a list, and for each member of what lies at the top."""
    line = "\n" + " " * depth
    if isinstance(part, list | tuple) and part and isinstance(part[0], dict):
        objects = f",{line} ".join(_laid_out(each, depth + 1) for each in part)
        return f"[{line} {objects}{line}]"
    if not isinstance(part, dict) or not part:
        return msgspec.json.encode(part).decode()
    members = [f"{_laid_out(name)}: {_laid_out(each, depth + 1)}" for name, each in part.items()]
    if depth < 2:
        return f"{{{line} {f',{line} '.join(members)}{line}}}"
    return f"{{{', '.join(members)}}}"


def _series(cases: Iterable[Case]) -> Iterator[Measured]:
    for case in cases:
        yield from case.all_series


def _ref(
    found: Sequence[Layer],
    layers: dict[Layer, int],
    networks: dict[tuple[tuple[str, int], ...], int],
) -> Ref:
    """How a case refers to its layers, which are added to those of the record if they are new."""
    batch = _batch(found)
    network = tuple(
        (layer.name, layers.setdefault(msgspec.structs.replace(layer, name=""), len(layers)))
        for layer in (found if batch is None else at_batch(found, 1))
    )
    return networks.setdefault(network, len(networks)), batch or 1


def _batch(layers: Iterable[Layer]) -> int | None:
    """The images that all layers have in their shapes; None where they differ."""
    found = {shape[0] for layer in layers for shape in (layer.input_shape, layer.output_shape)}
    return found.pop() if len(found) == 1 else None


# -------------------------------------------------------------------------------------- reading


def parse(text: bytes, place: str) -> Record:
    """Read one record from JSON.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, what was
    found and what to do.
    """
    return _parsed(text, Record, SCHEMA_VERSION, place, REMEDY)


def parse_import(text: bytes, place: str, remedy: str = IMPORT_AGAIN) -> ImportedRecord:
    """Read one record of others; raises ``RecordError`` as ``parse`` does."""
    return _parsed(text, ImportedRecord, IMPORT_SCHEMA, place, remedy)


def parse_head(text: bytes, place: str) -> Head:
    """Read what a list of records tells of one; raises ``RecordError`` as ``parse`` does."""
    try:
        return strict.parse_json(text, Head, place, REMEDY)
    except RecordError:
        _content(text, SCHEMA_VERSION, place, REMEDY)
        raise


def _content(text: bytes, known: int, place: str, remedy: str) -> Any:
    """What a file says; raises ``RecordError`` for another version than the ``known`` one."""
    content = strict.parse_json(text, dict[str, Any], place, remedy)
    stated = content.get("schema")
    if type(stated) is int and stated != known:
        newer = stated > known
        what = "update ridgepoint to build from it" if newer else "run the experiment again"
        than = f"{'newer' if newer else 'older'} than {known}, the only one that is read here"
        raise RecordError(f"{place}: schema: found version {stated}, {than}; {what}.")
    return content


@strict.no_cycles()
def _parsed(text: bytes, kind: type[AnyRecord], version: int, place: str, remedy: str) -> AnyRecord:
    content = _content(text, version, place, remedy)
    tables = strict.converted(content, _Tables, place, remedy)
    strict.refuse_first(_table_faults(tables), place, remedy)
    for name in set(_Tables.__struct_fields__) - {"cases"}:
        content.pop(name, None)
    for case in content["cases"]:
        case.pop("layers", None)
    filed = strict.converted(content, kind, place, remedy)
    record = msgspec.structs.replace(filed, cases=_whole(filed.cases, tables))
    strict.refuse_first(_faults(record, tables.units), place, remedy)
    return record


def _whole(filed: Sequence[Case], tables: _Tables) -> tuple[Case, ...]:
    """All cases in seconds with their layers; those of the same layers share them."""
    cases = (*_of_rows(tables), *filed)
    nano = {name for name, unit in tables.units.items() if unit == "ns"}
    for series in _series(cases):
        series |= {name: in_seconds(series[name]) for name in nano & series.keys()}
    layers = cache(lambda ref: _layers(ref, tables))
    refs = (*[None] * len(tables.rows), *(case.layers for case in tables.cases))
    return tuple(
        msgspec.structs.replace(case, layers=layers(ref)) if ref else case
        for case, ref in zip(cases, refs, strict=True)
    )


def _layers(ref: Ref, tables: _Tables) -> tuple[Layer, ...]:
    network, batch = ref
    layers = tuple(
        msgspec.structs.replace(tables.layers[number], name=name)
        for name, number in tables.networks[network]
    )
    return layers if batch == 1 else at_batch(layers, batch)


def _of_rows(tables: _Tables) -> Iterator[Case]:
    for levels, samples in tables.rows:
        columns = zip(tables.columns, samples, strict=True)
        yield Case(
            factors=dict(zip(tables.factors, levels, strict=True)),
            series={name: (sample,) for name, sample in columns if sample is not None},
        )


# -------------------------------------------------------------------------- what is contradictory


def _table_faults(tables: _Tables) -> Iterator[str]:
    """What refers to nothing in a file, so that no record can be made of it."""
    for index, network in enumerate(tables.networks):
        if beyond := [number for _, number in network if number >= len(tables.layers)]:
            there = f"the record has {len(tables.layers)}"
            yield f"networks[{index}]: found layer {beyond[0]}, but {there}"
    plain = [_batch(tables.layers[n] for _, n in network) == 1 for network in tables.networks]
    for index, case in enumerate(tables.cases):
        number, batch = case.layers or (0, 1)
        where = f"cases[{index}].layers"
        if case.layers and number >= len(plain):
            yield f"{where}: found network {number}, but the record has {len(plain)}"
        elif batch > 1 and not plain[number]:
            of = f"the layers of networks[{number}] are not those of one image"
            yield f"{where}: found {batch} images, but {of}"
    for index, (levels, samples) in enumerate(tables.rows):
        if (len(levels), len(samples)) != (len(tables.factors), len(tables.columns)):
            yield f"rows[{index}]: found another number of cells than of columns"


def _faults(record: Record | ImportedRecord, units: Mapping[str, str]) -> Iterator[str]:
    """What the types cannot say."""
    for name, unit in units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            yield f"units.{name}: found a name that is no quantity of report/records/quantities.py"
        elif unit not in (("s", "ns") if quantity.unit == "s" else (quantity.unit,)):
            yield f"units.{name}: measured in {quantity.unit}, found {unit!r}"
    for name in sorted({name for series in _series(record.cases) for name in series}):
        if name not in units:
            yield f"units.{name}: this field is missing"
    yield from _own_faults(record) if isinstance(record, Record) else _import_faults(record)
    names = (attachment.name for attachment in record.attachments)
    if twice := strict.repeated(("record.json", *names)):
        yield f"attachments: found the name {twice} twice"
    seen: dict[frozenset[tuple[str, Factor]], int] = {}
    for index, case in enumerate(record.cases):
        where = f"cases[{index}]"
        yield from _outcome_faults(case, where)
        for number, round_ in enumerate(case.rounds):
            yield from _outcome_faults(round_, f"{where}.rounds[{number}]")
        measured = {(round_.policy, round_.process) for round_ in case.rounds}
        if len(measured) < len(case.rounds):
            yield f"{where}.rounds: found the same process twice under one policy"
        # 1 and 1.0 are the same level, as for a study that looks a case up.
        first = seen.setdefault(frozenset(case.factors.items()), index)
        if first != index:
            yield f"{where}.factors: found the same combination as in cases[{first}]"


def _own_faults(record: Record) -> Iterator[str]:
    if record.finished < record.started:
        yield f"finished: expected a moment after {record.started}, found {record.finished}"
    environment = record.environment
    if (environment.gpu is None) != (environment.device == "cpu"):
        found = "null" if environment.gpu is None else environment.gpu.model
        yield f"environment.gpu: found {found}, which does not fit device {environment.device!r}"
    if record.shard is not None and record.shard.number > record.shard.of:
        yield f"shard.number: expected at most {record.shard.of}, found {record.shard.number}"


def _import_faults(record: ImportedRecord) -> Iterator[str]:
    """Also what is null without a reason, or has a reason although it is known."""
    for name, value in nullable(record).items():
        if value is None and name not in record.missing:
            yield f"missing: found no reason why {name} is null"
        if value is not None and name in record.missing:
            yield f"missing.{name}: found a reason for what is not null"
    shared = {name for case in record.cases for name in case.factors} & record.conditions.keys()
    for name in sorted(shared):
        yield f"conditions.{name}: found a name that is a factor of cases too"


def _outcome_faults(found: Case | Round, where: str) -> Iterator[str]:
    if found.status == "ok" and found.reason is not None:
        yield f"{where}.reason: found {found.reason!r}, but what is ok has null here"
    if found.status != "ok" and found.reason is None:
        yield f"{where}.reason: found null, but what is {found.status} needs a reason"
    for name, samples in found.series.items():
        quantity = QUANTITIES[name]
        if not quantity.admits(samples):
            index = next(i for i, sample in enumerate(samples) if not quantity.admits((sample,)))
            place = f"{where}.series.{name}[{index}]"
            yield f"{place}: {name} is {quantity.range}, found {samples[index]}"
