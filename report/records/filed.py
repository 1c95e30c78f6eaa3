"""The record as it lies in a file: JSON in which nothing stands twice.

Every network's layers stand once, as those of one image, and cases refer to them; in memory a case
has its layers at hand.  A file holds a line for each series, layer and ceiling, so that git can
compare runs and people can read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.faults import faults
from report.records.layers import Extent, Layer
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Case,
    Ceiling,
    Code,
    Environment,
    Factor,
    Protocol,
    Record,
    Round,
    Series,
    Slug,
    Status,
    Text,
    Timestamp,
)


class _Filed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of a file: every field required, no other field allowed."""


class LayersRef(_Filed, frozen=True):
    """The layers of a case: those of ``networks[network]`` at ``batch`` images."""

    network: Annotated[int, msgspec.Meta(ge=0)]
    batch: Extent


class FiledCase(_Filed, frozen=True, omit_defaults=True):
    """One combination of factors with its outcome; ``reason`` is null exactly when it is ok."""

    factors: dict[str, Factor]
    status: Status
    reason: Text | None
    layers: LayersRef | None
    series: tuple[Series, ...]
    rounds: tuple[Round, ...] = ()


class FiledRecord(_Filed, frozen=True):
    """One invocation of one experiment on one machine.

    ``networks`` are the layers of each network that ran, in the order of running.
    """

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
    study: Slug
    started: Timestamp
    finished: Timestamp
    command: tuple[Text, ...]
    code: Code
    protocol: Protocol
    environment: Environment
    ceilings: tuple[Ceiling, ...]
    networks: tuple[tuple[Layer, ...], ...]
    cases: tuple[FiledCase, ...]
    attachments: tuple[Attachment, ...]


class _Versioned(msgspec.Struct):
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_REMEDY: Final = "restore the file with git, or run the experiment again"
#: So deep may a part be that stands in one line.
_FLAT: Final = 2
_SHARED: Final = ("study", "started", "finished", "command", "code", "protocol")
_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(FiledRecord)
_versioned = msgspec.json.Decoder(_Versioned)


# -------------------------------------------------------------------------------------- writing


def encode(record: Record) -> bytes:
    """The record as JSON, a line for each part that a person reads as one."""
    return _laid_out(msgspec.json.decode(_encoder.encode(_filed(record))), "").encode()


def content_hash(record: Record) -> str:
    """Eight hexadecimal digits that change with any value of the record (not with its layout)."""
    return hashlib.sha256(_encoder.encode(_filed(record))).hexdigest()[:8]


def file_hash(text: bytes) -> str | None:
    """``content_hash`` of a record that lies as ``encode`` wrote it, without reading it.

    In any other order of its fields the digits are others; None for what is no JSON.
    """
    try:
        return hashlib.sha256(msgspec.json.format(text, indent=-1)).hexdigest()[:8]
    except strict.NO_JSON:
        return None


def _filed(record: Record) -> FiledRecord:
    networks: dict[tuple[Layer, ...], int] = {}
    known: dict[int, LayersRef | None] = {}  # by identity: cases share their layers

    def ref(layers: tuple[Layer, ...]) -> LayersRef | None:
        if not layers:
            return None
        batch = _batch(layers)
        of_one = tuple(_at_batch(layer, 1) for layer in layers) if batch else layers
        return LayersRef(network=networks.setdefault(of_one, len(networks)), batch=batch or 1)

    cases = []
    for case in record.cases:
        if id(case.layers) not in known:
            known[id(case.layers)] = ref(case.layers)
        fields = {name: getattr(case, name) for name in FiledCase.__struct_fields__}
        cases.append(FiledCase(**{**fields, "layers": known[id(case.layers)]}))
    return FiledRecord(
        schema=record.schema,
        **{name: getattr(record, name) for name in _SHARED},
        environment=record.environment,
        ceilings=record.ceilings,
        networks=tuple(networks),
        cases=tuple(cases),
        attachments=record.attachments,
    )


