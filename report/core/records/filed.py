"""The file format of records: JSON with one line per round.

Each distinct layer is stored once, for a batch of one image, or as it ran if the layers of a
network differ in their batch.  Networks refer to layers by number, and cases to networks.
``units`` is the unit of each quantity in the file; durations in whole nanoseconds are converted to
seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
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
    Head,
    Level,
    Record,
    Round,
    Sample,
    SeriesByQuantity,
    Text,
    in_seconds,
)

Kind = TypeVar("Kind", bound=Head | ImportedRecord)
LayerIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
LayerName: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
#: The layers of a network in order: name, and index in ``layers``.
NetworkReference: TypeAlias = Annotated[
    tuple[tuple[LayerName, LayerIndex], ...], msgspec.Meta(min_length=1)
]
#: The layers of a case: index of their network, and their batch.
Ref: TypeAlias = tuple[LayerIndex, Extent]
#: A case that is ok: its levels, and a sample per column, null if there is none.
CaseRow: TypeAlias = tuple[tuple[Level, ...], tuple[Sample | None, ...]]

#: Longest line whose changes code forges still show; longer lists are wrapped at ``_WRAPPED``.
_LONGEST_LINE: Final = 9_000
_WRAPPED: Final = 1_000
#: Default kind to read; ``Any``, so that a type checker accepts it as default of ``type[Kind]``.
OWN: Final[Any] = Record
REMEDY: Final = "restore the file with git, or run the experiment or the import again"


class _Case(Case, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case in a file; ``layers`` is None if no layers ran."""

    layers: Ref | None = None  # type: ignore[assignment]


def _file_of(kind: type[msgspec.Struct]) -> Any:
    """Define the type of a file: the fields of its record, and the tables that cases refer to.

    ``rows`` are cases that precede ``cases``; they share ``factors`` and have at most one sample of
    each quantity in ``columns``.  Imports of published tables until November 2026 wrote them.
    """
    tables: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        ("units", dict[str, Text]),
        ("cases", tuple[_Case, ...]),
        ("layers", tuple[Layer, ...], ()),
        ("networks", tuple[NetworkReference, ...], ()),
        ("factors", tuple[Text, ...], ()),
        ("columns", tuple[Text, ...], ()),
        ("rows", tuple[CaseRow, ...], ()),
    ]
    return msgspec.defstruct(f"{kind.__name__}File", tables, bases=(kind,), kw_only=True)


#: Kind to read → type of its file, and its only version.
_FORMS: Final[dict[type, tuple[Any, int]]] = {
    Head: (Head, SCHEMA_VERSION),
    Record: (_file_of(Record), SCHEMA_VERSION),
    ImportedRecord: (_file_of(ImportedRecord), IMPORT_SCHEMA),
}


# -------------------------------------------------------------------------------------- writing


