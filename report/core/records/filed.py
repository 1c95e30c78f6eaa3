"""The file format of records: JSON with one line per round.

Each distinct layer is stored once, with a batch of one image; if the layers of a network differ in
their batch, each is stored with the batch that ran.  Networks refer to layers by number, cases to
networks by number.  Reading converts durations in nanoseconds (see ``units``) to seconds.

Events of PyTorch's allocator are in an attachment, since no person reads them and they would be
most of a record's text.  In memory the events are series of the cases.  Records of runs until
November 2026 contain the events in the file.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec

from report.core.errors import RecordError
from report.core.records import strict
from report.core.records.consistency import faults
from report.core.records.files import gzipped, unpacked
from report.core.records.layers import Extent, Layer, at_batch
from report.core.records.quantities import LARGEST, QUANTITIES
from report.core.records.record import (
    IMPORT_SCHEMA,
    LONGEST_NAME,
    SCHEMA_VERSION,
    Case,
    ImportedRecord,
    Level,
    Record,
    Sample,
    Text,
    in_seconds,
)

Kind = TypeVar("Kind", Record, ImportedRecord)
LayerIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
LayerName: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
#: The layers of a network in order, as (name, index in ``layers``).
NetworkReference: TypeAlias = Annotated[
    tuple[tuple[LayerName, LayerIndex], ...], msgspec.Meta(min_length=1)
]
#: The layers of a case, as (index in ``networks``, batch).
Ref: TypeAlias = tuple[LayerIndex, Extent]
#: A case with status ok: the levels of its factors, and a sample or null per column.
CaseRow: TypeAlias = tuple[tuple[Level, ...], tuple[Sample | None, ...]]

#: Longest line (characters) whose changes code forges show; longer lists get ``_WRAPPED`` a line.
_LONGEST_LINE: Final = 9_000
_WRAPPED: Final = 1_000
#: Default kind to read; typed ``Any``, so that it can be the default of a ``type[Kind]``.
OWN: Final[Any] = Record
REMEDY: Final = "restore the file with git, or run the experiment or the import again"


class _Case(Case, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case in a file; ``layers`` is None if no layers ran."""

    layers: Ref | None = None  # type: ignore[assignment]


