"""Floating-point operations by the processor's own counters, where it has them and shows them.

perf starts with its counters off; the program that it runs turns them on for one warm call, so
that the import of torch is not counted.  One process a case and one thread a process.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness import isolated
from experiments.harness.counters import perf_worker
from experiments.harness.counters.plan import Counted, Event, Job, Plan
from experiments.harness.host import cpuinfo
from experiments.harness.text import last_line, without_paths
from report.errors import MeasurementError
from report.instruments.counters import perf

INSTALL: Final = "apt-get install linux-perf"

_LIMIT_S: Final = 600


def events() -> tuple[perf.Event, ...] | perf.Unavailable:
    """The events to count on this machine, or why there are none."""
    info = cpuinfo()
    vendor = info.get("vendor_id", "unknown")
    numbers = [info.get(key, "") for key in ("cpu family", "model")]
    if not all(number.isdigit() for number in numbers):
        return perf.Unavailable("the system does not name its processor's family and model")
    family, model = map(int, numbers)
    found = perf.events_for(vendor, family, model)
    if not found:
        return perf.Unavailable(
            f"no floating-point events are known for {vendor} family {family} model {model}"
        )
    if shutil.which("perf") is None:
        return perf.Unavailable(f"perf is not installed; install it with: {INSTALL}")
    return found


def unavailable() -> str | None:
    """Why nothing can be counted here, in perf's words; it is tried on a small program.

    Cycles are tried first: where a machine shows no counters at all, perf does not even know the
    names of the others, and says something less clear.
    """
    chosen = events()
    if isinstance(chosen, perf.Unavailable):
        return chosen.reason
    for tried in ((perf.Event("cycles", 1),), chosen):
        with tempfile.TemporaryDirectory(prefix="ridgepoint-perf-") as name:
            log = Path(name) / "stat"
            refused = _outcome(_run([*_stat(tried, log), "true"]), log, "a trial of perf")[1]
        if refused is not None:
            return refused.reason
    return None


def seconds(job: Job) -> float:
    """How long a job lasts, about: the import of torch, then two calls at full speed."""
    return 4.0 + job.multiply_adds / 1e9


def count(plan: Plan) -> Iterator[Event]:
    """Count every job of ``plan`` and tell of each as it is done; see ``unavailable``."""
    chosen = events()
    if isinstance(chosen, perf.Unavailable):
        raise MeasurementError(f"{chosen.reason}.")
    for job in plan.jobs:
        alone = msgspec.structs.replace(plan, jobs=(job,))
        with tempfile.TemporaryDirectory(prefix="ridgepoint-perf-") as name:
            text, refused = _counted(alone, chosen, Path(name))
        logs = perf.logs_of(chosen, text) if refused is None else {}
        yield Counted(case=job.case, logs=logs, reason=refused.reason if refused else None)


def _counted(
    plan: Plan, chosen: Sequence[perf.Event], folder: Path
) -> tuple[str, perf.Unavailable | None]:
    log = folder / "stat"
    with _pipes() as (commands, control, answers, acknowledge):
        words = [*_stat(chosen, log), "--delay=-1", f"--control=fd:{commands},{acknowledge}"]
        words += isolated.command(partial(perf_worker.main, plan, control, answers), folder)
        done = _run(words, (commands, control, answers, acknowledge))
    return _outcome(done, log, "a case under perf")


@contextmanager
def _pipes() -> Iterator[tuple[int, int, int, int]]:
    """Both ends of perf's pipe for commands (read, write), and of that for its answers."""
    commands, control = os.pipe()
    answers, acknowledge = os.pipe()
    ends = (commands, control, answers, acknowledge)
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def _stat(chosen: Sequence[perf.Event], log: Path) -> list[str]:
    names = ",".join(f"{event.name}:u" for event in chosen)
    return ["perf", "stat", "-x", perf.SEPARATOR, "-e", names, "-o", os.fspath(log)]


def _run(words: Sequence[str], descriptors: Sequence[int] = ()) -> subprocess.CompletedProcess[str]:
    """perf in the plain locale, since it writes shares with the user's decimal mark."""
    environment = {**os.environ, "LC_ALL": "C", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    try:
        return subprocess.run(
            words,
            cwd=isolated.ROOT,
            env=environment,
            pass_fds=tuple(descriptors),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(words, 1, "", f"perf did not end within {_LIMIT_S} s")


def _outcome(
    done: subprocess.CompletedProcess[str], log: Path, place: str
) -> tuple[str, perf.Unavailable | None]:
    """What perf wrote, and why it is of no use, if so."""
    text = without_paths(log.read_text(errors="replace")) if log.exists() else ""
    if done.returncode != 0:
        said = perf.refusal(done.stderr) or perf.Unavailable(f"perf: {last_line(done.stderr)}")
        return text, said
    found = perf.parse_stat(text, place)
    return text, found if isinstance(found, perf.Unavailable) else None
