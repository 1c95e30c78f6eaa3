"""Records as they lie in files: JSON in which nothing stands twice, a line for each round.

Layers stand once, as those of one image, or, where the layers of one network differ in their
images, as they ran; networks refer to them by number, and cases to networks.  ``units`` gives the
unit of each quantity in the file: durations that are whole nanoseconds are written as such, and
read as the same floats in seconds.

Every fault is «field: what was found», the fields as ``cases[3].series.time[7]``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.imported import IMPORT_SCHEMA, ImportedRecord, nullable
from report.records.layers import Extent, Layer
from report.records.quantities import QUANTITIES
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Case,
    Ceiling,
    Factor,
    Head,
    Measured,
    Record,
    Round,
    Sample,
    Text,
)

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
#: The layers of a network in their order: each one's name, and its number in ``layers``.
Network: TypeAlias = Annotated[tuple[tuple[str, Number], ...], msgspec.Meta(min_length=1)]
#: The layers of a case: the number of their network, and the images that they ran on.
Ref: TypeAlias = tuple[Number, Extent]

REMEDY: Final = "restore the file with git, or run the experiment again"
IMPORT_AGAIN: Final = "restore the file with git, or import the published file again"
_NANO: Final = 1e9
#: Whole numbers of nanoseconds up to here are floats too, so that dividing them rounds only once.
_LARGEST_NANO: Final = 2**53


class _Ran(msgspec.Struct, frozen=True):
    """Which layers a case has in a file; none ran where it does not say."""

    layers: Ref | None = None


class _Tables(msgspec.Struct, frozen=True):
    """What a file says apart from the fields of its record, and which layers its cases have."""

    units: dict[str, Text]
    layers: tuple[Layer, ...]
    networks: tuple[Network, ...]
    cases: tuple[_Ran, ...]

    @property
    def nano(self) -> frozenset[str]:
        """The quantities in whole nanoseconds."""
        return frozenset(name for name, unit in self.units.items() if unit == "ns")


class _Rows(msgspec.Struct, frozen=True):
    """The table of a published file, which has a thousand rows of the same columns.

    A row is a case that went well: its levels of ``factors``, and a sample of each quantity of
    ``columns``, null where it has none.  They come before the other cases.
    """

    units: dict[str, Text]
    factors: tuple[Text, ...] = ()
    columns: tuple[Text, ...] = ()
    rows: tuple[tuple[tuple[Factor, ...], tuple[Sample | None, ...]], ...] = ()


# -------------------------------------------------------------------------------------- writing


def encode(record: Record) -> bytes:
    """The record as JSON, a line for each part that a person reads as one."""
    units = _units(record.cases)
    layers: dict[Layer, int] = {}
    networks: dict[tuple[tuple[str, int], ...], int] = {}
    # By identity, since cases share their layers and comparing all of them would take long.
    known = {id(case.layers): case.layers for case in record.cases if case.layers}
    refs = {key: _ref(found, layers, networks) for key, found in known.items()}
    cases = tuple(_case(case, refs.get(id(case.layers)), units) for case in record.cases)
    tables = {
        "units": units,
        "ceilings": tuple(map(_filed_ceiling, record.ceilings)),
        "layers": tuple(layers),
        "networks": tuple(networks),
    }
    return _laid_out(record, tables, cases)


def encode_import(record: ImportedRecord) -> bytes:
    """The same for a record of others."""
    names = sorted({name for series in _series(record.cases) for name in series})
    units = {name: QUANTITIES[name].unit for name in names}
    cases = tuple(_case(case, None, units) for case in record.cases)
    return _laid_out(record, {"units": units}, cases)


def _case(case: Case, ref: Ref | None, units: Mapping[str, str]) -> dict[str, Any]:
    """A case as it stands in a file, its durations in the unit that they have there."""
    ordered = dict(sorted(case.factors.items()))
    plain: dict[str, Any] = msgspec.to_builtins(
        msgspec.structs.replace(case, factors=ordered, layers=())
    )
    for series in (plain.get("series", {}), *(r["series"] for r in plain.get("rounds", ()))):
        series |= {name: _nano(s) for name, s in series.items() if units[name] == "ns"}
    return plain | ({"layers": ref} if ref else {})


def _laid_out(
    record: Record | ImportedRecord, tables: Mapping[str, object], cases: tuple[Any, ...]
) -> bytes:
    """A file's text: a line for each member at the top, and for each of what these hold."""
    rest = set(record.__struct_fields__) - {*tables, "cases"}
    plain = {name: getattr(record, name) for name in record.__struct_fields__ if name in rest}
    members = {**plain, **tables, "cases": cases}
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
    if not isinstance(part, dict) or "rounds" not in part:
        return _compact(part)
    rounds = ",\n   ".join(map(_compact, part["rounds"]))
    plain = _compact({name: value for name, value in part.items() if name != "rounds"})
    return f'{plain[:-1]},"rounds":[\n   {rounds}\n  ]}}'


