"""The file format of records: JSON with one line per round.

A file stores each distinct layer once, with a batch of one image; if the layers of a network differ
in their batch, each is stored with the batch that ran.  Networks refer to layers by number, cases
to networks by number.  Reading converts durations in nanoseconds (see ``units``) to seconds.

Events of PyTorch's allocator are in an attachment, since no person reads them and they would be
most of the text of a record.  In memory the events are series of the cases.  Records of runs until
November 2026 contain the events in the file itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
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

#: Kind of record: measured by this project, or imported.
Kind = TypeVar("Kind", Record, ImportedRecord)
LayerIndex: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
LayerName: TypeAlias = Annotated[str, msgspec.Meta(max_length=LONGEST_NAME)]
#: The layers of a network in order, as (name, index in ``layers``).
NetworkReference: TypeAlias = Annotated[
    tuple[tuple[LayerName, LayerIndex], ...], msgspec.Meta(min_length=1)
]
#: The layers of a case, as (index in ``networks``, batch).
CaseLayers: TypeAlias = tuple[LayerIndex, Extent]
#: A case with status ok: the levels of its factors, and one sample or null per quantity.
CaseRow: TypeAlias = tuple[tuple[Level, ...], tuple[Sample | None, ...]]

#: Longest line (characters) whose changes GitHub and similar sites show.
_LONGEST_LINE: Final = 9_000
#: Length (characters) of the lines to which longer lists are wrapped.
_WRAPPED_LINE: Final = 1_000
#: The kind of record that this project measures, as the default of functions that read records.  It
#: is typed as ``Any``, since no single class is a valid default for a ``type[Kind]``.
OWN_RECORD: Final[Any] = Record
REMEDY: Final = "restore the file with git, or run the experiment or the import again"


class _Case(Case, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A case in a file; ``layers`` is None if no layers ran."""

    layers: CaseLayers | None = None  # type: ignore[assignment]


def _file_of(kind: type[msgspec.Struct]) -> Any:
    """Define the type of a file: the fields of a record, and the tables that cases refer to.

    ``rows`` is a compact form of cases: the levels of the factors named in ``factors``, and one
    sample or null for each quantity named in ``columns``.  Only imports until November 2026 wrote
    rows.
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


def encode(record: Record | ImportedRecord) -> bytes:
    """Encode a record as JSON, with one line per round, layer, network and similar part."""
    # Layer and network → number; layers of a case → reference to them.
    layers: dict[Layer, int] = {}
    networks: dict[tuple[tuple[str, int], ...], int] = {}
    references: dict[tuple[Layer, ...], CaseLayers] = {}
    cases: list[dict[str, Any]] = []
    quantities = set[str]()
    for case in record.cases:
        for series in case.all_series:
            quantities.update(series)
        factors = dict(sorted(case.factors.items()))
        without_layers = msgspec.structs.replace(case, factors=factors, layers=())
        case_content = msgspec.to_builtins(without_layers, enc_hook=list)
        if case.layers:
            if case.layers not in references:
                references[case.layers] = _reference_to(case.layers, layers, networks)
            case_content["layers"] = references[case.layers]
        cases.append(case_content)
    content = msgspec.to_builtins(msgspec.structs.replace(record, cases=()), order="deterministic")
    del content["cases"]
    content |= {
        "units": {name: QUANTITIES[name].unit for name in sorted(quantities)},
        "layers": msgspec.to_builtins(tuple(layers)),
        "networks": tuple(networks),
        "cases": cases,
    }
    return f"{_encode_json(content)}\n".encode()


def _reference_to(
    layers_of_case: Sequence[Layer],
    layers: dict[Layer, int],
    networks: dict[tuple[tuple[str, int], ...], int],
) -> CaseLayers:
    """Return a case's index in ``networks`` and batch; add new layers and networks to both."""
    batch = _common_batch(layers_of_case)
    network = []
    for layer in layers_of_case if batch is None else at_batch(layers_of_case, 1):
        nameless_layer = msgspec.structs.replace(layer, name="")
        number = layers.setdefault(nameless_layer, len(layers))
        network.append((layer.name, number))
    return networks.setdefault(tuple(network), len(networks)), batch or 1


def _common_batch(layers: Iterable[Layer]) -> int | None:
    """Return the batch (first extent) that all shapes of ``layers`` share; None if they differ."""
    batches = set[int]()
    for layer in layers:
        batches |= {layer.input_shape[0], layer.output_shape[0]}
    return batches.pop() if len(batches) == 1 else None


