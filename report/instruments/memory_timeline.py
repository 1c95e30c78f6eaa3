"""A raw memory timeline of torch.profiler read back: the most bytes of each category.

``export_memory_timeline`` with a name that ends in ``.raw.json.gz`` writes a list of events
``[time in ns, action, bytes, category]`` (``torch/profiler/_memory_profiler.py``,
``MemoryProfileTimeline._coalesce_timeline``).  A time of -1 stands for tensors that existed before.
The action gives the sign of the bytes; a tensor that changes its category is subtracted from the
old one and added to the new one.  Reading is strict and pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

import msgspec

from report.core.records import strict
from report.core.records.files import unpacked
from report.core.records.quantities import LARGEST

#: The numbers of torch's ``Category``, and of the ``None`` of tensors that it could not place.
CATEGORIES: Final = (
    "parameter", "optimizer state", "input", "temporary",
    "activation", "gradient", "autograd detail", "unknown",
)  # fmt: skip
#: torch's ``_ACTION_TO_INDEX``; a new version changes no size unless the category changes.
_EXISTING, _CREATE, _VERSION, _DESTROY = 1, 2, 3, 4
_BEFORE: Final = -1
_REMEDY: Final = "give a file that export_memory_timeline wrote with a name in .raw.json.gz"


class Event(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """One line of the file: a change (B, signed) of a category at a moment (ns)."""

    moment: int
    action: int
    change: int
    category: int


def highest_bytes(content: bytes, place: str) -> dict[str, int]:
    """Return the peak bytes of each category from a timeline's file, gzipped or not.

    ``place`` names it in messages.  Raises ``RecordError`` for a file that is cut off, is no such
    timeline, goes back in time, or has less than 0 or more than 2⁶³ − 1 bytes of a category.
    """
    events = strict.parse_json(unpacked(content, place, _REMEDY), tuple[Event, ...], place, _REMEDY)
    strict.refuse_first(_faults(events), place, _REMEDY)
    live, most = [0] * len(CATEGORIES), [0] * len(CATEGORIES)
    for moment, together in groupby(events, key=attrgetter("moment")):
        for event in together:
            live[event.category] += event.change
        strict.refuse_first(_impossible(moment, live), place, _REMEDY)
        most = list(map(max, most, live))
    return dict(zip(CATEGORIES, most, strict=True))


def _impossible(moment: int, live: Sequence[int]) -> Iterator[str]:
    for name, size in zip(CATEGORIES, live, strict=True):
        if not 0 <= size <= LARGEST:
            yield f"the moment {moment}: found {size} B of {name}, which cannot be"


def _faults(events: Sequence[Event]) -> Iterator[str]:
    if not any(event.moment != _BEFORE for event in events):
        yield "the top level: expected events with a time, found none"
    last = _BEFORE
    for index, event in enumerate(events):
        if not 0 <= event.category < len(CATEGORIES):
            yield f"[{index}][3]: expected a category from 0 to 7, found {event.category}"
        elif not _EXISTING <= event.action <= _DESTROY:
            yield f"[{index}][1]: expected an action from 1 to 4, found {event.action}"
        elif (event.action in (_EXISTING, _CREATE) and event.change < 0) or (
            event.action == _DESTROY and event.change > 0
        ):
            yield f"[{index}][2]: found {event.change} B, which action {event.action} cannot do"
        elif event.moment < last:
            yield f"[{index}][0]: found {event.moment}, which is before the event above it"
        last = event.moment