def _compact(part: object) -> str:
    return msgspec.json.encode(part).decode()


def _series(cases: Iterable[Case]) -> Iterator[Measured]:
    for case in cases:
        yield from case.all_series


def _units(cases: Iterable[Case]) -> dict[str, str]:
    """The unit of each quantity in the file: nanoseconds where all its samples are whole ones."""
    nano: dict[str, bool] = {}
    for series in _series(cases):
        for name, samples in series.items():
            duration = QUANTITIES[name].unit == "s"
            nano[name] = duration and nano.get(name, True) and _is_nano(samples)
    return {name: "ns" if nano[name] else QUANTITIES[name].unit for name in sorted(nano)}


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


def _nano(samples: Iterable[Sample]) -> tuple[int, ...]:
    return tuple([round(sample * _NANO) for sample in samples])


def _ref(
    found: Sequence[Layer],
    layers: dict[Layer, int],
    networks: dict[tuple[tuple[str, int], ...], int],
) -> Ref:
    """How a case refers to its layers, which are added to those of the record if they are new."""
    batch = _batch(found)
    network = tuple(
        (layer.name, layers.setdefault(msgspec.structs.replace(layer, name=""), len(layers)))
        for layer in (found if batch is None else _at_batch(found, 1))
    )
    return networks.setdefault(network, len(networks)), batch or 1


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
        content = _content(text, SCHEMA_VERSION, place, REMEDY)
        tables = strict.converted(content, _Tables, place, REMEDY)
        strict.refuse_first(_table_faults(tables), place, REMEDY)
        for case in content["cases"]:
            case.pop("layers", None)
        filed = strict.converted(_without(content, _Tables), Record, place, REMEDY)
        strict.refuse_first(_unit_faults(tables.units, filed.cases, ("s", "ns")), place, REMEDY)
        record = _whole(filed, tables)
        strict.refuse_first(faults(record), place, REMEDY)
    return record


def parse_head(text: bytes, place: str) -> Head:
    """Read what a list of records tells of one; raises ``RecordError`` as ``parse`` does."""
    try:
        return strict.parse_json(text, Head, place, REMEDY, quick=True)
    except RecordError:
        _content(text, SCHEMA_VERSION, place, REMEDY)
        raise


def parse_import(text: bytes, place: str, remedy: str = IMPORT_AGAIN) -> ImportedRecord:
    """Read one imported record; raises ``RecordError`` as ``parse`` does."""
    with strict.no_cycles():
        content = _content(text, IMPORT_SCHEMA, place, remedy)
        table = strict.converted(content, _Rows, place, remedy)
        strict.refuse_first(_row_faults(table), place, remedy)
        filed = strict.converted(_without(content, _Rows), ImportedRecord, place, remedy)
        record = msgspec.structs.replace(filed, cases=(*_of_rows(table), *filed.cases))
        strict.refuse_first(_unit_faults(table.units, record.cases, ("s",)), place, remedy)
        strict.refuse_first(_import_faults(record), place, remedy)
    return record


def _content(text: bytes, known: int, place: str, remedy: str) -> Any:
    """What a file says; raises ``RecordError`` for another version than the ``known`` one."""
    content = strict.plain_json(text, place, remedy)
    stated = content.get("schema") if isinstance(content, dict) else None
    if type(stated) is int and stated != known:
        newer = stated > known
        what = "update ridgepoint to build from it" if newer else "run the experiment again"
        than = f"{'newer' if newer else 'older'} than {known}, the only one that is read here"
        raise RecordError(f"{place}: schema: found version {stated}, {than}; {what}.")
    return content


