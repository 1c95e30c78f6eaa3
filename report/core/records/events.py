"""Events of PyTorch's allocator, which a record stores in an attachment of their own.

They would be most of a record's text, and no person reads them.  In memory they are series of their
cases; records of runs until November 2026 store them that way in the file, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import msgspec

from report.core.errors import RecordError
from report.core.records.files import gzipped, unpacked
from report.core.records.quantities import LARGEST
from report.core.records.record import Case, Record
from report.core.records.strict import parse_json

NAME: Final = "memory_events.json.gz"
MEANING: Final = "the events of PyTorch's allocator, a line for each case"
_REMEDY: Final = "restore the file with git, or run the experiment again"
_Change: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class _Events(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The events of one case by quantity."""

    memory_events: tuple[_Change, ...] = ()
    memory_events_before: tuple[_Change, ...] = ()
    memory_owners: tuple[_Number, ...] = ()


_QUANTITIES: Final = _Events.__struct_fields__


def split_events(cases: Iterable[Case]) -> tuple[tuple[Case, ...], bytes]:
    """Move the events out of ``cases``; return the cases and the attachment, or b""."""
    lines: list[bytes] = []
    rest: list[Case] = []
    for case in cases:
        events = {name: case.series[name] for name in _QUANTITIES if name in case.series}
        others = {name: s for name, s in case.series.items() if name not in events}
        rest.append(msgspec.structs.replace(case, series=others))
        lines.append(msgspec.json.encode(events))
    if set(lines) <= {b"{}"}:
        return tuple(rest), b""
    return tuple(rest), gzipped(b"[%b]\n" % b",\n".join(lines))


def join_events(record: Record, content: bytes, place: str) -> Record:
    """Move the events of the attachment ``place`` into the cases; raises ``RecordError``."""
    kind = tuple[_Events, ...]
    events = parse_json(unpacked(content, place, _REMEDY), kind, place, _REMEDY)
    if len(events) != len(record.cases):
        count = f"{len(events)} cases, but the record has {len(record.cases)}"
        raise RecordError(f"{place}: found the events of {count}; {_REMEDY}.")
    cases: list[Case] = []
    for case, own in zip(record.cases, events, strict=True):
        known = {name: s for name, s in msgspec.structs.asdict(own).items() if s}
        cases.append(msgspec.structs.replace(case, series={**known, **case.series}))
    return msgspec.structs.replace(record, cases=tuple(cases))


def without_events(record: Record, reason: str) -> Record:
    """Return the record with the reason why its events are missing."""
    missing = {**record.environment.missing, **dict.fromkeys(_QUANTITIES, reason)}
    environment = msgspec.structs.replace(record.environment, missing=missing)
    return msgspec.structs.replace(record, environment=environment)
