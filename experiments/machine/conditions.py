"""State of a machine that changes times: processors in use, kinds of core, clocks and throttling.

Linux shows it below /sys and /proc.  What a system does not show is left out.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from experiments.machine.runtime import usable_processors
from experiments.machine.text import read_text
from report.core.records.record import Head

AnyHead = TypeVar("AnyHead", bound=Head)
_ROOT: Final = Path("/")
_CPUS: Final = "sys/devices/system/cpu"
#: Lists of the processors of each kind on Intel's hybrid processors.
_INTEL_KINDS: Final = {"P": "sys/devices/cpu_core/cpus", "E": "sys/devices/cpu_atom/cpus"}
#: Switch of the turbo clock: file → the text that means on.
_TURBO: Final = {"intel_pstate/no_turbo": "0", "cpufreq/boost": "1"}


def conditions(usable: Collection[int], root: Path = _ROOT) -> dict[str, str]:
    """Describe the state of the ``usable`` processors for the record; names are those of Linux."""
    cpus, state = root / _CPUS, dict[str, str]()
    present = parse_list(read_text(cpus / "present"))
    if present and len(usable) < len(present):
        state["affinity"] = f"{format_list(usable)} of {len(present)}"
    shared = set[int]()  # by two of the processors that may be used (SMT)
    for number in usable:
        siblings = parse_list(read_text(cpus / f"cpu{number}/topology/thread_siblings_list"))
        if len(siblings.intersection(usable)) > 1:
            shared |= siblings.intersection(usable)
    if shared:
        state["siblings"] = f"{format_list(shared)} share cores"
    kinds = kinds_of_core(usable, root)
    if len(kinds) > 1:
        state["kinds"] = "; ".join(f"{kind}: {format_list(those)}" for kind, those in kinds.items())
    governors = {read_text(cpus / f"cpu{n}/cpufreq/scaling_governor").strip() for n in usable}
    if named := sorted(governors - {""}):
        state["governor"] = ", ".join(named)
    for name, on in _TURBO.items():
        if switch := read_text(cpus / name).strip():
            state["turbo"] = "on" if switch == on else "off"
    nodes = 0
    for folder in (root / "sys/devices/system/node").glob("node[0-9]*"):
        nodes += not parse_list(read_text(folder / "cpulist")).isdisjoint(usable)
    if nodes > 1:
        state["nodes"] = str(nodes)
    if "microsoft" in read_text(root / "proc/version").lower():
        state["system"] = "WSL"
    return state


def kinds_of_core(usable: Collection[int], root: Path = _ROOT) -> dict[str, set[int]]:
    """Group processors by their kind of core, the fastest first; empty if the system shows none.

    Intel's kinds are P and E; on Arm, the kind is the capacity that Linux gives a core.
    """
    kinds = {}
    for kind, file in _INTEL_KINDS.items():
        if those := parse_list(read_text(root / file)).intersection(usable):
            kinds[kind] = those
    capacities = _counters(usable, "cpu_capacity", root)
    for size in sorted(set(capacities.values()), reverse=True):
        those = {number for number, capacity in capacities.items() if capacity == size}
        kinds.setdefault(f"capacity {size}", those)
    return kinds


def _counters(usable: Collection[int], file: str, root: Path) -> dict[int, int]:
    """Read a file with a whole number of each processor; those without the file are left out."""
    numbers = {}
    for number in usable:
        text = read_text(root / _CPUS / f"cpu{number}" / file).strip()
        if text.isdecimal():
            numbers[number] = int(text)
    return numbers


def throttle_count(usable: Collection[int] = (), root: Path = _ROOT) -> int | None:
    """Count how often heat has slowed the processors since the system started; None if unknown.

    By default of the processors that this process may use.
    """
    file = "thermal_throttle/core_throttle_count"
    counts = _counters(usable or usable_processors(), file, root)
    return sum(counts.values()) if counts else None


def with_throttling(head: AnyHead, before: int | None) -> AnyHead:
    """Add to a record's head how often heat slowed the processors since ``before``, if ever."""
    after = throttle_count()
    if before is None or after is None or after <= before:
        return head
    state = {**head.environment.conditions, "throttled": f"{after - before} times"}
    facts = msgspec.structs.replace(head.environment, conditions=state)
    return msgspec.structs.replace(head, environment=facts)


def pin_to_one_kind(root: Path = _ROOT) -> str | None:
    """Keep this process and its children on the fastest kind of core; say so if there are several.

    Threads on slower cores would delay all others at the end of every parallel loop.
    """
    kinds = kinds_of_core(usable_processors(), root)
    if len(kinds) < 2 or platform.system() != "Linux":
        return None
    kind, those = next(iter(kinds.items()))
    os.sched_setaffinity(0, those)
    place = f"{kind}: {format_list(those)}"
    return f"The processor has cores of {len(kinds)} kinds; measuring on {place}."


def parse_list(text: str) -> set[int]:
    """Parse a list of processors as Linux writes it: ``0-3,8``."""
    numbers = set[int]()
    for first, last in re.findall(r"(\d+)(?:-(\d+))?", text):
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


def format_list(numbers: Iterable[int]) -> str:
    """Write processors as Linux does: ``0-3,8``."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][-1] + 1:
            ranges[-1][1:] = [number]
        else:
            ranges.append([number])
    return ",".join("-".join(map(str, part)) for part in ranges)