def _without(content: Mapping[str, Any], tables: type[msgspec.Struct]) -> dict[str, Any]:
    """What the record itself says of what a file does."""
    apart = set(tables.__struct_fields__) - {"cases"}
    return {name: part for name, part in content.items() if name not in apart}


def _whole(filed: Record, tables: _Tables) -> Record:
    """The record in memory, in seconds, with its layers; cases of the same layers share them."""
    nano = tables.nano
    for series in _series(filed.cases):
        series |= {name: _seconds(series[name]) for name in nano & series.keys()}
    layers = cache(lambda ref: _layers(ref, tables) if ref else ())
    ran = zip(filed.cases, tables.cases, strict=True)
    return msgspec.structs.replace(
        filed,
        ceilings=tuple(map(_ceiling, filed.ceilings)),
        cases=tuple(msgspec.structs.replace(case, layers=layers(it.layers)) for case, it in ran),
    )


def _ceiling(filed: Ceiling) -> Ceiling:
    if filed.unit == "s":
        return filed
    return msgspec.structs.replace(filed, samples=_seconds(filed.samples), unit="s")


def _seconds(samples: Iterable[Sample]) -> tuple[float, ...]:
    return tuple([sample / _NANO for sample in samples])


def _layers(ref: Ref, tables: _Tables) -> tuple[Layer, ...]:
    network, batch = ref
    layers = tuple(
        msgspec.structs.replace(tables.layers[number], name=name)
        for name, number in tables.networks[network]
    )
    return layers if batch == 1 else _at_batch(layers, batch)


def _of_rows(table: _Rows) -> Iterator[Case]:
    for levels, samples in table.rows:
        columns = zip(table.columns, samples, strict=True)
        yield Case(
            factors=dict(zip(table.factors, levels, strict=True)),
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


def _row_faults(table: _Rows) -> Iterator[str]:
    for index, (levels, samples) in enumerate(table.rows):
        if (len(levels), len(samples)) != (len(table.factors), len(table.columns)):
            yield f"rows[{index}]: found another number of cells than of columns"


def _unit_faults(
    units: Mapping[str, str], cases: Iterable[Case], of_durations: tuple[str, ...]
) -> Iterator[str]:
    """What is wrong with the ``units`` of a file, in which durations have one ``of_durations``."""
    for name, unit in units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            yield f"units.{name}: found a name that is no quantity of report/records/quantities.py"
        elif unit not in (of_durations if quantity.unit == "s" else (quantity.unit,)):
            yield f"units.{name}: measured in {quantity.unit}, found {unit!r}"
    for name in sorted({name for series in _series(cases) for name in series} - units.keys()):
        yield f"units.{name}: this field is missing"


def faults(record: Record) -> Iterator[str]:
    """What the types cannot say."""
    if record.finished < record.started:
        yield f"finished: expected a moment after {record.started}, found {record.finished}"
    environment = record.environment
    if (environment.gpu is None) != (environment.device == "cpu"):
        found = "null" if environment.gpu is None else environment.gpu.model
        yield f"environment.gpu: found {found}, which does not fit device {environment.device!r}"
    if record.shard is not None and record.shard.number > record.shard.of:
        yield f"shard.number: expected at most {record.shard.of}, found {record.shard.number}"
    yield from _shared_faults(record.attachments, record.cases)


def _import_faults(record: ImportedRecord) -> Iterator[str]:
    """The same: also what is null without a reason, or has a reason although it is known."""
    for name, value in nullable(record).items():
        if value is None and name not in record.missing:
            yield f"missing: found no reason why {name} is null"
        if value is not None and name in record.missing:
            yield f"missing.{name}: found a reason for what is not null"
    shared = {name for case in record.cases for name in case.factors} & record.conditions.keys()
    for name in sorted(shared):
        yield f"conditions.{name}: found a name that is a factor of cases too"
    yield from _shared_faults(record.attachments, record.cases)


def _shared_faults(attachments: Iterable[Attachment], cases: Iterable[Case]) -> Iterator[str]:
    """What is wrong with files and cases, one by one, and which of them are the same."""
    if twice := strict.repeated(("record.json", *(attachment.name for attachment in attachments))):
        yield f"attachments: found the name {twice} twice"
    seen: dict[frozenset[tuple[str, Factor]], int] = {}
    for index, case in enumerate(cases):
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
