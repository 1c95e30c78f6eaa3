"""``python -m experiments submit``: measure a run in parts (shards), one job per shard.

A shard counts as measured when its record exists.  If a job fails, runs out of time or loses its
node, it is submitted again, and continues.
"""

import argparse
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from experiments.commands import status
from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.machine.text import last_line, read_text
from report.core.errors import MeasurementError
from report.core.records.pooling import SHARD_OPTION

#: Command of this program without options; tests replace the command.
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "experiments")
#: Options of ``submit`` that sbatch also has.
SBATCH_OPTIONS: Final = ("partition", "account", "qos", "constraint", "gres")
#: Largest number of submissions without progress.
_ATTEMPTS: Final = 3


class Jobs:
    """Jobs that measure a sweep: all shards of one run."""

    def __init__(self, request: Request, options: argparse.Namespace) -> None:
        """Prepare to submit a job per shard; raises ``UsageError`` for too many shards."""
        self.request, self.options = request, options
        self.shards = options.shards or options.nodes
        shard = replace(request, shard=(1, self.shards)).select_shard()
        self.sweep_tag = status.tag(request.study, shard, request.threads, request.label)
        self.logs = request.records / request.study / ".jobs"  # hidden, and ignored by git
        self.submitted: dict[int, Any] = {}  # number of a shard → its last job
        # 30 s before the time limit, SLURM sends SIGTERM to the run, which saves finished cases.
        self.flags = {"signal": "B:TERM@30", "nodes": "1"}
        for name in SBATCH_OPTIONS:
            value = getattr(options, name)
            if value:
                self.flags[name] = value

    def command(self, number: int | str) -> list[str]:
        """Return the command that measures a shard."""
        _python, _m, _experiments, *words = self.request.command(self.request.threads)
        words += self.request.folder_options
        return [*PROGRAM, *words, SHARD_OPTION, f"{number}/{self.shards}", "--if-missing"]

    def start(self, numbers: Sequence[int]) -> None:
        """Submit a job for each shard in ``numbers``."""
        import submitit

        python = f"exec {shlex.quote(sys.executable)}"
        try:
            executor = submitit.AutoExecutor(self.logs, self.options.cluster, slurm_python=python)
            executor.update_parameters(
                name=f"ridgepoint-{self.request.study}",
                timeout_min=self.options.time,
                local_gpus_per_node=int(self.request.device == "cuda"),  # 0 hides all GPUs
                slurm_exclusive=True,
                slurm_array_parallelism=self.options.nodes,
                slurm_comment=self.sweep_tag + ",".join(map(str, numbers)),
                slurm_additional_parameters=self.flags,
                slurm_use_srun=False,  # srun may bind a step to one core of the node
            )
            programs = [PROGRAM[0]] * len(numbers)
            jobs = executor.map_array(os.execvp, programs, map(self.command, numbers))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            local = ", or give --cluster local" if self.options.cluster == "slurm" else ""
            reason = f"{last_line(str(error))}; change the options{local}"
            raise MeasurementError(f"The jobs cannot be submitted: {reason}.") from error
        self.submitted |= zip(numbers, jobs, strict=True)

    def active(self) -> Mapping[int, str]:
        """Return shard → state of its unfinished job; with SLURM, also jobs of earlier commands."""
        if self.options.cluster == "local":
            return {number: "running" for number, job in self.submitted.items() if not job.done()}
        try:
            return status.queued_jobs(self.request.study).get(self.sweep_tag, {})
        except MeasurementError as error:
            if not self.submitted:
                raise
            return dict.fromkeys(self.submitted, str(error))


def submit(request: Request, options: argparse.Namespace, observer: Observer) -> Path:
    """Submit missing shards (parts of the run) until all are measured; return shard 1's record.

    An interruption cancels the jobs.  Raises ``MeasurementError`` if ``_ATTEMPTS`` submissions in a
    row make no progress.
    """
    jobs = Jobs(request, options)
    try:
        return _submit_missing(jobs, observer)
    except KeyboardInterrupt:
        for job in jobs.submitted.values():
            with suppress(OSError, subprocess.SubprocessError):
                job.cancel(check=False)
        observer.note("The jobs are ended; to continue them, repeat the command.")
        raise


def _submit_missing(jobs: Jobs, observer: Observer) -> Path:
    """Submit missing shards whenever no job is active, until all are measured; see ``submit``."""
    study, records, minutes = jobs.request.study, jobs.request.records, jobs.options.time
    # Progress is (− number of missing shards, number of saved results), compared as a tuple.
    attempts, most_progress, printed = 0, (-jobs.shards, -1), ""
    while True:
        active, states = jobs.active(), status.shard_states(study, records, jobs.sweep_tag)
        text = "; ".join(f"shard {n} of {jobs.shards}: {active[n]}" for n in sorted(active))
        if text not in ("", printed):
            observer.note(text)
        printed = text
        missing = [number for number, shard in states.items() if shard.state != "measured"]
        if not missing:
            return records / study / states[1].file
        if not active:
            progress = -len(missing), sum(shard.result_count for shard in states.values())
            attempts = 1 if progress > most_progress else attempts + 1
            most_progress = max(progress, most_progress)
            if attempts > _ATTEMPTS:
                number = min(jobs.submitted.keys() & missing or jobs.submitted)
                log = jobs.submitted[number].paths.stderr
                raise MeasurementError(
                    f"Shard {number} was submitted {_ATTEMPTS} times without progress, each time "
                    f"for {minutes} min (--time); {log} ends with: {last_line(read_text(log))}"
                )
            if jobs.options.cluster == "local":
                missing = missing[: jobs.options.nodes]
            jobs.start(missing)
            numbers = ", ".join(str(number) for number in missing)
            observer.note(f"Submitted shards {numbers} of {jobs.shards}; time limit {minutes} min.")
        time.sleep(2)


def export_script(request: Request, options: argparse.Namespace) -> int:
    """Write a script for sbatch that measures all shards without submitit; return the exit code."""
    jobs, path = Jobs(request, options), options.export_sbatch
    jobs.logs.mkdir(parents=True, exist_ok=True)
    flags = {
        "job-name": f"ridgepoint-{request.study}",
        "array": f"1-{jobs.shards}%{options.nodes}",
        "time": options.time,
        "chdir": Path.cwd(),
        "output": f"{jobs.logs}/%A_%a.log",
        # SLURM's index of a job in the array is the position of its shard in this list.
        "comment": jobs.sweep_tag + ",".join(str(number) for number in range(jobs.shards + 1)),
        **jobs.flags,
    }
    directives = [f"#SBATCH --{name}={shlex.quote(str(value))}" for name, value in flags.items()]
    command = shlex.join(jobs.command("NUMBER")).replace("NUMBER/", "${SLURM_ARRAY_TASK_ID}/")
    lines = ("#!/bin/bash", *directives, "#SBATCH --exclusive", "set -eu", f"exec {command}", "")
    path.write_text("\n".join(lines), encoding="utf-8")
    print(f"Submit it with: sbatch {shlex.quote(str(path))}; time limit {options.time} min a job.")
    print("If a shard is missing afterwards, submit the script again to continue.")
    return 0