def _batch(layers: Sequence[Layer]) -> int | None:
    """The images that all layers have in their shapes; None where they differ."""
    found = {shape[0] for layer in layers for shape in (layer.input_shape, layer.output_shape)}
    return found.pop() if len(found) == 1 else None


def _at_batch(layer: Layer, batch: int) -> Layer:
    return msgspec.structs.replace(
        layer,
        input_shape=(batch, *layer.input_shape[1:]),
        output_shape=(batch, *layer.output_shape[1:]),
    )


def _laid_out(part: Any, indent: str) -> str:
    """``part`` in one line where it is flat, else each of its members in lines of its own."""
    if _depth(part) <= _FLAT or not part:
        return msgspec.json.encode(part).decode()
    inner = indent + " "
    if isinstance(part, dict):
        members = [
            f"{inner}{msgspec.json.encode(key).decode()}: {_laid_out(member, inner)}"
            for key, member in part.items()
        ]
        return "{\n" + ",\n".join(members) + f"\n{indent}}}"
    members = [inner + _laid_out(member, inner) for member in part]
    return "[\n" + ",\n".join(members) + f"\n{indent}]"


def _depth(part: Any) -> int:
    """How many containers lie in each other, up to one more than a line may hold."""
    if isinstance(part, dict):
        return 1 + max(map(_depth, part.values()), default=0)
    if isinstance(part, list):
        # A series of samples holds numbers alone.
        return (
            1
            if part and isinstance(part[0], int | float)
            else 1 + max(map(_depth, part), default=0)
        )
    return 0


# -------------------------------------------------------------------------------------- reading


def parse(text: bytes, place: str, *, as_written: bool = False) -> Record:
    """Read one record from JSON.

    ``place`` names the file in messages; ``as_written`` says that the text is one that ``encode``
    wrote, in which no field can stand twice.  Raises ``RecordError`` with the file, the field, what
    was found and what to do.
    """
    with strict.no_cycles():
        try:
            # One look at a file that is right; at any other a second one tells why it is not.
            filed = _decoder.decode(text)
        except strict.NO_JSON:
            filed = _other(text, place)
        if not as_written:
            strict.refuse_repeated_keys(text, place, _REMEDY)
        record = _record(filed, place)
        strict.refuse_first(faults(record), place, _REMEDY)
    return record


def _record(filed: FiledRecord, place: str) -> Record:
    """The record in memory; cases of the same layers share them."""
    known: dict[tuple[int, int], tuple[Layer, ...]] = {}

    def layers(index: int, ref: LayersRef | None) -> tuple[Layer, ...]:
        if ref is None:
            return ()
        if ref.network >= len(filed.networks):
            raise RecordError(
                f"{place}: cases[{index}].layers.network: found {ref.network}, but the record has "
                f"{len(filed.networks)} networks; {_REMEDY}."
            )
        if (ref.network, ref.batch) not in known:
            of_one = filed.networks[ref.network]
            at = ref.batch
            known[ref.network, at] = (
                of_one if at == 1 else tuple(_at_batch(layer, at) for layer in of_one)
            )
        return known[ref.network, ref.batch]

    return Record(
        schema=filed.schema,
        **{name: getattr(filed, name) for name in _SHARED},
        environment=filed.environment,
        ceilings=filed.ceilings,
        cases=tuple(
            Case(
                factors=case.factors,
                status=case.status,
                reason=case.reason,
                layers=layers(index, case.layers),
                series=case.series,
                rounds=case.rounds,
            )
            for index, case in enumerate(filed.cases)
        ),
        attachments=filed.attachments,
    )


# ------------------------------------------------------------------------------------ migration