def encode(record: Record | ImportedRecord) -> bytes:
    """Encode a record as JSON, one line for each part that a person reads as a unit."""
    layers: dict[Layer, int] = {}
    networks: dict[tuple[tuple[str, int], ...], int] = {}
    refs: dict[tuple[Layer, ...], Ref] = {}
    filed = []
    for case in record.cases:
        ordered = dict(sorted(case.factors.items()))
        plain = msgspec.to_builtins(msgspec.structs.replace(case, factors=ordered, layers=()))
        if case.layers:
            if case.layers not in refs:
                refs[case.layers] = _ref(case.layers, layers, networks)
            plain["layers"] = refs[case.layers]
        filed.append(plain)
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
    """Return the content of ``docs/record.schema.json``: own and imported records.

    Each definition is one line.
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
    """Encode JSON with one line per object of a list and per member of the top level."""
    line = "\n" + " " * depth
    if isinstance(part, list | tuple) and part and isinstance(part[0], dict):
        objects = f",{line} ".join(_laid_out(value, depth + 1) for value in part)
        return f"[{line} {objects}{line}]"
    if not isinstance(part, dict) or not part:
        text = msgspec.json.encode(part).decode()
        if isinstance(part, list | tuple) and len(text) > _LONGEST_LINE:
            return _in_lines(part, depth)
        return text
    members = [f"{_laid_out(name)}: {_laid_out(value, depth + 1)}" for name, value in part.items()]
    together = f"{{{', '.join(members)}}}"
    if depth < 2 or max(map(len, together.split("\n"))) > _LONGEST_LINE:
        return f"{{{line} {f',{line} '.join(members)}{line}}}"
    return together


def _in_lines(part: Sequence[Any], depth: int) -> str:
    """Encode a list as JSON, with as many elements per line as fit."""
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


def _series(cases: Iterable[Case]) -> Iterator[SeriesByQuantity]:
    for case in cases:
        yield from case.all_series


def _ref(
    ran: Sequence[Layer],
    layers: dict[Layer, int],
    networks: dict[tuple[tuple[str, int], ...], int],
) -> Ref:
    """Return the reference of a case to its layers, and add new layers to the tables."""
    batch = _batch(ran)
    network = []
    for layer in ran if batch is None else at_batch(ran, 1):
        nameless = msgspec.structs.replace(layer, name="")
        network.append((layer.name, layers.setdefault(nameless, len(layers))))
    return networks.setdefault(tuple(network), len(networks)), batch or 1


def _batch(layers: Iterable[Layer]) -> int | None:
    """Return the batch that all shapes of the layers share; None if they differ."""
    batches = {shape[0] for layer in layers for shape in (layer.input_shape, layer.output_shape)}
    return batches.pop() if len(batches) == 1 else None


# -------------------------------------------------------------------------------------- reading


def parse(text: bytes, place: str, kind: type[Kind] = OWN, remedy: str = REMEDY) -> Kind:
    """Parse the JSON of an own record, of its head alone, or of an imported record.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, the
    fault and the ``remedy``.
    """
    form, version = _FORMS[kind]
    try:
        file: Kind = strict.parse_json(text, form, place, remedy)
    except RecordError:
        with suppress(*strict.NO_JSON):
            stated = msgspec.json.decode(text, type=_Stated).schema
            if stated != version:
                remedy = "run the experiment or the import again"
                if stated > version:
                    remedy = "update ridgepoint to build from it"
                raise RecordError(
                    f"{place}: schema: found version {stated}, but this ridgepoint reads version "
                    f"{version}; {remedy}."
                ) from None
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
    """Return all cases in seconds, with their layers; equal references share one tuple."""
    rows = tuple(_of_rows(file))
    nano = {name for name, unit in file.units.items() if unit == "ns"}
    for series in _series((*rows, *file.cases)) if nano else ():
        series |= {name: in_seconds(series[name]) for name in nano & series.keys()}
    layers: dict[Ref | None, tuple[Layer, ...]] = {None: ()}
    cases = []
    for case in file.cases:
        if case.layers not in layers:
            layers[case.layers] = _layers(file, *case.layers)
        fields = msgspec.structs.asdict(case)
        cases.append(Case(**{**fields, "layers": layers[case.layers]}))
    return (*rows, *cases)


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


# ----------------------------------------------------------------------------------------- faults


def _file_faults(file: Any) -> Iterator[str]:
    """Yield references to nothing and wrong units, which prevent making a record."""
    for index, row in enumerate(file.rows):
        if tuple(map(len, row)) != (len(file.factors), len(file.columns)):
            yield f"rows[{index}]: found another number of cells than of columns"
    for index, network in enumerate(file.networks):
        if max(number for _, number in network) >= len(file.layers):
            yield f"networks[{index}]: found a layer beyond the {len(file.layers)} of the record"
    for index, case in enumerate(file.cases):
        if not case.layers:
            continue
        number, batch = case.layers
        place, count = f"cases[{index}].layers", len(file.networks)
        if number >= count:
            yield f"{place}: found a network beyond the {count} of the record"
        elif batch > 1 and _batch(file.layers[n] for _, n in file.networks[number]) != 1:
            reason = f"the layers of networks[{number}] are not those of one image"
            yield f"{place}: found {batch} images, but {reason}"
    for name, unit in file.units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            yield f"units.{name}: found no quantity of report/core/records/quantities.py"
        elif unit not in (("s", "ns") if quantity.unit == "s" else (quantity.unit,)):
            yield f"units.{name}: measured in {quantity.unit}, found {unit!r}"
    measured = {*file.columns}.union(*_series(file.cases))
    for name in sorted(measured - file.units.keys()):
        yield f"units.{name}: this field is missing"


def _faults(record: Any) -> Iterator[str]:
    """Yield the faults of a record that its types cannot exclude."""
    names = (attachment.name for attachment in record.attachments)
    if twice := strict.repeated(names):
        yield f"attachments: found the name {twice} twice"
    yield from _own_faults(record) if isinstance(record, Record) else _import_faults(record)
    seen: dict[frozenset[tuple[str, Level]], int] = {}
    for index, case in enumerate(record.cases):
        where = f"cases[{index}]"
        yield from _outcome_faults(case, where)
        for number, round_ in enumerate(case.rounds):
            yield from _outcome_faults(round_, f"{where}.rounds[{number}]")
        if len({(round_.policy, round_.process) for round_ in case.rounds}) < len(case.rounds):
            yield f"{where}.rounds: found the same process twice under one policy"
        # 1 and 1.0 are the same level, since they look up the same case.
        first = seen.setdefault(frozenset(case.factors.items()), index)
        if first != index:
            yield f"{where}.factors: found the same combination as in cases[{first}]"
        if isinstance(record, ImportedRecord):
            for name in sorted(case.factors.keys() & record.conditions.keys()):
                yield f"{where}.factors.{name}: found a name that is a condition of all cases too"


def _own_faults(record: Record) -> Iterator[str]:
    """Yield a GPU that contradicts the device, an impossible shard, and inconsistent samples."""
    machine, shard = record.environment, record.shard
    if (machine.gpu is None) != (machine.device == "cpu"):
        model = machine.gpu.model if machine.gpu else "null"
        yield f"environment.gpu: found {model}, which does not fit device {machine.device!r}"
    if shard and shard.number > shard.of:
        yield f"shard.number: expected at most {shard.of}, found {shard.number}"
    yield from consistency.contradictions(record)


def _import_faults(record: ImportedRecord) -> Iterator[str]:
    parts = (record, record.origin, record.environment)
    for part in parts:
        for name, value in msgspec.structs.asdict(part).items():
            if value is None and name not in (*record.missing, "converted_from"):
                yield f"missing: found no reason why {name} is null"
    moments = {"started": record.started, "finished": record.finished}
    yield from consistency.time_faults(**moments, imported=record.origin.imported)


def _outcome_faults(outcome: Case | Round, place: str) -> Iterator[str]:
    if outcome.status == "ok" and outcome.reason is not None:
        yield f"{place}.reason: found {outcome.reason!r}, but a status ok needs no reason"
    if outcome.status != "ok" and outcome.reason is None:
        yield f"{place}.reason: found null, but a status {outcome.status} needs a reason"
    for name, samples in outcome.series.items():
        quantity = QUANTITIES[name]
        if not quantity.admits(samples):
            index = next(i for i, sample in enumerate(samples) if not quantity.admits((sample,)))
            fault = f"{name} is {quantity.range}, found {samples[index]}"
            yield f"{place}.series.{name}[{index}]: {fault}"