def _file_of(kind: type[msgspec.Struct]) -> Any:
    """Define the type of a file: the fields of a record, and the tables that cases refer to.

    ``rows`` are cases before ``cases``, with the factors ``factors`` and at most one sample per
    quantity in ``columns``.  Only imports until November 2026 wrote rows.
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


#: Kind of record → type of its file, and the only version that is read.
_FORMS: Final[dict[type, tuple[Any, int]]] = {
    Record: (_file_of(Record), SCHEMA_VERSION),
    ImportedRecord: (_file_of(ImportedRecord), IMPORT_SCHEMA),
}


# -------------------------------------------------------------------------------------- writing


def encode(record: Record | ImportedRecord) -> bytes:
    """Encode a record as JSON, with one line per round, layer, network and similar part."""
    layers: dict[Layer, int] = {}
    networks: dict[tuple[tuple[str, int], ...], int] = {}
    refs: dict[tuple[Layer, ...], Ref] = {}
    cases, quantities = [], set[str]()
    for case in record.cases:
        quantities.update(*case.all_series)
        ordered = dict(sorted(case.factors.items()))
        plain = msgspec.to_builtins(msgspec.structs.replace(case, factors=ordered, layers=()))
        if case.layers:
            if case.layers not in refs:
                refs[case.layers] = _ref(case.layers, layers, networks)
            plain["layers"] = refs[case.layers]
        cases.append(plain)
    content = msgspec.to_builtins(msgspec.structs.replace(record, cases=()), order="deterministic")
    del content["cases"]
    content |= {
        "units": {name: QUANTITIES[name].unit for name in sorted(quantities)},
        "layers": msgspec.to_builtins(tuple(layers)),
        "networks": tuple(networks),
        "cases": cases,
    }
    return f"{_laid_out(content)}\n".encode()


def _ref(
    ran: Sequence[Layer],
    layers: dict[Layer, int],
    networks: dict[tuple[tuple[str, int], ...], int],
) -> Ref:
    """Return the reference of a case to the layers that ran; add new layers to the tables."""
    batch = _batch(ran)
    network = []
    for layer in ran if batch is None else at_batch(ran, 1):
        nameless = msgspec.structs.replace(layer, name="")
        network.append((layer.name, layers.setdefault(nameless, len(layers))))
    return networks.setdefault(tuple(network), len(networks)), batch or 1


def _batch(layers: Iterable[Layer]) -> int | None:
    """Return the common batch of all layer shapes; None if the batches differ."""
    batches = {shape[0] for layer in layers for shape in (layer.input_shape, layer.output_shape)}
    return batches.pop() if len(batches) == 1 else None


def _laid_out(part: Any, depth: int = 0) -> str:
    """Encode JSON with one line per object in a list and per field of the top level."""
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
    """Encode a list as JSON, with as many elements per line as ``_WRAPPED`` characters hold."""
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


def json_schema() -> bytes:
    """Return the content of ``docs/record.schema.json``, for own and imported records.

    Each definition is on a line of its own.
    """
    forms = [form for form, _ in _FORMS.values()]
    files, definitions = msgspec.json.schema_components(forms, ref_template="#/$defs/{name}")
    lines = b",\n".join(
        msgspec.json.encode(name) + b": " + msgspec.json.encode(content)
        for name, content in definitions.items()
    )
    head = b'"$schema": "https://json-schema.org/draft/2020-12/schema",\n"anyOf": '
    return b"{\n%b%b,\n" % (head, msgspec.json.encode(files)) + b'"$defs": {\n%b\n}}\n' % lines


# -------------------------------------------------------------------------------------- reading


class _StatedVersion(msgspec.Struct):
    """The version of a file that cannot be parsed."""

    schema: int


def parse(text: bytes, place: str, kind: type[Kind] = OWN, remedy: str = REMEDY) -> Kind:
    """Parse the JSON of an own or an imported record.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, the
    fault and the ``remedy``.
    """
    form, version = _FORMS[kind]
    try:
        file = strict.parse_json(text, form, place, remedy)
    except RecordError:
        with suppress(*strict.NO_JSON):
            stated = msgspec.json.decode(text, type=_StatedVersion).schema
            if stated != version:
                remedy = "run the experiment or the import again"
                if stated > version:
                    remedy = "update ridgepoint to build from it"
                raise RecordError(
                    f"{place}: schema: found version {stated}, but this ridgepoint reads version "
                    f"{version}; {remedy}."
                ) from None
        raise
    strict.refuse_first(_file_faults(file), place, remedy)
    fields = {name: getattr(file, name) for name in kind.__struct_fields__}
    record = kind(**{**fields, "cases": tuple(_cases(file))})
    strict.refuse_first(faults(record), place, remedy)
    return record


def _file_faults(file: Any) -> Iterator[str]:
    """Yield references to missing layers or networks, and wrong or missing units."""
    for index, row in enumerate(file.rows):
        if tuple(map(len, row)) != (len(file.factors), len(file.columns)):
            yield f"rows[{index}]: found another number of cells than of columns"
    for index, network in enumerate(file.networks):
        if max(number for _, number in network) >= len(file.layers):
            yield f"networks[{index}]: found a layer beyond the {len(file.layers)} of the record"
    batches = []
    for network in file.networks:
        batches.append(_batch(file.layers[number] for _, number in network))
    measured = set(file.columns)
    for index, case in enumerate(file.cases):
        measured.update(*case.all_series)
        number, batch = case.layers or (-1, 1)
        place = f"cases[{index}].layers"
        if number >= len(batches):
            yield f"{place}: found a network beyond the {len(batches)} of the record"
        elif batch > 1 and batches[number] != 1:
            reason = f"the layers of networks[{number}] are not those of one image"
            yield f"{place}: found {batch} images, but {reason}"
    for name, unit in file.units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            yield f"units.{name}: found no quantity of report/core/records/quantities.py"
        elif unit not in (("s", "ns") if quantity.unit == "s" else (quantity.unit,)):
            yield f"units.{name}: measured in {quantity.unit}, found {unit!r}"
    for name in sorted(measured - file.units.keys()):
        yield f"units.{name}: this field is missing"


def _cases(file: Any) -> Iterator[Case]:
    """Yield all cases with durations in seconds, and with layers (one tuple per reference)."""
    nano = {name for name, unit in file.units.items() if unit == "ns"}
    layers: dict[Ref | None, tuple[Layer, ...]] = {None: ()}
    for case in (*_of_rows(file), *file.cases):
        for series in case.all_series if nano else ():
            series |= {name: in_seconds(series[name]) for name in nano & series.keys()}
        if case.layers not in layers:
            number, batch = case.layers
            network = tuple(
                msgspec.structs.replace(file.layers[n], name=name)
                for name, n in file.networks[number]
            )
            layers[case.layers] = network if batch == 1 else at_batch(network, batch)
        fields = {name: getattr(case, name) for name in Case.__struct_fields__}
        yield Case(**{**fields, "layers": layers[case.layers]})


def _of_rows(file: Any) -> Iterator[_Case]:
    """Yield the cases in ``rows``."""
    for levels, samples in file.rows:
        columns = zip(file.columns, samples, strict=True)
        yield _Case(
            factors=dict(zip(file.factors, levels, strict=True)),
            series={name: (sample,) for name, sample in columns if sample is not None},
        )


# -------------------------------------------------------------------------- allocator events

EVENTS: Final = "memory_events.json.gz"
EVENTS_MEANING: Final = "the events of PyTorch's allocator, a line for each case"
_EventBytes: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_EventOwner: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class _Events(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The events of one case by quantity."""

    memory_events: tuple[_EventBytes, ...] = ()
    memory_events_before: tuple[_EventBytes, ...] = ()
    memory_owners: tuple[_EventOwner, ...] = ()


