"""The events of PyTorch's allocator in cases, which a record keeps in an attachment of their own.

They would make most of the text of a record, and no person reads them.  Records of runs until
November 2026 have them in the series of their cases, as all records have once they are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final, TypeAlias

import msgspec

from report.records import strict
from report.records.files import gzipped, unpacked
from report.records.quantities import LARGEST
from report.records.record import Case, Measured, Record

NAME: Final = "memory_events.jsonl.gz"
MEANING: Final = "the events of PyTorch's allocator, a line for each case"
_REMEDY: Final = "restore the file with git, or run the experiment again"
_Change: TypeAlias = Annotated[int, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST)]


class _CaseEvents(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The events of one case by quantity; ``case`` is its place in the record."""

    case: _Number
    memory_events: tuple[_Change, ...] = ()
    memory_events_before: tuple[_Change, ...] = ()
    memory_owners: tuple[_Number, ...] = ()

    @property
    def series(self) -> Measured:
        """The events as series of the case."""
        events = {name: getattr(self, name) for name in _QUANTITIES}
        return {name: changes for name, changes in events.items() if changes}


_QUANTITIES: Final = _CaseEvents.__struct_fields__[1:]


def split_events(cases: Iterable[Case]) -> tuple[tuple[Case, ...], bytes]:
    """Move the events out of ``cases``; returns these and the attachment, empty without events."""
    lines: list[bytes] = []
    rest: list[Case] = []
    for index, case in enumerate(cases):
        events = {name: case.series[name] for name in _QUANTITIES if name in case.series}
        others = {name: s for name, s in case.series.items() if name not in events}
        rest.append(msgspec.structs.replace(case, series=others))
        if events:
            lines.append(msgspec.json.encode({"case": index, **events}) + b"\n")
    return tuple(rest), gzipped(b"".join(lines)) if lines else b""


def join_events(record: Record, content: bytes, place: str) -> Record:
    """Put the events of the attachment ``place`` back into the cases.

    Raises ``RecordError`` for events that are of no case.
    """
    lines = unpacked(content, place, _REMEDY).splitlines()
    events = [strict.parse_json(line, _CaseEvents, place, _REMEDY) for line in lines]
    strict.refuse_first(_faults(record, events), place, _REMEDY)
    cases = list(record.cases)
    for item in events:
        case = cases[item.case]
        cases[item.case] = msgspec.structs.replace(case, series={**item.series, **case.series})
    return msgspec.structs.replace(record, cases=tuple(cases))


def _faults(record: Record, events: Sequence[_CaseEvents]) -> Iterator[str]:
    """Lines of no case of ``record``, and cases that have events already."""
    seen: set[int] = set()
    for number, item in enumerate(events, start=1):
        if item.case >= len(record.cases):
            yield f"line {number}: found case {item.case} of {len(record.cases)}"
        elif item.case in seen or record.cases[item.case].series.keys() & item.series.keys():
            yield f"line {number}: found the events of case {item.case} twice"
        seen.add(item.case)


def without_events(record: Record, reason: str) -> Record:
    """Say in ``record`` why its events are missing."""
    missing = {**record.environment.missing, **dict.fromkeys(_QUANTITIES, reason)}
    environment = msgspec.structs.replace(record.environment, missing=missing)
    return msgspec.structs.replace(record, environment=environment)
