"""Which hardware events count floating-point work, and what ``perf stat`` prints of them; pure.

Event names and their meaning are those of the vendors as Linux carries them
(``tools/perf/pmu-events/arch/x86``, the files ``floating-point.json`` of each processor):

- Intel from Skylake on, ``fp_arith_inst_retired``: an event for each vector width counts
  instructions; a fused multiply-add counts twice.  So an increment is worth the lanes in FLOPs.
- AMD from Zen 2 on, ``fp_ret_sse_avx_ops``: FLOPs themselves, of float32 and float64 together, a
  multiply-add as 2; Zen 1 has events of float32 alone.  Each such event takes two of the six
  counters, so that three fit at once: division and square roots are left out.

Processors whose cores are of two kinds have events for each, and are not in the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from report.errors import RecordError, shorten
from report.instruments.counters.logs import REMEDY
from report.records.record import Series

TOOL: Final = "perf"
FLOPS: Final = "perf_flops"
#: What perf is told to separate its columns by.
SEPARATOR: Final = ","

_ASKED: Final = "events"
_PRINTED: Final = "stat"


@dataclass(frozen=True)
class Event:
    """A hardware event by perf's name; one increment is ``flops`` operations."""

    name: str
    flops: int


@dataclass(frozen=True)
class Unavailable:
    """Why there is no count, in perf's own words where it said something."""

    reason: str


_INTEL: Final = tuple(
    Event(f"fp_arith_inst_retired.{width}", lanes)
    for width, lanes in (
        ("scalar_single", 1),
        ("128b_packed_single", 4),
        ("256b_packed_single", 8),
        ("512b_packed_single", 16),
    )
)
_ZEN: Final = tuple(
    Event(f"fp_ret_sse_avx_ops.{kind}", 1) for kind in ("mac_flops", "add_sub_flops", "mult_flops")
)
_ZEN1: Final = tuple(
    Event(f"fp_ret_sse_avx_ops.sp_{kind}", 1)
    for kind in ("mult_add_flops", "add_sub_flops", "mult_flops")
)

#: Intel's models of family 6 with AVX2 only, and with AVX-512: client Skylake to Comet Lake; then
#: Skylake-X to Cooper Lake, Ice Lake, Rocket Lake, Tiger Lake, Sapphire, Emerald, Granite Rapids.
_AVX2: Final = frozenset({0x4E, 0x5E, 0x8E, 0x9E, 0xA5, 0xA6})
_AVX512: Final = frozenset({0x55, 0x6A, 0x6C, 0x7D, 0x7E, 0xA7, 0x8C, 0x8D, 0x8F, 0xCF, 0xAD, 0xAE})


def events_for(vendor: str, family: int, model: int) -> tuple[Event, ...]:
    """The events of a processor as ``/proc/cpuinfo`` names it; empty if none are known."""
    match vendor, family:
        case "GenuineIntel", 6 if model in _AVX2:
            return _INTEL[:-1]
        case "GenuineIntel", 6 if model in _AVX512:
            return _INTEL
        case "AuthenticAMD", 0x17 if model < 0x30:
            return _ZEN1
        case "AuthenticAMD", 0x17 | 0x19 | 0x1A:
            return _ZEN
    return ()


def logs_of(events: Iterable[Event], printed: str) -> dict[str, str]:
    """What is kept of a case: the events asked for by name, and what perf printed."""
    return {_ASKED: " ".join(event.name for event in events), _PRINTED: printed}


def known(names: set[str]) -> tuple[Event, ...]:
    """The events of these names; empty if they are not those of one processor."""
    for events in (_INTEL, _INTEL[:-1], _ZEN, _ZEN1):
        if names == {event.name for event in events}:
            return events
    return ()


def parse_stat(text: str, place: str) -> dict[str, int] | Unavailable:
    """Counts by event name from ``perf stat -x,``, or perf's own words why there are none.

    Modifiers (``:u``) are taken off the names.  Raises ``RecordError`` for what is empty, cut off,
    foreign, or written for another locale.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if not lines:
        raise RecordError(f"{place}: perf printed no counts; {REMEDY}.")
    refused = refusal(text)
    if refused is not None:
        return refused
    rows = [_row(line, f"{place}: line {n}") for n, line in enumerate(lines, 1)]
    faults = [row for row in rows if isinstance(row, Unavailable)]
    if faults:
        return faults[0]
    return dict(row for row in rows if not isinstance(row, Unavailable))


_REFUSALS: Final = re.compile(
    r"(?:No permission to enable|Access to performance monitoring|You may not have permission|"
    r"event syntax error|unknown tracepoint|Operation not permitted|Permission denied|"
    r"No such device|perf not found|Invalid event)[^\n]*"
)


def refusal(said: str) -> Unavailable | None:
    """Perf's own words, if it refused to count at all."""
    found = _REFUSALS.search(said)
    if found is None:
        return None
    words = found[0].strip().rstrip(".")
    paranoid = re.search(r"permi|Access", words)
    remedy = "; allow it with: sysctl kernel.perf_event_paranoid=1" if paranoid else ""
    return Unavailable(f"perf: {words}{remedy}")


def _row(line: str, place: str) -> tuple[str, int] | Unavailable:
    """Count, unit, event, time that it ran, and the share of that in per cent."""
    fields = line.split(SEPARATOR)
    if len(fields) < 5:
        raise RecordError(
            f"{place}: expected the count, unit, event, time and share, found {line[:80]!r}, which "
            f"is cut off or not perf's; {REMEDY}."
        )
    count, _, name, _, share = fields[:5]
    event = name.partition(":")[0]
    if count.startswith("<"):
        return Unavailable(f"perf: {event} {count}")
    if not (count.isascii() and count.isdigit()):
        raise RecordError(
            f"{place}: expected a whole number of {event or 'an event'}, found {count!r}, which "
            f"may be written for another locale; {REMEDY}."
        )
    if share != "100.00":
        return Unavailable(f"perf: {event} was counted for only {share} % of the time")
    return event, int(count)


def series_of(logs: Mapping[str, str], place: str) -> tuple[Series, ...]:
    """``perf_flops`` of one call from what was asked for and what was printed (``logs_of``).

    Raises ``RecordError``, also where perf counted nothing or not all that it was asked for.
    """
    counts = parse_stat(logs.get(_PRINTED, ""), place)
    if isinstance(counts, Unavailable):
        raise RecordError(f"{place}: {counts.reason}; {REMEDY}.")
    asked = set(logs.get(_ASKED, "").split())
    events = known(asked)
    if not events or asked != set(counts):
        found, wanted = (shorten(", ".join(sorted(names)), 80) for names in (counts, asked))
        raise RecordError(
            f"{place}: found counts of {found}, but asked for were {wanted or 'no events'}; "
            f"{REMEDY}."
        )
    total = sum(event.flops * counts[event.name] for event in events)
    return (Series(quantity=FLOPS, unit="FLOP", samples=(total,)),)