_EVENT_QUANTITIES: Final = _Events.__struct_fields__


def split_events(cases: Iterable[Case]) -> tuple[tuple[Case, ...], bytes]:
    """Move the events out of ``cases``; return the cases, and the attachment (b"" if none)."""
    lines: list[bytes] = []
    rest: list[Case] = []
    for case in cases:
        events = {name: case.series[name] for name in _EVENT_QUANTITIES if name in case.series}
        others = {name: s for name, s in case.series.items() if name not in events}
        rest.append(msgspec.structs.replace(case, series=others))
        lines.append(msgspec.json.encode(events))
    if set(lines) <= {b"{}"}:
        return tuple(rest), b""
    return tuple(rest), gzipped(b"[%b]\n" % b",\n".join(lines))


def join_events(record: Record, content: bytes, place: str) -> Record:
    """Move the events of the attachment ``place`` into the cases; raises ``RecordError``."""
    kind = tuple[_Events, ...]
    events = strict.parse_json(unpacked(content, place, REMEDY), kind, place, REMEDY)
    if len(events) != len(record.cases):
        count = f"{len(events)} cases, but the record has {len(record.cases)}"
        raise RecordError(f"{place}: found the events of {count}; {REMEDY}.")
    cases: list[Case] = []
    for case, of_case in zip(record.cases, events, strict=True):
        series = {name: s for name, s in msgspec.structs.asdict(of_case).items() if s}
        cases.append(msgspec.structs.replace(case, series={**series, **case.series}))
    return msgspec.structs.replace(record, cases=tuple(cases))


def without_events(record: Record, reason: str) -> Record:
    """Return the record, with ``reason`` stating why the events are missing."""
    missing = {**record.environment.missing, **dict.fromkeys(_EVENT_QUANTITIES, reason)}
    environment = msgspec.structs.replace(record.environment, missing=missing)
    return msgspec.structs.replace(record, environment=environment)