def _encode_json(part: Any, depth: int = 0) -> str:
    """Encode JSON with one line per object in a list and per field of the two top levels.

    Objects and lists longer than ``_LONGEST_LINE`` are broken.  ``depth`` is the level of ``part``:
    the number of spaces before its closing bracket, and one fewer than before its fields.
    """
    line_break = "\n" + " " * depth
    between = f",{line_break} "
    if isinstance(part, list | tuple) and part and isinstance(part[0], dict):
        objects = between.join(_encode_json(value, depth + 1) for value in part)
        return f"[{line_break} {objects}{line_break}]"
    if not isinstance(part, dict) or not part:
        text = msgspec.json.encode(part).decode()
        if isinstance(part, list | tuple) and len(text) > _LONGEST_LINE:
            return _encode_wrapped(part, depth)
        return text
    members = [
        f"{_encode_json(name)}: {_encode_json(value, depth + 1)}" for name, value in part.items()
    ]
    together = "{" + ", ".join(members) + "}"
    longest_line = max(len(line) for line in together.split("\n"))
    in_top_levels = depth < 2
    if in_top_levels or longest_line > _LONGEST_LINE:
        return "{" + line_break + " " + between.join(members) + line_break + "}"
    return together


def _encode_wrapped(elements: Sequence[Any], depth: int) -> str:
    """Encode a list as JSON, with as many elements per line as ``_WRAPPED_LINE`` has room for."""
    lines: list[str] = []
    line = ""
    for element in elements:
        text = _encode_json(element, depth + 1)
        if line and len(line) + len(text) > _WRAPPED_LINE:
            lines.append(line)
            line = ""
        line += f",{text}" if line else text
    lines.append(line)
    line_break = "\n" + " " * (depth + 1)
    return f"[{line_break}" + f",{line_break}".join(lines) + "]"


def json_schema() -> bytes:
    """Return the content of ``docs/record.schema.json``, for own and imported records.

    Each definition is one line; its description is the docstring of the class.
    """
    file_types = [file_type for file_type, _ in _FILE_TYPES.values()]
    files, definitions = msgspec.json.schema_components(file_types, ref_template="#/$defs/{name}")
    lines: list[str] = []
    for name, definition in definitions.items():
        lines.append(f"{_encode_json(name)}: {msgspec.json.encode(definition).decode()}")
    schema = (
        '{\n"$schema": "https://json-schema.org/draft/2020-12/schema",\n'
        f'"anyOf": {msgspec.json.encode(files).decode()},\n'
        '"$defs": {\n' + ",\n".join(lines) + "\n}}\n"
    )
    return schema.encode()


class _StatedVersion(msgspec.Struct):
    """The version that a file states, if the file cannot be parsed."""

    schema: int


def parse(
    text: bytes,
    place: str,
    kind: type[Kind] = OWN_RECORD,
    remedy: str = REMEDY,
    *,
    unaltered: bool = False,
) -> Kind:
    """Parse the JSON of a record, and check the record.

    ``unaltered``: the name of the file has the hash of the text.

    Raises ``RecordError`` with the ``place`` of the file, the field, the fault and the ``remedy``;
    for another version of the format the remedy is to measure or import again, or an update.
    """
    file_type, version = _FILE_TYPES[kind]
    try:
        file = strict.parse_json(text, file_type, place, remedy, unaltered=unaltered)
    except RecordError:
        with suppress(*strict.NO_JSON):
            stated_version = msgspec.json.decode(text, type=_StatedVersion).schema
            if stated_version != version:
                remedy = "run the experiment or the import again"
                if stated_version > version:
                    remedy = "update ridgepoint to build from it"
                raise RecordError(
                    f"{place}: schema: found version {stated_version}, but this ridgepoint reads "
                    f"version {version}; {remedy}."
                ) from None
        raise
    strict.refuse_first(_reference_faults(file), place, remedy)
    strict.refuse_first(_unit_faults(file), place, remedy)
    fields = {name: getattr(file, name) for name in kind.__struct_fields__}
    fields["cases"] = tuple(_cases(file))
    record = kind(**fields)
    strict.refuse_first(faults(record), place, remedy)
    return record


def _reference_faults(file: Any) -> Iterator[str]:
    """Yield rows that do not fit their columns, and references to missing layers and networks."""
    for index, (levels, samples) in enumerate(file.rows):
        if len(levels) != len(file.factors) or len(samples) != len(file.columns):
            yield f"rows[{index}]: found another number of cells than of columns"
    for index, network in enumerate(file.networks):
        if max(number for _, number in network) >= len(file.layers):
            yield f"networks[{index}]: found a layer beyond the {len(file.layers)} of the record"
    network_batches = []
    for network in file.networks:
        network_batches.append(_common_batch(file.layers[number] for _, number in network))
    for index, case in enumerate(file.cases):
        if case.layers is None:
            continue
        number, batch = case.layers
        place = f"cases[{index}].layers"
        if number >= len(network_batches):
            yield f"{place}: found a network beyond the {len(network_batches)} of the record"
        elif batch > 1 and network_batches[number] != 1:
            reason = f"the layers of networks[{number}] are not those of one image"
            yield f"{place}: found {batch} images, but {reason}"


