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
from collections.abc import Generator, Sequence
from math import inf
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness.journal import Count
from experiments.harness.processes import working
from experiments.harness.study import Study
from experiments.harness.worker import CALLS, Task
from experiments.machine.text import last_line, text_of
from report.errors import MeasurementError, RecordError
from report.instruments.counters.ncu import case_range
from report.instruments.counters.ncu_logs import QUANTITIES, counted, logs_of
from report.instruments.counters.ncu_metrics import MetricPlan, metric_names, metrics_for
from report.instruments.counters.ncu_output import PROGRAM_FAILED, complaint, read_table

NAME: Final = "ncu"
#: It only replays kernels, so that no case takes too long.
LARGEST: Final = inf
#: Where installers put ncu without telling the PATH.
PLACES: Final = (
    "/usr/local/cuda/bin/ncu",
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda-*/bin/ncu",
)
NOT_INSTALLED: Final = (
    "ncu is not installed here; install Nsight Compute with the CUDA toolkit or with conda install "
    "-c nvidia nsight-compute, and put ncu on the PATH"
)
#: Cases of one process.
CASES: Final = 16
#: Numbers are printed as everywhere.
_LANGUAGE: Final = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "1"}
_OPTIONS: Final = (
    *("--target-processes", "all"),
    *("--replay-mode", "kernel"),
    *("--profile-from-start", "off"),
    *("--clock-control", "none"),
    *("--cache-control", "all"),
    "--nvtx",
    *("--csv", "--page", "raw", "--print-units", "base"),
)


def unavailable() -> str | None:
    """Why nothing can be counted here, with the remedy; ncu itself may still refuse later."""
    return NOT_INSTALLED if find_ncu() is None else None


def find_ncu() -> str | None:
    """The path of ncu: the one on the PATH, else the newest in the first of NVIDIA's places."""
    if on_path := shutil.which("ncu"):
        return on_path
    found = (sorted(Path("/").glob(place[1:])) for place in PLACES)
    return next((os.fspath(versions[-1]) for versions in found if versions), None)


def count(study: Study, task: Task) -> Generator[Count, None, None]:
    """Count every case of ``task`` and tell of each as soon as its process has ended.

    Raises ``MeasurementError`` with the remedy where there are no counters.
    """
    program, left = find_ncu() or "ncu", task.cases
    try:
        plan = _plan_for(program, task.compute_capability)
        options = (program, *_OPTIONS, "--metrics", ",".join(plan.metrics))
        while left:
            found = _profiled(options, msgspec.structs.replace(task, cases=left[:CASES]))
            yield from found
            left = left[len(found) :]
    except RecordError as error:
        raise MeasurementError(str(error).rstrip(".")) from error
    except OSError as error:
        raise MeasurementError(
            f"ncu cannot be started ({error.strerror}); reinstall Nsight Compute"
        ) from error


def _plan_for(program: str, compute_capability: str) -> MetricPlan:
    """The metrics to ask for, among those that ``ncu --query-metrics`` lists.

    Raises ``RecordError`` where none of them counts.
    """
    done = subprocess.run(
        [program, "--query-metrics"],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, **_LANGUAGE},
        check=False,
    )
    if names := metric_names(done.stdout):
        return metrics_for(compute_capability, names)
    raise RecordError(
        complaint(done.stdout + done.stderr)
        or "ncu --query-metrics lists no metric; run it by hand to see why."
    )


def _profiled(options: Sequence[str], task: Task) -> list[Count]:
    """One process over the cases of ``task`` in order; it counts at least the first, or fails.

    If it ended early, the case at which it did has failed, and later ones are not among them.
    """
    counts: list[Count] = []
    with working(
        task, _LANGUAGE, lambda folder: (*options, "--log-file", f"{folder}/ncu.csv")
    ) as running:
        ended = {each.case: each for each in running.messages() if isinstance(each, Count)}
        log = text_of(running.folder / "ncu.csv")
        said = _complaint(log, running.said())
    try:
        launched = {row.range for row in read_table(log)}
    except RecordError as error:
        raise RecordError(said or str(error)) from error
    if not any(launched):
        raise MeasurementError(
            "ncu recorded kernels but none of our NVTX ranges, so that they belong to no case; use "
            "a PyTorch built with NVTX"
        )
    for case, factors in task.cases:
        ranges = tuple(case_range(factors, call) for call in range(CALLS))
        if case not in ended:
            return [*counts, _failed(case, said or "The profiled program ended during this case.")]
        if ended[case].missing:
            counts.append(ended[case])
        elif launched.issuperset(ranges):
            counts.append(_counted(case, logs_of(log, ranges)))
        else:
            counts.append(_failed(case, "No kernel ran on the GPU during this case."))
    return counts


def _counted(case: int, logs: dict[str, str]) -> Count:
    try:
        series, missing = counted(logs, f"ncu, case {case}")
        return Count(case=case, series=series, missing=missing, logs=logs)
    except RecordError as error:
        return _failed(case, str(error))


def _failed(case: int, reason: str) -> Count:
    return Count(case=case, missing=dict.fromkeys(QUANTITIES, reason))


def _complaint(log: str, printed: str) -> str | None:
    """ncu's complaint; if the program failed, with the program's own last words."""
    said = complaint(f"{log}\n{printed}")
    if said != PROGRAM_FAILED:
        return said
    own = "\n".join(line for line in printed.splitlines() if not line.startswith("=="))
    return f"The profiled program failed under ncu ({last_line(own)}); fix that first."
