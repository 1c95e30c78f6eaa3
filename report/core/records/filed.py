"""Records as they lie in files: JSON with a line for each round.

Layers stand once, as those of one image, or, where the layers of one network differ in their
images, as they ran; networks refer to them by number, and cases to networks.  ``units`` gives the
unit of each quantity in the file: durations in whole nanoseconds are read as seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from report.core.errors import RecordError
from report.core.records import consistency, strict
from report.core.records.imported import IMPORT_SCHEMA, ImportedRecord
from report.core.records.layers import Extent, Layer, at_batch
from report.core.records.quantities import QUANTITIES
from report.core.records.record import (
    LONGEST_NAME,
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

Kind = TypeVar("Kind", bound=Head | ImportedRecord)
Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
LayerName: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
#: The layers of a network in their order: each one's name, and its number in ``layers``.
Network: TypeAlias = Annotated[tuple[tuple[LayerName, Number], ...], msgspec.Meta(min_length=1)]
#: The layers of a case: the number of their network, and the images that they ran on.
Ref: TypeAlias = tuple[Number, Extent]
#: A case that went well: its levels, and a sample of each column, null where it has none.
Row: TypeAlias = tuple[tuple[Factor, ...], tuple[Sample | None, ...]]

#: Forges show no difference in a line that is longer, and a list that makes one is broken in many.
_LONGEST_LINE: Final = 9_000
_WRAPPED: Final = 1_000
#: What is read if nothing else is asked for; a type checker takes it for any kind.
OWN: Final[Any] = Record
REMEDY: Final = "restore the file with git, or run the experiment or the import again"


class _Case(Case, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case in a file; no layers ran where it does not say."""

    layers: Ref | None = None  # type: ignore[assignment]


def _file_of(kind: type[msgspec.Struct]) -> Any:
    """What a file holds: the fields of its record, and the tables that its cases refer to.

    ``rows`` are cases before the others, with the same ``factors`` and at most one sample of each
    quantity of ``columns``: published tables that were imported until November 2026.
    """
    tables: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("units", dict[str, Text]),
        ("cases", tuple[_Case, ...]),
        ("layers", tuple[Layer, ...], ()),
        ("networks", tuple[Network, ...], ()),
        ("factors", tuple[Text, ...], ()),
        ("columns", tuple[Text, ...], ()),
        ("rows", tuple[Row, ...], ()),
    ]
    return msgspec.defstruct(f"{kind.__name__}File", tables, bases=(kind,), kw_only=True)


#: What is read of a record → the form of its file, and the one version that there is.
_FORMS: Final[dict[type, tuple[Any, int]]] = {
    Head: (Head, SCHEMA_VERSION),
    Record: (_file_of(Record), SCHEMA_VERSION),
    ImportedRecord: (_file_of(ImportedRecord), IMPORT_SCHEMA),
}


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


def json_schema() -> bytes:
    """JSON Schema of the files of own and imported records, a line for each definition.

    ``docs/record.schema.json`` holds what this returns.
    """
    forms = [form for kind, (form, _) in _FORMS.items() if kind is not Head]
    files, definitions = msgspec.json.schema_components(forms, ref_template="#/$defs/{name}")
    lines = b",\n".join(
        msgspec.json.encode(name) + b": " + msgspec.json.encode(content)
        for name, content in definitions.items()
    )
    head = b'"$schema": "https://json-schema.org/draft/2020-12/schema",\n"anyOf": '
    return b"{\n%b%b,\n" % (head, msgspec.json.encode(files)) + b'"$defs": {\n%b\n}}\n' % lines


