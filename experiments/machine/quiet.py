"""Detect disturbances by other programs during a measurement; wait until the machine is quiet.

For each processor, Linux counts the busy time and the time taken by the hypervisor (steal).  For
each thread, Linux counts the time in which the thread was ready but had no processor.  The
difference of two readings shows whether a duration measured between them can be trusted.
"""

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from experiments.machine.runtime import cores_available
from experiments.machine.text import read_text

_PROC: Final = Path("/proc")
#: Share of their time that threads may wait for a processor; see ``describe_disturbance``.
WAITING_SHARE: Final = 0.02
#: Share of one processor's time that the hypervisor and other programs may take.
TAKEN_SHARE: Final = 0.10
#: Share of the spare processors (not needed by the run) that other programs may use.
SPARE_SHARE: Final = 0.5
#: Resolution of the clocks of /proc (s).
TICK_S: Final = 0.01
#: A machine is quiet after this time without a disturbance (s).
QUIET_S: Final = 5


@dataclass(frozen=True)
class Reading:
    """Counters at one moment, in s from arbitrary starts; 0 where the system has no counter.

    ``processors`` is the number of processors that this process may use.  ``busy_s`` (without
    steal) and ``steal_s`` are sums over these processors.  ``own_s`` is the processor time of this
    process and its ended children.  ``waits_s`` maps each thread's number to the time in which the
    thread was ready but had no processor.
    """

    at_s: float
    processors: int
    busy_s: float
    steal_s: float
    own_s: float
    waits_s: Mapping[int, float]


def unavailable() -> str | None:
    """Explain why disturbances cannot be observed on this system; None if they can be observed."""
    if (_PROC / "stat").exists():
        return None
    return "the system does not count what other processes use (no /proc/stat)"


def read_counters() -> Reading:
    """Read all counters, in well below 1 ms for a dozen threads."""
    waits, processors = {}, set[int]()
    for folder in (_PROC / "self/task").glob("*"):
        with suppress(OSError):  # the thread has ended
            # Libraries bind threads to processors, so the affinities of all threads are needed.
            processors |= os.sched_getaffinity(int(folder.name))
            waits[int(folder.name)] = int((folder / "schedstat").read_text().split()[1]) * 1e-9
    busy = steal = 0
    for line in read_text(_PROC / "stat").splitlines():
        name, *fields = line.split()
        if name[:3] == "cpu" and name[3:].isdecimal() and int(name[3:]) in processors:
            # The fields after steal (guests) are already included in the user's time.
            ticks = [int(field) for field in fields[:8]]
            user, nice, system, _idle, _iowait, irq, softirq, stolen = ticks
            busy += user + nice + system + irq + softirq
            steal += stolen
    spent = os.times()
    return Reading(
        at_s=time.monotonic(),
        processors=len(processors) or cores_available(),
        busy_s=busy * TICK_S,
        steal_s=steal * TICK_S,
        own_s=spent.user + spent.system + spent.children_user + spent.children_system,
        waits_s=waits,
    )


