"""The head of a record: what it says of itself beside its cases, enough to choose between records.

Reading it takes a small part of the time of reading the record, and no memory for its cases.
"""

from __future__ import annotations

from typing import Annotated, Final, NamedTuple

import msgspec

from report.records import strict
from report.records.filed import parse
from report.records.record import (
    SCHEMA_VERSION,
    Attachment,
    Code,
    Environment,
    Factor,
    Protocol,
    Record,
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


class Outcome(msgspec.Struct, frozen=True, gc=False):
    """How one combination of factors ended; ``reason`` is null exactly when it went well."""

    factors: dict[str, Factor]
    status: Status
    reason: Text | None


class Listing(NamedTuple):
    """What a list of records tells of one; ``whole`` is the record where it had to be read."""

    head: Head
    outcomes: tuple[Outcome, ...]
    whole: Record | None = None


class _Outcomes(msgspec.Struct, gc=False):
    cases: tuple[Outcome, ...]


class _WithOutcomes(Head, frozen=True, kw_only=True, gc=False):
    """Both in one look at the text, most of which is neither."""

    cases: tuple[Outcome, ...]


_FIELDS: Final = Head.__struct_fields__
_both = msgspec.json.Decoder(_WithOutcomes)
_head = msgspec.json.Decoder(Head)
_outcomes = msgspec.json.Decoder(_Outcomes)


def parse_listing(text: bytes, place: str) -> Listing:
    """Read the head of a record, and how each of its cases ended.

    There are no outcomes where the cases are wrong: only whether a record is used needs them to be
    right, and is told by who uses it.  Raises ``RecordError`` for a wrong head as
    ``report.records.filed.parse`` does.
    """
    try:
        both = _both.decode(text)
    except strict.NO_JSON:
        return _by_parts(text, place)
    return Listing(_head_of(both), both.cases)


def _by_parts(text: bytes, place: str) -> Listing:
    """What can be told of a text whose head or cases are not as they should be."""
    try:
        # As they lie in the file: later schemas put some of an older one's cases together.
        outcomes = _outcomes.decode(text).cases
    except strict.NO_JSON:
        return _by_head(text, place)
    # The head is of an older schema, or wrong: either is a matter of the whole record.
    whole = parse(text, place)
    return Listing(_head_of(whole), outcomes, whole)


def _by_head(text: bytes, place: str) -> Listing:
    """What can be told of a text whose cases are none of this schema."""
    try:
        return Listing(_head.decode(text), ())
    except strict.NO_JSON:
        whole = parse(text, place)
    cases = tuple(Outcome(case.factors, case.status, case.reason) for case in whole.cases)
    return Listing(_head_of(whole), cases, whole)


def _head_of(wider: _WithOutcomes | Record) -> Head:
    return Head(**{name: getattr(wider, name) for name in _FIELDS})
