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
from report.core.missing import Missing
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
    SeriesByQuantity,
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
CaseLayers: TypeAlias = tuple[LayerIndex, Extent]
#: A case with status ok: the levels of its factors, and a sample or null per column.
CaseRow: TypeAlias = tuple[tuple[Level, ...], tuple[Sample | None, ...]]

#: Longest line (characters) whose changes GitHub and similar sites show.  Longer lists are wrapped
#: to lines of ``_WRAPPED_LINE`` characters.
_LONGEST_LINE: Final = 9_000
_WRAPPED_LINE: Final = 1_000
#: The kind of record that this project measures, the default of functions that read records.  The
#: type is ``Any``, since no class is a valid default for a ``type[Kind]`` of any kind.
OWN_RECORD: Final[Any] = Record
REMEDY: Final = "restore the file with git, or run the experiment or the import again"


class _Case(Case, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case in a file; ``layers`` is None if no layers ran."""

    layers: CaseLayers | None = None  # type: ignore[assignment]


def _file_of(kind: type[msgspec.Struct]) -> Any:
    """Define the type of a file: the fields of a record, and the tables that cases refer to.

    ``rows`` is a compact form of cases: the levels of the ``factors``, and one sample or null for
    each quantity in ``columns``.  Only imports until November 2026 wrote rows.
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
_FILE_TYPES: Final[dict[type, tuple[Any, int]]] = {
    Record: (_file_of(Record), SCHEMA_VERSION),
    ImportedRecord: (_file_of(ImportedRecord), IMPORT_SCHEMA),
}


# -------------------------------------------------------------------------------------- writing


def encode(record: Record | ImportedRecord) -> bytes:
    """Encode a record as JSON, with one line per round, layer, network and similar part."""
    layers: dict[Layer, int] = {}
    networks: dict[tuple[tuple[str, int], ...], int] = {}
    references: dict[tuple[Layer, ...], CaseLayers] = {}
    cases: list[dict[str, Any]] = []
    quantities = set[str]()
    for case in record.cases:
        for series in case.all_series:
            quantities.update(series)
        factors = dict(sorted(case.factors.items()))
        plain = msgspec.to_builtins(msgspec.structs.replace(case, factors=factors, layers=()))
        if case.layers:
            if case.layers not in references:
                references[case.layers] = _reference(case.layers, layers, networks)
            plain["layers"] = references[case.layers]
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


def _reference(
    layers_run: Sequence[Layer],
    layers: dict[Layer, int],
    networks: dict[tuple[tuple[str, int], ...], int],
) -> CaseLayers:
    """Return the reference of a case to the layers that ran; add new layers to the tables."""
    batch = _common_batch(layers_run)
    network = []
    for layer in layers_run if batch is None else at_batch(layers_run, 1):
        nameless = msgspec.structs.replace(layer, name="")
        number = layers.setdefault(nameless, len(layers))
        network.append((layer.name, number))
    return networks.setdefault(tuple(network), len(networks)), batch or 1


def _common_batch(layers: Iterable[Layer]) -> int | None:
    """Return the batch (first axis) that all shapes of layers share; None if batches differ."""
    batches = set[int]()
    for layer in layers:
        batches |= {layer.input_shape[0], layer.output_shape[0]}
    return batches.pop() if len(batches) == 1 else None


def _laid_out(part: Any, depth: int = 0) -> str:
    """Encode JSON with one line per object in a list and per field of the top level.

    ``depth`` is the number of blanks before the line.
    """
    line_break = "\n" + " " * depth
    between = f",{line_break} "
    if isinstance(part, list | tuple) and part and isinstance(part[0], dict):
        objects = between.join(_laid_out(value, depth + 1) for value in part)
        return f"[{line_break} {objects}{line_break}]"
    if not isinstance(part, dict) or not part:
        text = msgspec.json.encode(part).decode()
        if isinstance(part, list | tuple) and len(text) > _LONGEST_LINE:
            return _wrapped(part, depth)
        return text
    members = [f"{_laid_out(name)}: {_laid_out(value, depth + 1)}" for name, value in part.items()]
    together = "{" + ", ".join(members) + "}"
    longest_line = max(len(line) for line in together.split("\n"))
    in_top_levels = depth < 2
    if in_top_levels or longest_line > _LONGEST_LINE:
        return "{" + line_break + " " + between.join(members) + line_break + "}"
    return together


def _wrapped(elements: Sequence[Any], depth: int) -> str:
    """Encode a list as JSON, with as many elements per line as ``_WRAPPED_LINE`` has room for."""
    lines: list[str] = []
    line = ""
    for element in elements:
        text = _laid_out(element, depth + 1)
        if line and len(line) + len(text) > _WRAPPED_LINE:
            lines.append(line)
            line = ""
        line += f",{text}" if line else text
    lines.append(line)
    line_break = "\n" + " " * (depth + 1)
    return f"[{line_break}" + f",{line_break}".join(lines) + "]"


def json_schema() -> bytes:
    """Return the content of ``docs/record.schema.json``, for measured and imported records.

    Each definition is on a line of its own.
    """
    file_types = [file_type for file_type, _ in _FILE_TYPES.values()]
    files, definitions = msgspec.json.schema_components(file_types, ref_template="#/$defs/{name}")
    lines: list[str] = []
    for name, definition in definitions.items():
        lines.append(f"{_laid_out(name)}: {msgspec.json.encode(definition).decode()}")
    schema = (
        '{\n"$schema": "https://json-schema.org/draft/2020-12/schema",\n'
        f'"anyOf": {msgspec.json.encode(files).decode()},\n'
        '"$defs": {\n' + ",\n".join(lines) + "\n}}\n"
    )
    return schema.encode()


# -------------------------------------------------------------------------------------- reading


class _StatedVersion(msgspec.Struct):
    """The version of a file that cannot be parsed."""

    schema: int


def parse(text: bytes, place: str, kind: type[Kind] = OWN_RECORD, remedy: str = REMEDY) -> Kind:
    """Parse the JSON of a record, measured by this project or imported.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, the
    fault and the ``remedy``.
    """
    file_type, version = _FILE_TYPES[kind]
    try:
        file = strict.parse_json(text, file_type, place, remedy)
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
    strict.refuse_first(_unit_faults(file), place, remedy)
    fields = {name: getattr(file, name) for name in kind.__struct_fields__}
    fields["cases"] = tuple(_cases(file))
    record = kind(**fields)
    strict.refuse_first(faults(record), place, remedy)
    return record


def _file_faults(file: Any) -> Iterator[str]:
    for index, (levels, samples) in enumerate(file.rows):
        if len(levels) != len(file.factors) or len(samples) != len(file.columns):
            yield f"rows[{index}]: found another number of cells than of columns"
    for index, network in enumerate(file.networks):
        if max(number for _, number in network) >= len(file.layers):
            yield f"networks[{index}]: found a layer beyond the {len(file.layers)} of the record"
    batches = []
    for network in file.networks:
        batches.append(_common_batch(file.layers[number] for _, number in network))
    for index, case in enumerate(file.cases):
        number, batch = case.layers or (-1, 1)
        place = f"cases[{index}].layers"
        if number >= len(batches):
            yield f"{place}: found a network beyond the {len(batches)} of the record"
        elif batch > 1 and batches[number] != 1:
            reason = f"the layers of networks[{number}] are not those of one image"
            yield f"{place}: found {batch} images, but {reason}"


def _unit_faults(file: Any) -> Iterator[str]:
    measured = set(file.columns)
    for case in file.cases:
        for series in case.all_series:
            measured.update(series)
    for name, unit in file.units.items():
        quantity = QUANTITIES.get(name)
        if quantity is None:
            yield f"units.{name}: found no quantity of report/core/records/quantities.py"
            continue
        allowed = ("s", "ns") if quantity.unit == "s" else (quantity.unit,)
        if unit not in allowed:
            yield f"units.{name}: measured in {quantity.unit}, found {unit!r}"
    for name in sorted(measured - file.units.keys()):
        yield f"units.{name}: this field is missing"


def _cases(file: Any) -> Iterator[Case]:
    """Yield all cases of a file, with durations in seconds and with layers.

    Cases with the same reference to layers share one tuple of layers, which saves memory.
    """
    in_nanoseconds = {name for name, unit in file.units.items() if unit == "ns"}
    layers: dict[CaseLayers | None, tuple[Layer, ...]] = {None: ()}
    for case in (*_cases_of_rows(file), *file.cases):
        for series in case.all_series:
            for name in in_nanoseconds & series.keys():
                series[name] = in_seconds(series[name])
        if case.layers not in layers:
            network_number, batch = case.layers
            network = []
            for name, number in file.networks[network_number]:
                network.append(msgspec.structs.replace(file.layers[number], name=name))
            layers[case.layers] = tuple(network) if batch == 1 else at_batch(network, batch)
        fields = {name: getattr(case, name) for name in Case.__struct_fields__}
        fields["layers"] = layers[case.layers]
        yield Case(**fields)


def _cases_of_rows(file: Any) -> Iterator[_Case]:
    for levels, samples in file.rows:
        factors = dict(zip(file.factors, levels, strict=True))
        columns = zip(file.columns, samples, strict=True)
        series: SeriesByQuantity
        series = {name: (sample,) for name, sample in columns if sample is not None}
        yield _Case(factors=factors, series=series)


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


EVENT_QUANTITIES: Final = _Events.__struct_fields__


def split_events(cases: Iterable[Case]) -> tuple[tuple[Case, ...], bytes]:
    """Move the events out of ``cases``.

    Returns the cases without events, and the content of the attachment; b"" if no case has events.
    """
    lines: list[bytes] = []
    remaining: list[Case] = []
    for case in cases:
        events = {name: case.series[name] for name in EVENT_QUANTITIES if name in case.series}
        others = {name: samples for name, samples in case.series.items() if name not in events}
        remaining.append(msgspec.structs.replace(case, series=others))
        lines.append(msgspec.json.encode(events))
    if all(line == b"{}" for line in lines):
        return tuple(remaining), b""
    return tuple(remaining), gzipped(b"[" + b",\n".join(lines) + b"]\n")


def join_events(record: Record, content: bytes | Missing, place: str) -> Record:
    """Move the events of the attachment ``place`` into the cases; raises ``RecordError``.

    If the attachment is missing, its reason becomes the reason why the events are missing.
    """
    if isinstance(content, Missing):
        reasons = dict.fromkeys(EVENT_QUANTITIES, content.reason)
        missing = {**record.environment.missing, **reasons}
        environment = msgspec.structs.replace(record.environment, missing=missing)
        return msgspec.structs.replace(record, environment=environment)
    text = unpacked(content, place, REMEDY)
    events_of_cases = strict.parse_json(text, tuple[_Events, ...], place, REMEDY)
    if len(events_of_cases) != len(record.cases):
        count = f"{len(events_of_cases)} cases, but the record has {len(record.cases)}"
        raise RecordError(f"{place}: found the events of {count}; {REMEDY}.")
    cases: list[Case] = []
    for case, events in zip(record.cases, events_of_cases, strict=True):
        by_quantity = msgspec.structs.asdict(events)
        series = {name: samples for name, samples in by_quantity.items() if samples}
        cases.append(msgspec.structs.replace(case, series={**series, **case.series}))
    return msgspec.structs.replace(record, cases=tuple(cases))
