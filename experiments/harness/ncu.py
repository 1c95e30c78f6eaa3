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
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from experiments.harness.journal import Count, Done, Ready
from experiments.harness.processes import TICK_S, working
from experiments.harness.text import last_line
from experiments.harness.worker import Task
from report.errors import MeasurementError
from report.instruments.counters.ncu import case_range
from report.instruments.counters.ncu_logs import TOOL, logs_of
from report.instruments.counters.ncu_metrics import MetricPlan, metric_names, metrics_for
from report.instruments.counters.ncu_output import CountersUnavailable, complaint, read_table

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

_QUERY_LIMIT_S: Final = 120
#: Numbers are printed as everywhere.
_LANGUAGE: Final = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "1"}

#: What a counter tells while it runs; None is a second in which nothing happened.
Event: TypeAlias = Ready | Done | Count | None


def unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; ncu itself may still refuse later."""
    return NOT_INSTALLED.reason.rstrip(".") if find_ncu() is None else None


def count(task: Task, limit_s: float = LIMIT_S) -> Iterator[Event]:
    """Count every case of ``task`` and tell of each as soon as its process has ended.

    Raises ``MeasurementError`` with the remedy where there are no counters; a process is stopped
    after ``limit_s``.  Closing the generator ends all processes.
    """
    program = find_ncu()
    if program is None:
        raise _refused(NOT_INSTALLED)
    metrics = plan_for(program, task.compute_capability)
    if isinstance(metrics, CountersUnavailable):
        raise _refused(metrics)
    left = list(zip(task.cases, task.calls, strict=True))
    while left:
        cases, calls = zip(*left[:CASES], strict=True)
        part = msgspec.structs.replace(task, cases=cases, calls=calls)
        done = set()
        for event in _profiled(program, metrics, part, limit_s):
            done |= {event.case} if isinstance(event, Count) else set()
            yield event
        left = [each for each in left if each[0][0] not in done]


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
            env={**os.environ, **_LANGUAGE},
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


def _profiled(program: str, metrics: MetricPlan, task: Task, limit_s: float) -> Iterator[Event]:
    """One process over all cases of ``task``; it counts at least the first of them, or fails."""
    reasons: dict[int, str | None] = {}
    deadline = time.monotonic() + limit_s
    try:
        with working(task, _LANGUAGE, partial(options, program, metrics)) as running:
            for message in running.messages(min(TICK_S, limit_s)):
                if isinstance(message, Done):
                    reasons[message.case] = message.reason
                    yield message
                elif time.monotonic() > deadline:
                    raise _refused(_too_long(f"profile {len(task.cases)} cases", limit_s))
                else:
                    yield None
            output = Output(_read(running.folder / "ncu.csv"), running.said(), reasons)
    except OSError as error:
        raise _refused(_not_startable(error)) from error
    found = settled(output, task)
    if isinstance(found, CountersUnavailable):
        raise _refused(found)
    yield from found


@dataclass(frozen=True)
class Output:
    """The log file of ncu, what else was printed, and how each case that has run ended."""

    log: str
    said: str
    reasons: Mapping[int, str | None]


_NO_RANGES: Final = CountersUnavailable(
    "ranges",
    "ncu recorded kernels but none of our NVTX ranges, so that they belong to no case; use a "
    "PyTorch built with NVTX.",
)


def settled(output: Output, task: Task) -> tuple[Count, ...] | CountersUnavailable:
    """The cases that this process counted or failed at, in the order of ``task``.

    If it ended early, the case at which it did has failed, and later ones are not among them.
    """
    rows = read_table(output.log)
    said = _said(output)
    if isinstance(rows, CountersUnavailable):
        return said or rows
    if not any(row.range for row in rows):
        return _NO_RANGES
    ended = said.reason if said else "The profiled program ended during this case; run it again."
    return tuple(_settled(output, {row.range for row in rows}, task, ended))


def _settled(output: Output, launched: set[str | None], task: Task, ended: str) -> Iterator[Count]:
    for (case, factors), calls in zip(task.cases, task.calls, strict=True):
        if case not in output.reasons:
            yield Count(tool=TOOL, case=case, logs={}, reason=ended)
            return
        ranges = tuple(case_range(factors, call) for call in range(calls))
        reason = output.reasons[case]
        if reason is None and not launched.issuperset(ranges):
            reason = "No kernel ran on the GPU during this case."
        logs = {} if reason else logs_of(output.log, ranges)
        yield Count(tool=TOOL, case=case, logs=logs, reason=reason)


def _said(output: Output) -> CountersUnavailable | None:
    """ncu's complaint; if the program failed, with the program's own last words."""
    said = complaint(f"{output.log}\n{output.said}")
    if said is None or said.kind != "application":
        return said
    own = "\n".join(line for line in output.said.splitlines() if not line.startswith("=="))
    reason = f"The profiled program failed under ncu ({last_line(own)}); fix that first."
    return CountersUnavailable("application", reason)


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
