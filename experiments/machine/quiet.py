"""What else the machine did while something was measured, and waiting until it does nothing else.

Linux counts, for each processor, the time for which it was busy and the time for which the
hypervisor gave it to somebody else; for each thread, the time for which it was ready to run and had
no processor.  What two readings differ by tells whether a duration between them can be trusted.
"""

from __future__ import annotations

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
from experiments.machine.text import text_of

_PROC: Final = Path("/proc")
#: Shares above which a stretch of time is disturbed, see ``disturbance``.
WAITING: Final = 0.02
TAKEN: Final = 0.10
#: Of the processors that a run leaves free, others may use this share.
BESIDE: Final = 0.5
#: The clocks of /proc tick every 10 ms, so that a difference of two is wrong by up to a tick (s).
TICK_S: Final = 0.01
#: So many quiet seconds in a row make a quiet machine.
QUIET_S: Final = 5
#: While a run waits, it says so every so often (s).
_NOTE_EVERY_S: Final = 10


@dataclass(frozen=True)
class Reading:
    """The counters of one moment, in s from arbitrary beginnings; 0 where the system has none.

    ``busy_s`` (steal not among it) and ``steal_s`` are sums over the ``processors`` that this
    process may use.  ``own_s`` is the processor time of this process with its ended children;
    ``waits_s`` for how long each of its threads, by number, was ready without a processor.
    """

    at_s: float
    processors: int
    busy_s: float
    steal_s: float
    own_s: float
    waits_s: Mapping[int, float]


def unavailable() -> str | None:
    """Why nothing can be said about disturbances here, or None where it can."""
    if (_PROC / "stat").exists():
        return None
    return "the system does not count what other processes use (no /proc/stat)"


def read() -> Reading:
    """The counters now; takes well below 1 ms with a dozen threads."""
    waits, used = {}, set[int]()
    for folder in (_PROC / "self/task").glob("*"):
        with suppress(OSError):  # it has ended
            used |= os.sched_getaffinity(int(folder.name))  # libraries bind threads to processors
            waits[int(folder.name)] = int((folder / "schedstat").read_text().split()[1]) * 1e-9
    names, rows = {f"cpu{n}" for n in used}, map(str.split, text_of(_PROC / "stat").splitlines())
    # User, nice, system, idle, waiting, irq, softirq and steal; guests are part of the user's time.
    ticks = [[*map(int, words)] for name, *words in rows if name in names]
    spent = os.times()
    return Reading(
        at_s=time.monotonic(),
        processors=len(used) or cores_available(),
        busy_s=sum(sum(row[:3]) + row[5] + row[6] for row in ticks) * TICK_S,
        steal_s=sum(row[7] for row in ticks) * TICK_S,
        own_s=spent.user + spent.system + spent.children_user + spent.children_system,
        waits_s=waits,
    )


# ----------------------------------------------------------------------------------- the judgement


def disturbance(before: Reading, after: Reading, threads: int) -> str | None:
    """What disturbed the stretch between two readings, in words; None if nothing did, or no /proc.

    A stretch of wall time w with t threads in use is disturbed if

    - its threads waited for a processor that others had for more than 2 % of w·t: the scatter of
      one pinned thread between undisturbed processes is about 1 %, so that less could not be told
      from it;
    - the hypervisor took more than 10 % of one processor away;
    - or others and the hypervisor together used more than 10 % of one processor where none was to
      spare (no more of them than threads): they slow the thread down that shares it, and with it
      all that wait at the end of a parallel loop.  With processors to spare others may use half of
      those besides; from there on they take much of what all processors share, caches, bandwidth
      and clock, although they take no processor away.

    What rounding to ticks of 10 ms may have added up to never counts.  Each processor has a clock
    for programs and one for the system, as our own time has; the difference of two readings has a
    variance of a sixth of a squared tick a clock, and four standard deviations of the sum are taken
    for the least that is seen.
    """
    wall, processors = after.at_s - before.at_s, after.processors
    # Others have no more than all processors in that time, which ticks may say of a shorter one.
    busy = min(after.busy_s - before.busy_s, wall * processors)
    used = max(0.0, busy - (after.own_s - before.own_s))
    taken = max(0.0, after.steal_s - before.steal_s)
    least, spare = 4 * TICK_S * math.sqrt(2 * (processors + 1) / 6), max(0, processors - threads)
    most = max((TAKEN + BESIDE * spare) * wall, least)
    if taken > max(TAKEN * wall, least) or used + taken > most:
        found = {"other processes used": used, "the hypervisor took": taken}
        parts = (f"{who} {time_ / wall:.1f}" for who, time_ in found.items() if time_ > 0.05 * wall)
        return f"{' and '.join(parts)} of {processors} processor{'s' if processors > 1 else ''}"
    # Of a thread that has ended in between nothing is known.
    waits = (wait - before.waits_s.get(thread, 0.0) for thread, wait in after.waits_s.items())
    # What is over, the run's threads waited for each other: JAX has one more than it is given.
    waiting = min(sum(max(0.0, wait) for wait in waits), used + taken)
    if waiting > max(WAITING * wall * threads, least):
        return f"threads waited for a processor {waiting / (wall * threads):.1%} of the time"
    return None


# ----------------------------------------------------------------------------------------- waiting


def watched(threads: int | None = None, seconds: float = 1.0) -> str | None:
    """What would disturb a run of so many threads, by default one a processor; None if quiet.

    Watches that long, and names the programs.
    """
    busiest()
    before = read()
    time.sleep(seconds)
    after = read()
    found = disturbance(before, after, threads or after.processors)
    names = ", ".join(busiest()) if found else ""
    return f"{found} ({names})" if names else found


def busiest() -> tuple[str, ...]:
    """The programs that used most of the processors since the last call, three at most."""
    import psutil  # type: ignore[import-untyped]

    used: Counter[str] = Counter()
    for process in psutil.process_iter(["name", "cpu_percent"]):
        if process.pid != os.getpid():
            name = "".join(filter(str.isprintable, process.info["name"] or "?"))
            used[name] += process.info["cpu_percent"] or 0
    return tuple(name for name, percent in used.most_common(3) if percent >= 5)


def wait_quiet(minutes: float, say: Callable[[str], None], threads: int) -> None:
    """Wait until nothing has disturbed the machine for 5 s in a row, for at most ``minutes``.

    Says what disturbs a run of ``threads`` threads meanwhile, and what still does at the end.
    """
    if (reason := unavailable()) is not None:
        say(f"Not waiting for a quiet machine: {reason}.")
        return
    now = time.monotonic()
    end, calm, last, said = now + 60 * minutes, 0, "", -math.inf
    while calm < QUIET_S:
        found, now = watched(threads), time.monotonic()
        calm, last = (0, found) if found else (calm + 1, last)
        if end <= now and calm < QUIET_S:
            why = last or f"it was not watched for {QUIET_S} s"
            said_last = f"The machine did not become quiet within {minutes:g} min: {why}."
            say(f"{said_last} Measuring all the same.")
            return
        if found and now - said >= _NOTE_EVERY_S:
            said = now
            say(f"Waiting for a quiet machine, at most {(end - now) / 60:.1f} min: {last}.")