def _unit_faults(file: Any) -> Iterator[str]:
    """Yield unknown quantities, wrong units, and quantities without a unit."""
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

    Cases with equal layers, also of other records, share one tuple of layers, which saves memory.
    """
    quantities_in_ns = [name for name, unit in file.units.items() if unit == "ns"]
    layers_by_reference: dict[CaseLayers | None, tuple[Layer, ...]] = {None: ()}
    for case in (*_cases_of_rows(file), *file.cases):
        for series in case.all_series:
            for name in quantities_in_ns:
                if name in series:
                    series[name] = in_seconds(series[name])
        if case.layers not in layers_by_reference:
            layers_by_reference[case.layers] = _layers_of(case.layers, file)
        yield Case(
            factors=case.factors,
            status=case.status,
            reason=case.reason,
            series=case.series,
            rounds=case.rounds,
            layers=layers_by_reference[case.layers],
        )


def _layers_of(reference: CaseLayers, file: Any) -> tuple[Layer, ...]:
    """Return the layers of a case, with the names of its network and with its batch."""
    network_number, batch = reference
    layers: list[Layer] = []
    for name, number in file.networks[network_number]:
        layers.append(msgspec.structs.replace(file.layers[number], name=name))
    return _at_shared_batch(tuple(layers), batch)


@lru_cache(maxsize=2**10)
def _at_shared_batch(layers: tuple[Layer, ...], batch: int) -> tuple[Layer, ...]:
    """Return the layers with ``batch``; 1 keeps the stored batches, which may differ."""
    return at_batch(layers, batch) if batch > 1 else layers


def _cases_of_rows(file: Any) -> Iterator[_Case]:
    """Convert the rows of a file to cases without layers."""
    for levels, samples in file.rows:
        series: SeriesByQuantity = {}
        for name, sample in zip(file.columns, samples, strict=True):
            if sample is not None:
                series[name] = (sample,)
        yield _Case(factors=dict(zip(file.factors, levels, strict=True)), series=series)


#: Name of the attachment with the events.
EVENTS: Final = "memory_events.json.gz"
#: ``Attachment.meaning`` of the events.
EVENTS_MEANING: Final = "the events of PyTorch's allocator, a line for each case"
_EventBytes: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_EventOwner: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class _Events(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The events of one case; the fields are quantities."""

    memory_events: tuple[_EventBytes, ...] = ()
    memory_events_before: tuple[_EventBytes, ...] = ()
    memory_owners: tuple[_EventOwner, ...] = ()


EVENT_QUANTITIES: Final = _Events.__struct_fields__


def split_events(cases: Iterable[Case]) -> tuple[tuple[Case, ...], bytes]:
    """Separate the allocator's events from ``cases``.

    Returns the cases without events, and the content of the attachment; b"" if no case has events.
    """
    lines: list[bytes] = []
    remaining: list[Case] = []
    for case in cases:
        events = {name: case.series[name] for name in EVENT_QUANTITIES if name in case.series}
        others = {name: samples for name, samples in case.series.items() if name not in events}
        remaining.append(msgspec.structs.replace(case, series=others))
        lines.append(msgspec.json.encode(events, enc_hook=list))
    if all(line == b"{}" for line in lines):
        return tuple(remaining), b""
    return tuple(remaining), gzipped(b"[" + b",\n".join(lines) + b"]\n")


def join_events(record: Record, content: bytes | Missing, place: str) -> Record:
    """Add the events from the ``content`` of their attachment to the cases of ``record``.

    If the attachment is missing, the events are missing for the same reason.  Raises
    ``RecordError``, which names ``place``, for damaged content or another number of cases.
    """
    if isinstance(content, Missing):
        reasons = dict.fromkeys(EVENT_QUANTITIES, content.reason)
        missing = {**record.environment.missing, **reasons}
        environment = msgspec.structs.replace(record.environment, missing=missing)
        return msgspec.structs.replace(record, environment=environment)
    text = unpacked(content, place, REMEDY)
    events_of_cases = strict.parse_json(text, tuple[_Events, ...], place, REMEDY)
    if len(events_of_cases) != len(record.cases):
        counts = f"{len(events_of_cases)} cases, but the record has {len(record.cases)}"
        raise RecordError(f"{place}: found the events of {counts}; {REMEDY}.")
    cases: list[Case] = []
    for case, events in zip(record.cases, events_of_cases, strict=True):
        events_by_quantity = msgspec.structs.asdict(events)
        event_series = {name: events for name, events in events_by_quantity.items() if events}
        cases.append(msgspec.structs.replace(case, series={**event_series, **case.series}))
    return msgspec.structs.replace(record, cases=tuple(cases))
