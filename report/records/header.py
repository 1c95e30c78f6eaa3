"""The head of a record: what it says of itself beside its cases, enough to choose between records.

Reading it takes a small part of the time of reading the record, and no memory for its cases.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from report.errors import RecordError
from report.records import strict
from report.records.filed import parse
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Code,
    Environment,
    Factor,
    Protocol,
    Shard,
    Slug,
    Status,
    Text,
    Timestamp,
)


class Head(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The fields of ``report.records.record.Record`` that tell one run from another."""

    schema: Annotated[int, msgspec.Meta(ge=SCHEMA_VERSION, le=SCHEMA_VERSION)]
    study: Slug
    started: Timestamp
    finished: Timestamp
    command: tuple[Text, ...]
    code: Code
    protocol: Protocol
    environment: Environment
    attachments: tuple[Attachment, ...]
    shard: Shard | None = None


_decoder = msgspec.json.Decoder(Head)


def parse_head(text: bytes, place: str) -> Head:
    """Read the head of a record, and of its cases no more than that they are JSON.

    Raises ``RecordError`` as ``report.records.filed.parse`` does.
    """
    try:
        return _decoder.decode(text)
    except strict.NO_JSON:
        # Of an older schema, or wrong: either is a matter of the whole record.
        whole = parse(text, place)
    return Head(**{name: getattr(whole, name) for name in Head.__struct_fields__})


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How one combination of factors ended; ``reason`` is null exactly when it went well."""

    factors: dict[str, Factor]
    status: Status
    reason: Text | None


class _Outcomes(msgspec.Struct, gc=False):
    cases: tuple[Outcome, ...]


_outcomes = msgspec.json.Decoder(_Outcomes)


def read_outcomes(text: bytes, place: str) -> tuple[Outcome, ...]:
    """How each case of a record ended; nothing where its cases are wrong.

    Only whether a record is used needs its cases to be right, and is told by who uses it.
    """
    try:
        return _outcomes.decode(text).cases
    except strict.NO_JSON:
        try:
            cases = parse(text, place).cases
        except RecordError:
            return ()
    return tuple(Outcome(case.factors, case.status, case.reason) for case in cases)
