"""Counters of NVIDIA GPUs: Nsight Compute over the cases of a run, in few processes of its own.

Times are never taken from it.  Kernel replay is used, since it keeps every kernel with its name
(range replay gives one result a range): each kernel runs once for every group of counters, with
its memory restored and the caches flushed in between, so that bytes from DRAM are those of a cold
cache.  The clocks are left alone.  ncu prints its table only at its end, so that a process takes a
limited number of cases: an interruption loses no more than those.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness import isolated
from experiments.harness.counters import ncu_child
from experiments.harness.counters.ncu_child import Note
from experiments.harness.counters.ncu_result import Output, has_run, settled
from experiments.harness.counters.plan import Counted, Event, Job, Plan, Ran
from report.errors import MeasurementError
from report.instruments.counters.ncu_metrics import MetricPlan, metric_names, metrics_for
from report.instruments.counters.ncu_output import CountersUnavailable, complaint
from report.system.subprocesses import started

#: Where installers put ncu without telling the PATH.
PLACES: Final = (
    "/usr/local/cuda/bin/ncu",
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda-*/bin/ncu",
)
NOT_INSTALLED: Final = CountersUnavailable(
    "not_installed",
    "ncu is not installed here; install Nsight Compute with the CUDA toolkit or with conda install "
    "-c nvidia nsight-compute, and put ncu on the PATH.",
)
#: Cases of one process, and how long it may last (s).
CASES: Final = 16
LIMIT_S: Final = 3600.0

#: Guesses for the time left until a run has shown its own pace (s): a process until it has profiled
#: its matrix products, a case with its replays.
_START_S: Final = 40.0
_CASE_S: Final = 5.0

_QUERY_LIMIT_S: Final = 120


def unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; ncu itself may still refuse later."""
    return NOT_INSTALLED.reason.rstrip(".") if find_ncu() is None else None


def seconds(job: Job) -> float:
    """How long a job lasts, about, with its part of the start."""
    return _START_S / CASES + _CASE_S


def count(plan: Plan, limit_s: float = LIMIT_S) -> Iterator[Event]:
    """Count every job of ``plan`` and tell of each as soon as its process has ended.

    Raises ``MeasurementError`` with the remedy where there are no counters; a process is stopped
    after ``limit_s``.  Closing the generator ends all processes.
    """
    program = find_ncu()
    if program is None:
        raise _refused(NOT_INSTALLED)
    assert plan.compute_capability is not None
    metrics = plan_for(program, plan.compute_capability)
    if isinstance(metrics, CountersUnavailable):
        raise _refused(metrics)
    waiting = plan.jobs
    while waiting:
        part = msgspec.structs.replace(plan, jobs=waiting[:CASES])
        done = set()
        for event in _profiled(program, metrics, part, limit_s):
            done |= {event.case} if isinstance(event, Counted) else set()
            yield event
        waiting = tuple(job for job in waiting if job.case not in done)


def _refused(why: CountersUnavailable) -> MeasurementError:
    return MeasurementError(why.reason.rstrip("."))


def find_ncu() -> str | None:
    """The path of ncu: the one on the PATH, else the newest in NVIDIA's usual places."""
    if found := shutil.which("ncu"):
        return found
    for place in PLACES:
        versions = sorted(Path("/").glob(place[1:]), key=_version)
        if versions:
            return os.fspath(versions[-1])
    return None


def _version(path: Path) -> tuple[int, ...]:
    return tuple(
        int(number) for part in path.parts for number in part.split(".") if number.isdigit()
    )


def plan_for(program: str, compute_capability: str) -> MetricPlan | CountersUnavailable:
    """The metrics to ask for, among those that ``ncu --query-metrics`` lists."""
    try:
        done = subprocess.run(
            [program, "--query-metrics"],
            capture_output=True,
            text=True,
            errors="replace",
            env=_environment(),
            timeout=_QUERY_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _too_long("list its metrics", _QUERY_LIMIT_S)
    except OSError as error:
        return _not_startable(error)
    names = metric_names(done.stdout)
    if not names:
        said = complaint(done.stdout + done.stderr)
        return said or CountersUnavailable(
            "empty", "ncu --query-metrics lists no metric; run it by hand to see why."
        )
    return metrics_for(compute_capability, names)


def options(program: str, metrics: MetricPlan, folder: Path) -> tuple[str, ...]:
    """The command line up to the program that is profiled; the table will lie in ``folder``."""
    return (
        program,
        *("--target-processes", "all"),
        *("--replay-mode", "kernel"),
        *("--profile-from-start", "off"),
        *("--clock-control", "none"),
        *("--cache-control", "all"),
        "--nvtx",
        *("--metrics", ",".join(metrics.metrics)),
        *("--csv", "--page", "raw", "--print-units", "base"),
        *("--log-file", os.fspath(folder / "ncu.csv")),
    )


def _profiled(program: str, metrics: MetricPlan, plan: Plan, limit_s: float) -> Iterator[Event]:
    """One process over all jobs of ``plan``; it counts at least the first of them, or fails."""
    notes: list[Note] = []
    with tempfile.TemporaryDirectory(prefix="ridgepoint-ncu-") as name:
        folder = Path(name)
        notes_path = folder / "notes.jsonl"
        notes_path.touch()
        child = isolated.command(partial(ncu_child.main, plan, notes_path), folder)
        with _started((*options(program, metrics, folder), *child), folder) as process:
            lines = isolated.lines(process, notes_path, min(isolated.TICK_S, limit_s))
            yield from _running(lines, plan.jobs, notes, limit_s)
        output = Output(_read(folder / "ncu.csv"), _read(folder / "said"), tuple(notes))
    found = settled(output, plan.jobs)
    if isinstance(found, CountersUnavailable):
        raise _refused(found)
    yield from found


@contextmanager
def _started(words: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """ncu, which is ended with all that it started on leaving this block."""
    with (folder / "said").open("wb") as said, ExitStack() as stack:
        try:
            process = stack.enter_context(
                started(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    cwd=isolated.ROOT,
                    env=_environment(),
                )
            )
        except OSError as error:
            raise _refused(_not_startable(error)) from error
        yield process


def _running(
    lines: Iterable[bytes | None], jobs: Sequence[Job], notes: list[Note], limit_s: float
) -> Iterator[Event]:
    """Tell of each case as it has run, and keep the child's notes; raises if it takes too long."""
    deadline = time.monotonic() + limit_s
    waiting = list(jobs)
    decoder = msgspec.json.Decoder(Note)
    for line in lines:
        if line is not None:
            notes.append(decoder.decode(line))
            while waiting and has_run(waiting[0], notes):
                yield Ran(case=waiting.pop(0).case)
            continue
        if time.monotonic() > deadline:
            raise _refused(_too_long(f"profile {len(jobs)} cases", limit_s))
        yield None


def _environment() -> dict[str, str]:
    """Ours, with numbers printed as everywhere."""
    return {**os.environ, "LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "1"}


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _too_long(what: str, limit_s: float) -> CountersUnavailable:
    return CountersUnavailable(
        "time",
        f"ncu did not {what} within {limit_s:g} s; measure fewer cases, or without counters.",
    )


def _not_startable(error: OSError) -> CountersUnavailable:
    return CountersUnavailable(
        "not_installed", f"ncu cannot be started ({error.strerror}); reinstall Nsight Compute."
    )