def _laid_out(part: Any, depth: int = 0) -> str:
    """JSON with a line for each object of a list, and for each member of what lies at the top."""
    line = "\n" + " " * depth
    if isinstance(part, list | tuple) and part and isinstance(part[0], dict):
        objects = f",{line} ".join(_laid_out(each, depth + 1) for each in part)
        return f"[{line} {objects}{line}]"
    if not isinstance(part, dict) or not part:
        text = msgspec.json.encode(part).decode()
        if isinstance(part, list | tuple) and len(text) > _LONGEST_LINE:
            return _in_lines(part, depth)
        return text
    members = [f"{_laid_out(name)}: {_laid_out(each, depth + 1)}" for name, each in part.items()]
    together = f"{{{', '.join(members)}}}"
    if depth < 2 or max(map(len, together.split("\n"))) > _LONGEST_LINE:
        return f"{{{line} {f',{line} '.join(members)}{line}}}"
    return together


def _in_lines(part: Sequence[Any], depth: int) -> str:
    """JSON of a list with as many elements a line as fit."""
    lines: list[str] = []
    row = ""
    for element in part:
        text = _laid_out(element, depth + 1)
        if row and len(row) + len(text) > _WRAPPED:
            lines.append(row)
            row = ""
        row += f",{text}" if row else text
    line = "\n" + " " * (depth + 1)
    return f"[{line}{f',{line}'.join((*lines, row))}]"


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


def parse(text: bytes, place: str, kind: type[Kind] = OWN, remedy: str = REMEDY) -> Kind:
    """Read a record of one's own from JSON, its head alone, or a record of others.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, what was
    found and the ``remedy``.
    """
    form, version = _FORMS[kind]
    try:
        file: Kind = strict.parse_json(text, form, place, remedy)
    except RecordError:
        with suppress(*strict.NO_JSON):
            stated = msgspec.json.decode(text, type=_Stated).schema
            if stated != version:
                what = f"found version {stated}, but {version} is the only one that is read here"
                again = "run the experiment or the import again"
                remedy = "update ridgepoint to build from it" if stated > version else again
                raise RecordError(f"{place}: schema: {what}; {remedy}.") from None
        raise
    if isinstance(file, Head):
        moments = {"started": file.started, "finished": file.finished}
        strict.refuse_first(consistency.time_faults(**moments), place, remedy)
    if form is kind:
        return file
    strict.refuse_first(_file_faults(file), place, remedy)
    fields = {name: getattr(file, name) for name in kind.__struct_fields__}
    record = kind(**{**fields, "cases": _cases(file)})
    strict.refuse_first(_faults(record), place, remedy)
    return record


class _Stated(msgspec.Struct):
    schema: int


def _cases(file: Any) -> tuple[Case, ...]:
    """All cases in seconds with their layers; those of the same layers share them."""
    rows = tuple(_of_rows(file))
    nano = {name for name, unit in file.units.items() if unit == "ns"}
    for series in _series((*rows, *file.cases)) if nano else ():
        series |= {name: in_seconds(series[name]) for name in nano & series.keys()}
    layers = cache(lambda ref: _layers(file, *ref) if ref else ())
    fields = map(msgspec.structs.asdict, file.cases)
    return (*rows, *(Case(**{**each, "layers": layers(each["layers"])}) for each in fields))


def _of_rows(file: Any) -> Iterator[Case]:
    for levels, samples in file.rows:
        columns = zip(file.columns, samples, strict=True)
        yield Case(
            factors=dict(zip(file.factors, levels, strict=True)),
            series={name: (sample,) for name, sample in columns if sample is not None},
        )


def _layers(file: Any, network: int, batch: int) -> tuple[Layer, ...]:
    named = file.networks[network]
    layers = tuple(msgspec.structs.replace(file.layers[n], name=name) for name, n in named)
    return layers if batch == 1 else at_batch(layers, batch)


# -------------------------------------------------------------------------- what is contradictory


