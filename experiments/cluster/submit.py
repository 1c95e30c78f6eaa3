"""``python -m experiments submit``: a run in shards, each measured by a job of its own.

A shard is there when its record is; so jobs that fail, run out of time or lose their node are
submitted again, and go on where they were.
"""

from __future__ import annotations

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
from report.errors import MeasurementError
from report.records.pooling import OPTION

#: This program without its options; tests have one that knows their study.
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "experiments")
#: Asked of sbatch as they are.
ASKED: Final = ("partition", "account", "qos", "constraint", "gres")
#: So often jobs are submitted without progress.
_ATTEMPTS: Final = 3


class Jobs:
    """The jobs of one sweep, and the shards that they measure."""

    def __init__(self, request: Request, options: argparse.Namespace) -> None:
        """Raises ``UsageError`` for more shards than there can be."""
        self.request, self.options = request, options
        self.of = options.shards or options.nodes
        shard = replace(request, shard=(1, self.of)).part()
        self.sweep = status.tag(request.study, shard, request.threads, request.label)
        self.logs = request.records / request.study / ".jobs"  # hidden, and ignored by git
        self.submitted: dict[int, Any] = {}
        # The signal goes to the run itself, which keeps what is finished and ends.
        self.flags = {"signal": "B:TERM@30", "nodes": "1"}
        self.flags |= {name: value for name in ASKED if (value := getattr(options, name))}

    def command(self, number: int | str) -> list[str]:
        """What the job of a shard runs."""
        words = (*self.request.command(self.request.threads)[3:], *self.request.places)
        return [*PROGRAM, *words, OPTION, f"{number}/{self.of}", "--if-missing"]

    def start(self, numbers: Sequence[int]) -> None:
        """Submit a job for each of these shards, which becomes the run itself."""
        import submitit

        python = f"exec {shlex.quote(sys.executable)}"
        try:
            executor = submitit.AutoExecutor(self.logs, self.options.cluster, slurm_python=python)
            executor.update_parameters(
                name=f"ridgepoint-{self.request.study}",
                timeout_min=self.options.time,
                local_gpus_per_node=int(self.request.device == "cuda"),  # else it sees none
                slurm_exclusive=True,
                slurm_array_parallelism=self.options.nodes,
                slurm_comment=self.sweep + ",".join(map(str, numbers)),
                slurm_additional_parameters=self.flags,
                slurm_use_srun=False,  # a step of srun may be bound to one core of the node
            )
            programs = [PROGRAM[0]] * len(numbers)
            jobs = executor.map_array(os.execvp, programs, map(self.command, numbers))
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            local = ", or give --cluster local" if self.options.cluster == "slurm" else ""
            said = f"{last_line(str(error))}; change the options{local}"
            raise MeasurementError(f"The jobs cannot be submitted: {said}.") from error
        self.submitted |= zip(numbers, jobs, strict=True)

    def active(self) -> Mapping[int, str]:
        """What the jobs that wait or run do, by shard; those of SLURM whoever submitted them."""
        if self.options.cluster == "local":
            return {number: "running" for number, job in self.submitted.items() if not job.done()}
        try:
            return status.queued(self.request.study).get(self.sweep, {})
        except MeasurementError as error:
            if not self.submitted:
                raise
            return dict.fromkeys(self.submitted, str(error))


def submit(request: Request, options: argparse.Namespace, observer: Observer) -> Path:
    """Submit what is missing until it is there; the path of the first shard's record.

    Raises ``MeasurementError`` for jobs that are submitted too often without progress; when a
    person stops it, the jobs are ended.
    """
    jobs = Jobs(request, options)
    try:
        return _submitted(jobs, observer)
    except KeyboardInterrupt:
        for job in jobs.submitted.values():
            with suppress(OSError, subprocess.SubprocessError):
                job.cancel(check=False)
        observer.note("The jobs are ended; the same command goes on with what they measured.")
        raise


def _submitted(jobs: Jobs, observer: Observer) -> Path:
    study, records, minutes = jobs.request.study, jobs.request.records, jobs.options.time
    tries, most, printed = 0, (-jobs.of, -1), ""
    while True:
        active, parts = jobs.active(), status.shards(study, records, jobs.sweep)
        text = "; ".join(f"shard {n} of {jobs.of}: {active[n]}" for n in sorted(active))
        if text not in ("", printed):
            observer.note(text)
        printed = text
        left = [number for number, part in parts.items() if part.state != "measured"]
        if not left:
            return records / study / parts[1].file
        if not active:
            reached = -len(left), sum(part.kept for part in parts.values())
            tries, most = (1, reached) if reached > most else (tries + 1, most)
            if tries > _ATTEMPTS:
                number = next((n for n in left if n in jobs.submitted), min(jobs.submitted))
                log = jobs.submitted[number].paths.stderr
                raise MeasurementError(
                    f"Shard {number} was submitted {_ATTEMPTS} times without progress, each time "
                    f"for {minutes} min (--time); {log} ends with: {last_line(read_text(log))}"
                )
            now = left[: jobs.options.nodes] if jobs.options.cluster == "local" else left
            jobs.start(now)
            shards = f"{', '.join(map(str, now))} of {jobs.of}"
            observer.note(f"Submitted shards {shards}; time limit {minutes} min.")
        time.sleep(2)


def export_script(request: Request, options: argparse.Namespace) -> int:
    """Write a script for sbatch that measures all shards without submitit; the exit code."""
    jobs, path = Jobs(request, options), options.export_sbatch
    jobs.logs.mkdir(parents=True, exist_ok=True)
    flags = {
        "job-name": f"ridgepoint-{request.study}",
        "array": f"1-{jobs.of}%{options.nodes}",
        "time": options.time,
        "chdir": Path.cwd(),
        "output": f"{jobs.logs}/%A_%a.log",
        "comment": jobs.sweep + ",".join(map(str, range(jobs.of + 1))),
        **jobs.flags,
    }
    asked = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in flags.items()]
    command = shlex.join(jobs.command("NUMBER")).replace("NUMBER/", "${SLURM_ARRAY_TASK_ID}/")
    lines = ("#!/bin/bash", *asked, "#SBATCH --exclusive", "set -eu", f"exec {command}", "")
    path.write_text("\n".join(lines), encoding="utf-8")
    print(f"Submit it with: sbatch {shlex.quote(str(path))}; time limit {options.time} min a job.")
    print("Submit it again if a shard is missing then: it goes on where it ended.")
    return 0