def describe_disturbance(before: Reading, after: Reading, threads: int) -> str | None:
    """Describe what disturbed the time between two readings; None if nothing did, or without /proc.

    A wall time w, in which a run used t threads, is disturbed if

    - the threads waited more than 2 % of w·t for processors that other programs used (undisturbed
      processes differ by about 1 %);
    - the hypervisor took more than 10 % of one processor;
    - other programs and the hypervisor together used more than 10 % of one processor plus half of
      the spare processors.  On a processor that the run needs, they delay all threads that wait at
      the end of a parallel loop.  On spare processors, they use caches, bandwidth and clock that
      all processors share.

    Times that rounding to ticks of 10 ms can explain are ignored.  Each processor, and this
    process, has one clock for programs and one for the system.  The difference of two readings of a
    clock has a variance of a sixth of a squared tick.  Times below four standard deviations of the
    sum over all clocks are ignored.
    """
    wall, processors = after.at_s - before.at_s, after.processors
    used_by_others, stolen = _lost_times(before, after)
    smallest = 4 * TICK_S * math.sqrt(2 * (processors + 1) / 6)
    spare = max(0, processors - threads)
    allowed = max((TAKEN_SHARE + SPARE_SHARE * spare) * wall, smallest)
    if stolen > max(TAKEN_SHARE * wall, smallest) or used_by_others + stolen > allowed:
        texts = {"other processes used": used_by_others, "the hypervisor took": stolen}
        causes = []
        for text, seconds in texts.items():
            if seconds > 0.05 * wall:  # a smaller share is not worth a mention
                causes.append(f"{text} {seconds / wall:.1f}")
        return f"{' and '.join(causes)} of {processors} processor{'s' if processors > 1 else ''}"
    waited = 0.0  # by threads that have not ended
    for thread, wait in after.waits_s.items():
        waited += max(0.0, wait - before.waits_s.get(thread, 0.0))
    # Any excess is time that threads waited for each other, since JAX runs one thread too many.
    waited = min(waited, used_by_others + stolen)
    if waited > max(WAITING_SHARE * wall * threads, smallest):
        return f"threads waited for a processor {waited / (wall * threads):.1%} of the time"
    return None


def _lost_times(before: Reading, after: Reading) -> tuple[float, float]:
    """Return the processor times that other programs used and that the hypervisor took (s)."""
    # Rounding to ticks may report more busy time than the processors had.
    busy = min(after.busy_s - before.busy_s, (after.at_s - before.at_s) * after.processors)
    used = max(0.0, busy - (after.own_s - before.own_s))
    return used, max(0.0, after.steal_s - before.steal_s)


def observe_disturbance(threads: int | None = None, seconds: float = 1.0) -> str | None:
    """Describe what would disturb a run of ``threads`` (default: one per processor); None if quiet.

    Observes the machine for ``seconds`` and names the busiest programs.
    """
    busiest_programs()  # starts the interval that the next call reports
    before = read_counters()
    time.sleep(seconds)
    after = read_counters()
    cause = describe_disturbance(before, after, threads or after.processors)
    names = ", ".join(busiest_programs()) if cause else ""
    return f"{cause} ({names})" if names else cause


def free_processors(seconds: float) -> int:
    """Observe the machine for ``seconds``; return the number of free processors, at least 1."""
    before = read_counters()
    time.sleep(seconds)
    after = read_counters()
    lost = sum(_lost_times(before, after)) / (after.at_s - before.at_s)
    return max(1, after.processors - round(lost))


def busiest_programs() -> tuple[str, ...]:
    """Name the three programs that used most time since the last call, if above 5 % each."""
    import psutil  # type: ignore[import-untyped]

    used: Counter[str] = Counter()
    for process in psutil.process_iter(["name", "cpu_percent"]):
        if process.pid != os.getpid():
            characters = process.info["name"] or "?"
            name = "".join(character for character in characters if character.isprintable())
            used[name] += process.info["cpu_percent"] or 0
    return tuple(name for name, percent in used.most_common(3) if percent >= 5)


def wait_quiet(minutes: float, note: Callable[[str], None], threads: int) -> None:
    """Wait until nothing would disturb a run of ``threads`` for ``QUIET_S``.

    After ``minutes``, the function returns in any case.  ``note`` prints the disturbances.
    """
    reason = unavailable()
    if reason is not None:
        note(f"Not waiting for a quiet machine: {reason}.")
        return
    end = time.monotonic() + 60 * minutes
    quiet_seconds, last_cause = 0, f"it was watched for less than {QUIET_S} s"
    noted_at = -math.inf
    while quiet_seconds < QUIET_S:
        cause, now = observe_disturbance(threads), time.monotonic()
        quiet_seconds = 0 if cause else quiet_seconds + 1
        last_cause = cause or last_cause
        if end <= now and quiet_seconds < QUIET_S:
            text = f"The machine did not become quiet within {minutes:g} min: {last_cause}."
            note(f"{text} Measuring all the same.")
            return
        if cause and now - noted_at >= 10:  # a note every 10 s
            noted_at = now
            note(f"Waiting for a quiet machine, at most {(end - now) / 60:.1f} min: {cause}.")