def _file_faults(file: Any) -> Iterator[str]:
    """What refers to nothing in a file or has another unit, so that no record can be made."""
    for index, row in enumerate(file.rows):
        if tuple(map(len, row)) != (len(file.factors), len(file.columns)):
            yield f"rows[{index}]: found another number of cells than of columns"
    for index, network in enumerate(file.networks):
        if max(number for _, number in network) >= len(file.layers):
            yield f"networks[{index}]: found a layer beyond the {len(file.layers)} of the record"
    plain = [_batch(file.layers[n] for _, n in network) == 1 for network in file.networks]
    for index, case in enumerate(file.cases):
        number, batch = case.layers or (0, 1)
        if case.layers and number >= len(plain):
            yield f"cases[{index}].layers: found a network beyond the {len(plain)} of the record"
        elif batch > 1 and not plain[number]:
            of = f"the layers of networks[{number}] are not those of one image"
            yield f"cases[{index}].layers: found {batch} images, but {of}"
    for name, unit in file.units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            yield (
                f"units.{name}: found a name that is no quantity of "
                "report/core/records/quantities.py"
            )
        elif unit not in (("s", "ns") if quantity.unit == "s" else (quantity.unit,)):
            yield f"units.{name}: measured in {quantity.unit}, found {unit!r}"
    measured = {*file.columns, *(name for series in _series(file.cases) for name in series)}
    for name in sorted(measured - file.units.keys()):
        yield f"units.{name}: this field is missing"


def _faults(record: Any) -> Iterator[str]:
    """What the types of a record cannot say."""
    names = (attachment.name for attachment in record.attachments)
    if twice := strict.repeated(names):
        yield f"attachments: found the name {twice} twice"
    yield from _own_faults(record) if isinstance(record, Record) else _import_faults(record)
    seen: dict[frozenset[tuple[str, Factor]], int] = {}
    for index, case in enumerate(record.cases):
        where = f"cases[{index}]"
        yield from _outcome_faults(case, where)
        for number, round_ in enumerate(case.rounds):
            yield from _outcome_faults(round_, f"{where}.rounds[{number}]")
        if len({(each.policy, each.process) for each in case.rounds}) < len(case.rounds):
            yield f"{where}.rounds: found the same process twice under one policy"
        # 1 and 1.0 are the same level, as for a study that looks a case up.
        first = seen.setdefault(frozenset(case.factors.items()), index)
        if first != index:
            yield f"{where}.factors: found the same combination as in cases[{first}]"
        if isinstance(record, ImportedRecord):
            for name in sorted(case.factors.keys() & record.conditions.keys()):
                yield f"{where}.factors.{name}: found a name that is a condition of all cases too"


def _own_faults(record: Record) -> Iterator[str]:
    """What would name another machine, or count what a shard measured twice."""
    machine, shard = record.environment, record.shard
    if (machine.gpu is None) != (machine.device == "cpu"):
        found = machine.gpu.model if machine.gpu else "null"
        yield f"environment.gpu: found {found}, which does not fit device {machine.device!r}"
    if shard and shard.number > shard.of:
        yield f"shard.number: expected at most {shard.of}, found {shard.number}"
    yield from consistency.contradictions(record)


def _import_faults(record: ImportedRecord) -> Iterator[str]:
    parts = (record, record.origin, record.environment)
    fields = {name: each for part in parts for name, each in msgspec.structs.asdict(part).items()}
    for name, value in fields.items():
        if value is None and name not in (*record.missing, "converted_from"):
            yield f"missing: found no reason why {name} is null"
    moments = {"started": record.started, "finished": record.finished}
    yield from consistency.time_faults(**moments, imported=record.origin.imported)


def _outcome_faults(found: Case | Round, where: str) -> Iterator[str]:
    if found.status == "ok" and found.reason is not None:
        yield f"{where}.reason: found {found.reason!r}, but what is ok needs no reason"
    if found.status != "ok" and found.reason is None:
        yield f"{where}.reason: found null, but what is {found.status} needs a reason"
    for name, samples in found.series.items():
        quantity = QUANTITIES[name]
        if not quantity.admits(samples):
            index = next(i for i, sample in enumerate(samples) if not quantity.admits((sample,)))
            place = f"{where}.series.{name}[{index}]"
            yield f"{place}: {name} is {quantity.range}, found {samples[index]}"
