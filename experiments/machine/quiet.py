"""Disturbances by other programs while a case is measured, and waiting until the machine is quiet.

For each processor, Linux counts the busy time and the time taken by the hypervisor (steal).  For
each thread, Linux counts the time in which the thread was ready but had no processor.  The
difference of two readings tells whether a duration measured between them can be trusted.
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
#: Shares of the time above which a measurement is disturbed, see ``disturbance``.
WAITING_SHARE: Final = 0.02
TAKEN_SHARE: Final = 0.10
#: Share of the spare processors (not needed by the run) that other programs may use.
SPARE_SHARE: Final = 0.5
#: Resolution of the clocks of /proc (s); a difference of two readings is wrong by up to a tick.
TICK_S: Final = 0.01
#: A machine is quiet after this time without a disturbance (s).
QUIET_S: Final = 5
#: Time between two notes while a run waits (s).
_NOTE_EVERY_S: Final = 10


@dataclass(frozen=True)
class Reading:
    """Counters at one moment, in s from arbitrary starts; 0 where the system has no counter.

    ``busy_s`` (without steal) and ``steal_s`` are sums over the ``processors`` that this process
    may use.  ``own_s`` is the processor time of this process and its ended children; ``waits_s``
    maps each thread's number to the time in which the thread was ready without a processor.
    """

    at_s: float
    processors: int
    busy_s: float
    steal_s: float
    own_s: float
    waits_s: Mapping[int, float]


def unavailable() -> str | None:
    """Explain why disturbances cannot be observed on this system; None if they can."""
    if (_PROC / "stat").exists():
        return None
    return "the system does not count what other processes use (no /proc/stat)"


def read_counters() -> Reading:
    """Read all counters; takes well below 1 ms with a dozen threads."""
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


def disturbance(before: Reading, after: Reading, threads: int) -> str | None:
    """Describe what disturbed the time between two readings; None if nothing did, or without /proc.

    A wall time w with t threads in use is disturbed if

    - the threads waited for a processor used by others for more than 2 % of w·t.  One pinned thread
      scatters by about 1 % between undisturbed processes, so a smaller share could not be seen;
    - the hypervisor took more than 10 % of one processor;
    - other programs and the hypervisor together used more than 10 % of one processor and the run
      needs all processors: the thread that shares its processor delays all threads that wait at the
      end of a parallel loop.  Programs may also use half of the spare processors; beyond that, they
      use much of the caches, the bandwidth and the clock that all processors share.

    Times that rounding to ticks of 10 ms can explain never count.  A processor has one clock for
    programs and one for the system, and so has this process; a difference of two readings has a
    variance of a sixth of a squared tick per clock.  The smallest time that counts is four standard
    deviations of the sum.
    """
    wall, processors = after.at_s - before.at_s, after.processors
    used, taken = _lost_times(before, after)
    smallest = 4 * TICK_S * math.sqrt(2 * (processors + 1) / 6)
    spare = max(0, processors - threads)
    allowed = max((TAKEN_SHARE + SPARE_SHARE * spare) * wall, smallest)
    if taken > max(TAKEN_SHARE * wall, smallest) or used + taken > allowed:
        causes = []
        for cause, seconds in (("other processes used", used), ("the hypervisor took", taken)):
            if seconds > 0.05 * wall:
                causes.append(f"{cause} {seconds / wall:.1f}")
        return f"{' and '.join(causes)} of {processors} processor{'s' if processors > 1 else ''}"
    waited = 0.0  # of the threads that still run
    for thread, wait in after.waits_s.items():
        waited += max(0.0, wait - before.waits_s.get(thread, 0.0))
    # The excess is time that threads waited for each other: JAX runs one extra thread.
    waited = min(waited, used + taken)
    if waited > max(WAITING_SHARE * wall * threads, smallest):
        return f"threads waited for a processor {waited / (wall * threads):.1%} of the time"
    return None


def _lost_times(before: Reading, after: Reading) -> tuple[float, float]:
    """Return the processor time that other programs used, and that the hypervisor took (s)."""
    # Rounding to ticks may report more busy time than the processors had.
    busy = min(after.busy_s - before.busy_s, (after.at_s - before.at_s) * after.processors)
    used = max(0.0, busy - (after.own_s - before.own_s))
    return used, max(0.0, after.steal_s - before.steal_s)


def watch(threads: int | None = None, seconds: float = 1.0) -> str | None:
    """Describe what would disturb a run of ``threads`` (default: one per processor); None if quiet.

    Observes the machine for ``seconds`` and names the busiest programs.
    """
    busiest_programs()
    before = read_counters()
    time.sleep(seconds)
    after = read_counters()
    cause = disturbance(before, after, threads or after.processors)
    names = ", ".join(busiest_programs()) if cause else ""
    return f"{cause} ({names})" if names else cause


def free_processors(seconds: float) -> int:
    """Count the processors that other programs leave free during ``seconds``; at least one."""
    before = read_counters()
    time.sleep(seconds)
    after = read_counters()
    lost = sum(_lost_times(before, after)) / (after.at_s - before.at_s)
    return max(1, after.processors - round(lost))


def busiest_programs() -> tuple[str, ...]:
    """Name up to three programs that used the most processor time since the last call."""
    import psutil  # type: ignore[import-untyped]

    used: Counter[str] = Counter()
    for process in psutil.process_iter(["name", "cpu_percent"]):
        if process.pid != os.getpid():
            characters = process.info["name"] or "?"
            name = "".join(character for character in characters if character.isprintable())
            used[name] += process.info["cpu_percent"] or 0
    return tuple(name for name, percent in used.most_common(3) if percent >= 5)


def wait_quiet(minutes: float, note: Callable[[str], None], threads: int) -> None:
    """Wait until nothing has disturbed the machine for 5 s in a row, for at most ``minutes``.

    ``note`` prints the disturbances; a run of ``threads`` threads is assumed.
    """
    reason = unavailable()
    if reason is not None:
        note(f"Not waiting for a quiet machine: {reason}.")
        return
    end = time.monotonic() + 60 * minutes
    quiet_seconds, last_cause, noted_at = 0, "", -math.inf
    while quiet_seconds < QUIET_S:
        cause = watch(threads)
        now = time.monotonic()
        quiet_seconds = 0 if cause else quiet_seconds + 1
        last_cause = cause or last_cause
        if end <= now and quiet_seconds < QUIET_S:
            reason = last_cause or f"it was watched for less than {QUIET_S} s"
            text = f"The machine did not become quiet within {minutes:g} min: {reason}."
            note(f"{text} Measuring all the same.")
            return
        if cause and now - noted_at >= _NOTE_EVERY_S:
            noted_at = now
            note(f"Waiting for a quiet machine, at most {(end - now) / 60:.1f} min: {cause}.")