def _to_2(data: dict[str, Any]) -> dict[str, Any]:
    """From version 1: layers move to the networks, processes become rounds of one case."""
    networks: dict[bytes, int] = {}
    layers: dict[bytes, dict[str, int] | None] = {}
    cases: dict[bytes, dict[str, Any]] = {}
    for case in data["cases"]:
        written = msgspec.json.encode(case["layers"])
        if written not in layers:
            layers[written] = _migrated_layers(case["layers"], networks)
        case["layers"] = layers[written]
        factors = {name: level for name, level in case["factors"].items() if name != "process"}
        if len(factors) == len(case["factors"]):
            key = msgspec.json.encode(("one", len(cases)))
            cases[key] = case
            continue
        first = cases.setdefault(
            msgspec.json.encode(sorted(factors.items())),
            {**case, "factors": factors, "series": [], "rounds": []},
        )
        first["rounds"].append(
            {
                "process": case["factors"]["process"],
                "policy": None,
                "status": case["status"],
                "reason": case["reason"],
                "disturbance": None,
                "series": case["series"],
            }
        )
        if case["status"] == "ok":
            first.update(status="ok", reason=None)
    found = [msgspec.json.decode(text) for text in networks]
    return {**data, "schema": 2, "networks": found, "cases": list(cases.values())}


def _migrated_layers(
    layers: list[dict[str, Any]], networks: dict[bytes, int]
) -> dict[str, int] | None:
    """The reference to ``layers``, which are added to the ``networks`` if they are new."""
    if not layers:
        return None
    shapes = ("input_shape", "output_shape")
    batches = {layer[name][0] for layer in layers for name in shapes}
    if len(batches) == 1:
        layers = [{**layer, **{n: [1, *layer[n][1:]] for n in shapes}} for layer in layers]
    batch = batches.pop() if len(batches) == 1 else 1
    network = networks.setdefault(msgspec.json.encode(layers), len(networks))
    return {"network": network, "batch": batch}


#: ``MIGRATIONS[n]`` turns the plain dictionary of a version ``n`` record into one of ``n + 1``.
MIGRATIONS: Final[dict[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {1: _to_2}


def _other(text: bytes, place: str) -> FiledRecord:
    """A record of an older schema; raises ``RecordError`` for what is none."""
    version = _schema_version(text, place)
    if version < SCHEMA_VERSION:
        return _migrated(text, version, place)
    return strict.parse_json(text, _decoder.decode, place, _REMEDY)


def _schema_version(text: bytes, place: str) -> int:
    """The version that the file states, one that ``parse`` can read; else ``RecordError``."""
    raw = strict.parse_json(text, _versioned.decode, place, _REMEDY).schema
    if raw is msgspec.UNSET:
        raise RecordError(
            f"{place}: schema: this field is missing, so the file's version is unknown; {_REMEDY}."
        )
    try:
        version = msgspec.json.decode(raw)
    except strict.NO_JSON:  # a number out of range
        version = None
    if not isinstance(version, int) or isinstance(version, bool):
        found = bytes(raw).decode()
        raise RecordError(f"{place}: schema: expected a whole number, found {found}; {_REMEDY}.")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{place}: schema: found version {version}, newer than {SCHEMA_VERSION}, the newest "
            "that this ridgepoint reads; update ridgepoint to build from it."
        )
    oldest = min(MIGRATIONS, default=SCHEMA_VERSION)
    if version < oldest:
        raise RecordError(
            f"{place}: schema: found version {version}, older than {oldest}, the oldest that this "
            "ridgepoint can migrate; run the experiment again."
        )
    return version


def _migrated(text: bytes, version: int, place: str) -> FiledRecord:
    """An older record, brought up the ladder of ``MIGRATIONS`` and then read like a new one."""
    data = strict.parse_json(text, msgspec.json.decode, place, _REMEDY)
    for step in range(version, SCHEMA_VERSION):
        try:
            data = MIGRATIONS[step](data)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RecordError(
                f"{place}: {error}: not what a record of schema version {step} holds here, so it "
                f"cannot be migrated; {_REMEDY}."
            ) from error
    try:
        return msgspec.convert(data, FiledRecord)
    except msgspec.ValidationError as error:
        raise strict.refusal(error, data, place, _REMEDY) from error
