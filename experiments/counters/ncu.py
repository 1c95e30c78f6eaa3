"""Count executed work and memory traffic of cases on an NVIDIA GPU by Nsight Compute (ncu).

Times never come from ncu.  Kernel replay reports every kernel with its name; range replay would
report only one result per range.  Each kernel runs once for every group of counters.  Between these
runs, ncu restores the kernel's memory and flushes the caches, so DRAM traffic is measured with cold
caches.  The clocks are not changed.  ncu prints its table only when it ends, so that an
interruption loses all counts of a process.  Therefore each process runs few cases.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Generator, Sequence
from math import inf
from pathlib import Path
from typing import Final

import msgspec

from experiments.harness.journal import Count
from experiments.harness.processes import start_worker
from experiments.harness.study import Experiment
from experiments.harness.worker import PROFILED_CALLS, Task
from experiments.machine.text import last_line, read_text
from report.core.errors import MeasurementError, RecordError
from report.instruments.counters.ncu import QUANTITIES, case_range, logs_of, read_series
from report.instruments.counters.ncu_metrics import MetricPlan, metric_names, metrics_for
from report.instruments.counters.ncu_output import PROGRAM_FAILED, explain_error, read_table

NAME: Final = "ncu"
#: Time limit for counting (s): none, since replaying kernels is fast.
BUDGET_S: Final = inf
#: Time to start ncu (s).
START_S: Final = 0.0
#: Patterns of paths where installations put ncu without extending the PATH.
USUAL_PATHS: Final = (
    "/usr/local/cuda/bin/ncu",
    "/opt/nvidia/nsight-compute/*/ncu",
    "/usr/local/cuda-*/bin/ncu",
)
#: Largest number of cases per process.
_CASES_PER_PROCESS: Final = 16
#: Environment variables with which ncu prints a decimal point in every language.
_LANGUAGE: Final = {"LC_ALL": "C", "LANG": "C", "PYTHONUTF8": "1"}
_OPTIONS: Final = (
    "--target-processes all --replay-mode kernel --profile-from-start off --clock-control none "
    "--cache-control all --nvtx --csv --page raw --print-units base"
)


def unavailable() -> str | None:
    """Explain why this machine cannot count, with the remedy; ncu may still refuse later."""
    if find_ncu() is not None:
        return None
    return (
        "ncu is not installed here; install Nsight Compute with the CUDA toolkit or with conda "
        "install -c nvidia nsight-compute, and put ncu on the PATH"
    )


def seconds(multiply_adds: int) -> float:
    """Predict the time for counting a case (s): about 1 s, whatever its work."""
    return 1.0


def find_ncu() -> str | None:
    """Return the path of ncu on the PATH, else in ``USUAL_PATHS``; None if it is in neither."""
    on_path = shutil.which("ncu")
    if on_path:
        return on_path
    for pattern in USUAL_PATHS:
        versions = sorted(Path("/").glob(pattern.removeprefix("/")))
        if versions:
            return os.fspath(versions[-1])
    return None


def count(study: Experiment, task: Task, limit_s: float) -> Generator[Count, None, None]:
    """Count every case of ``task``; yield the counts of each process as soon as it has ended.

    ``limit_s`` is ignored, since ``BUDGET_S`` is infinite.  Raises ``MeasurementError``, with the
    remedy, if ncu cannot count here.
    """
    program, waiting = find_ncu() or "ncu", task.cases
    try:
        plan = _metric_plan(program, task.compute_capability)
        options = (program, *_OPTIONS.split(), "--metrics", ",".join(plan.metrics))
        while waiting:
            batch = waiting[:_CASES_PER_PROCESS]
            counts = _profile(options, msgspec.structs.replace(task, cases=batch))
            yield from counts
            waiting = waiting[len(counts) :]
    except RecordError as error:
        raise MeasurementError(str(error).rstrip(".")) from error
    except OSError as error:
        reason = f"ncu cannot be started ({error.strerror}); reinstall Nsight Compute"
        raise MeasurementError(reason) from error


def _metric_plan(program: str, compute_capability: str) -> MetricPlan:
    """Select metrics that ``ncu --query-metrics`` lists; raises ``RecordError`` if none fits."""
    query = subprocess.run(
        [program, "--query-metrics"],
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, **_LANGUAGE},
        check=False,
    )
    names = metric_names(query.stdout)
    if names:
        return metrics_for(compute_capability, names)
    reason = "ncu --query-metrics lists no metric; run it by hand to see why."
    raise RecordError(explain_error(query.stdout + query.stderr) or reason)


def _profile(options: Sequence[str], task: Task) -> list[Count]:
    """Profile the cases of ``task`` in one process; return the counts of at least the first case.

    If the process ends early, the running case gets the reason, and later cases are omitted.
    Raises ``RecordError`` or ``MeasurementError`` for a table that is missing or has no ranges.
    """
    finished: dict[int, Count] = {}

    def under_ncu(folder: Path) -> tuple[str, ...]:
        return (*options, "--log-file", f"{folder}/ncu.csv")

    with start_worker(task, _LANGUAGE, under_ncu) as started:
        for message in started.messages():
            if isinstance(message, Count):
                finished[message.case] = message
        log, output = read_text(started.folder / "ncu.csv"), started.output()
    reason = explain_error(f"{log}\n{output}")
    if reason == PROGRAM_FAILED:
        error = last_line(re.sub("^==.*$", "", output, flags=re.MULTILINE))  # without ncu's lines
        reason = f"The profiled program failed under ncu ({error}); fix that first."
    try:
        profiled = {row.range for row in read_table(log)}
    except RecordError as error:
        raise RecordError(reason or str(error)) from error
    if not any(profiled):
        raise MeasurementError(
            "ncu recorded kernels but no NVTX ranges, so that they belong to no case; use a "
            "PyTorch built with NVTX"
        )
    counts: list[Count] = []
    for case, factors in task.cases:
        ranges = tuple(case_range(factors, call) for call in range(PROFILED_CALLS))
        if case not in finished:
            reason = reason or "The profiled program ended during this case."
            return [*counts, _uncounted(case, reason)]
        if finished[case].missing:
            counts.append(finished[case])
        elif profiled.issuperset(ranges):
            logs = logs_of(log, ranges)
            try:
                series, missing = read_series(logs, f"ncu, case {case}")
                counts.append(Count(case=case, series=series, missing=missing, logs=logs))
            except RecordError as error:
                counts.append(_uncounted(case, str(error)))
        else:
            counts.append(_uncounted(case, "No kernel ran on the GPU during this case."))
    return counts


def _uncounted(case: int, reason: str) -> Count:
    """Return the entry of a case that lacks all counts for a ``reason``."""
    return Count(case=case, missing=dict.fromkeys(QUANTITIES, reason))
