"""The record as it lies in a file: JSON in which nothing stands twice.

Every network's layers stand once, as those of one image, and cases refer to them; in memory a case
has its layers at hand.  A
file holds a line for each series, layer and ceiling, so that git can compare runs and
people can read them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.faults import faults
from report.records.layers import Extent, Layer
from report.records.migration import MIGRATIONS
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Case,
    Factor,
    Record,
    Round,
    Series,
    Status,
    Text,
    Whole,
)

#: The layers that a network runs, in their order.
Network: TypeAlias = Annotated[tuple[Layer, ...], msgspec.Meta(min_length=1)]


class _Filed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, gc=False):
    """A part of a file: every field required, no other field allowed."""


class LayersRef(_Filed, frozen=True):
    """The layers of a case: those of ``networks[network]`` at ``batch`` images."""

    network: Annotated[int, msgspec.Meta(ge=0)]
    batch: Extent


class FiledCase(_Filed, frozen=True, omit_defaults=True):
    """One combination of factors with its outcome; ``reason`` is null exactly when it is ok.

    ``layers`` is null where none ran; ``rounds`` stand where there are any.  ``operations`` of
    older records are not read.
    """

    factors: dict[str, Factor]
    status: Status
    reason: Text | None
    layers: LayersRef | None
    series: tuple[Series, ...]
    rounds: tuple[Round, ...] = ()
    operations: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


class FiledRecord(Whole, frozen=True, kw_only=True, omit_defaults=True):
    """One invocation of one experiment on one machine.

    ``networks`` are the layers of each network that ran, in the order of running: as of one image,
    or, where the layers of one run differ in their images, as they ran.
    """

    operations: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    networks: tuple[Network, ...]
    cases: tuple[FiledCase, ...]
    attachments: tuple[Attachment, ...]


class _Versioned(msgspec.Struct):
    schema: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_REMEDY: Final = "restore the file with git, or run the experiment again"
#: So many lists and mappings may lie in each other in one line: a series with its samples.
_LINE_DEPTH: Final = 2
_HOLDING: Final = (dict, list)
#: All but the cases lies in a file as it is in memory.
_SHARED: Final = tuple(name for name in Record.__struct_fields__ if name != "cases")
_encoder = msgspec.json.Encoder(order="deterministic")
_decoder = msgspec.json.Decoder(FiledRecord)
_versioned = msgspec.json.Decoder(_Versioned)


# -------------------------------------------------------------------------------------- writing


def encode(record: Record) -> bytes:
    """The record as JSON, a line for each part that a person reads as one."""
    return laid_out(msgspec.json.decode(_encoder.encode(_filed(record)))).encode()


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
    networks: dict[Network, int] = {}
    # By identity, since cases share their layers and comparing all of them would take long.
    known = {id(case.layers): case.layers for case in record.cases}
    refs = {key: _ref(layers, networks) for key, layers in known.items()}
    return FiledRecord(
        **{name: getattr(record, name) for name in _SHARED},
        networks=tuple(networks),
        cases=tuple(
            FiledCase(
                factors=case.factors,
                status=case.status,
                reason=case.reason,
                layers=refs[id(case.layers)],
                series=case.series,
                rounds=case.rounds,
            )
            for case in record.cases
        ),
    )


def _ref(layers: Network, networks: dict[Network, int]) -> LayersRef | None:
    """How a case refers to its layers, which are added to the ``networks`` if they are new."""
    if not layers:
        return None
    batch = _batch(layers)
    network = layers if batch is None else _at_batch(layers, 1)
    return LayersRef(network=networks.setdefault(network, len(networks)), batch=batch or 1)


def _batch(layers: Network) -> int | None:
    """The images that all layers have in their shapes; None where they differ."""
    found = {shape[0] for layer in layers for shape in (layer.input_shape, layer.output_shape)}
    return found.pop() if len(found) == 1 else None


def _at_batch(layers: Network, batch: int) -> Network:
    return tuple(
        msgspec.structs.replace(
            layer,
            input_shape=(batch, *layer.input_shape[1:]),
            output_shape=(batch, *layer.output_shape[1:]),
        )
        for layer in layers
    )


def laid_out(part: Any, indent: str = "") -> str:
    """``part`` as JSON, in one line where it is flat, else each member in lines of its own."""
    if type(part) not in _HOLDING or not part or _flat(part, _LINE_DEPTH):
        return _one_line(part)
    inner = indent + " "
    if isinstance(part, dict):
        opening, closing = "{}"
        members = [f"{_compact(key)}: {laid_out(part[key], inner)}" for key in part]
    else:
        opening, closing = "[]"
        members = [laid_out(member, inner) for member in part]
    lines = f",\n{inner}".join(members)
    return f"{opening}\n{inner}{lines}\n{indent}{closing}"


def _one_line(part: Any) -> str:
    """With spaces where a person looks, not between thousands of samples."""
    if type(part) is not dict:
        return _compact(part)
    return "{" + ", ".join(f"{_compact(key)}: {_compact(part[key])}" for key in part) + "}"


def _compact(part: Any) -> str:
    return msgspec.json.encode(part).decode()


def _flat(part: Any, depth: int) -> bool:
    """Whether at most ``depth`` lists and mappings lie in each other."""
    members = part.values() if isinstance(part, dict) else part
    inner = (member for member in members if type(member) in _HOLDING)
    return depth > 0 and all(_flat(member, depth - 1) for member in inner)


# -------------------------------------------------------------------------------------- reading


def parse(text: bytes, place: str) -> Record:
    """Read one record from JSON.

    ``place`` names the file in messages.  Raises ``RecordError`` with the file, the field, what was
    found and what to do.
    """
    with strict.no_cycles():
        try:
            # One look at a file that is right; at any other a second one tells why it is not.
            filed = _decoder.decode(text)
        except strict.NO_JSON:
            filed = _other(text, place)
        strict.refuse_repeated_keys(text, place, _REMEDY)
        record = _record(filed, place)
        strict.refuse_first(faults(record), place, _REMEDY)
    return record


def _record(filed: FiledRecord, place: str) -> Record:
    """The record in memory; cases of the same layers share them."""
    known: dict[LayersRef | None, tuple[Layer, ...]] = {None: ()}
    for index, case in enumerate(filed.cases):
        if case.layers is not None and case.layers not in known:
            where = f"{place}: cases[{index}].layers"
            known[case.layers] = _layers(case.layers, filed.networks, where)
    return Record(
        **{name: getattr(filed, name) for name in _SHARED},
        cases=tuple(
            Case(
                factors=case.factors,
                status=case.status,
                reason=case.reason,
                layers=known[case.layers],
                series=case.series,
                rounds=case.rounds,
            )
            for case in filed.cases
        ),
    )


def _layers(ref: LayersRef, networks: Sequence[Network], where: str) -> Network:
    """The layers to which a case refers; raises ``RecordError`` where there are none."""
    if ref.network >= len(networks):
        raise RecordError(
            f"{where}.network: found {ref.network}, but the record has {len(networks)} networks; "
            f"{_REMEDY}."
        )
    network = networks[ref.network]
    if ref.batch == 1:
        return network
    if _batch(network) != 1:
        raise RecordError(
            f"{where}.batch: found {ref.batch}, but the layers of networks[{ref.network}] are not "
            f"those of one image; {_REMEDY}."
        )
    return _at_batch(network, ref.batch)


# ------------------------------------------------------------------------------- older versions


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
            f"{place}: schema: this field is missing, so this is no record or its version is "
            f"unknown; move what is not a record elsewhere, or {_REMEDY}."
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
