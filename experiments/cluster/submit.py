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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from experiments.harness import code, status
from experiments.harness.progress import Observer
from experiments.harness.request import Request
from experiments.harness.run import StoppedError
from experiments.harness.text import last_line
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
        self.shard = replace(request, shard=(1, options.shards or options.nodes)).part()
        self.folder = request.records / request.study
        self.logs = self.folder / ".jobs"  # hidden, and ignored by git
        self.running: dict[int, Any] = {}
        asked = {name: value for name in ASKED if (value := getattr(options, name))}
        # The signal goes to the run itself, which keeps what is finished and ends.
        self.flags = {"signal": "B:TERM@30", **asked}

    def command(self, number: int | str) -> list[str]:
        """What the job of a shard runs."""
        words = (*self.request.command(self.request.threads)[3:], *self.request.places)
        return [*PROGRAM, *words, OPTION, f"{number}/{self.shard.of}", "--if-missing"]

    def start(self, numbers: Sequence[int]) -> None:
        """Submit a job for each of these shards, which becomes the run itself."""
        import submitit

        commands, local = [*map(self.command, numbers)], self.options.cluster == "local"
        try:
            python = f"exec {shlex.quote(sys.executable)}"
            executor = submitit.AutoExecutor(self.logs, self.options.cluster, slurm_python=python)
            executor.update_parameters(
                name=f"ridgepoint-{self.request.study}",
                timeout_min=self.options.time,
                # A process of this machine sees no GPU unless it asks for one.
                gpus_per_node=1 if local and self.request.device == "cuda" else None,
                slurm_exclusive=True,
                slurm_array_parallelism=self.options.nodes,
                slurm_comment=status.tag(self.request.study, self.shard, numbers),
                slurm_additional_parameters=self.flags,
                # A step of srun may be bound to one core of the node.
                slurm_use_srun=False,
            )
            started = executor.map_array(os.execvp, [words[0] for words in commands], commands)
        except (OSError, RuntimeError, subprocess.SubprocessError) as error:
            raise MeasurementError(
                f"The jobs cannot be submitted: {last_line(str(error))}; change the options, or "
                "give --cluster local where there is no SLURM."
            ) from error
        self.running |= zip(numbers, started, strict=True)

    def active(self) -> dict[int, str]:
        """What the jobs that wait or run do, by shard; those of SLURM whoever submitted them."""
        if self.options.cluster == "local":
            return {number: "running" for number, job in self.running.items() if not job.done()}
        try:
            queue = status.queued(self.request.study)
        except MeasurementError as error:
            if not self.running:
                raise
            return dict.fromkeys(self.running, str(error))
        return queue.get((self.shard.sweep, self.shard.of), {})

    def parts(self) -> dict[int, status.Part]:
        """What there is of the shards, on the newest kind of machine."""
        wanted = code.identify(self.request.study)[0].measuring_code
        for head, parts in reversed(status.sweeps(self.request.study, self.request.records)):
            same = status.sweep_of(head) == (self.shard.sweep, self.shard.of)
            if same and head.code.measuring_code == wanted:
                return parts
        return {}


def export_script(request: Request, options: argparse.Namespace) -> int:
    """Write a script for sbatch that measures all shards without submitit; the exit code."""
    jobs, path = Jobs(request, options), options.export_sbatch
    jobs.logs.mkdir(parents=True, exist_ok=True)
    flags = {
        "job-name": f"ridgepoint-{request.study}",
        "array": f"1-{jobs.shard.of}%{options.nodes}",
        "time": options.time,
        "chdir": Path.cwd(),
        "output": f"{jobs.logs}/%A_%a.log",
        "comment": status.tag(request.study, jobs.shard, range(jobs.shard.of + 1)),
        "nodes": 1,
        **jobs.flags,
    }
    asked = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in flags.items()]
    command = shlex.join(jobs.command("NUMBER"))
    command = command.replace(" --shard NUMBER/", " --shard ${SLURM_ARRAY_TASK_ID}/")
    lines = ("#!/bin/bash", *asked, "#SBATCH --exclusive", "set -eu", f"exec {command}", "")
    path.write_text("\n".join(lines), encoding="utf-8")
    print(
        f"Submit it with: sbatch {shlex.quote(str(path))}; each job may take {options.time} min "
        "(--time). Submit it again if a shard is missing then: it goes on where it ended."
    )
    return 0


def submit(request: Request, options: argparse.Namespace, observer: Observer) -> Path:
    """Submit what is missing until it is there; the path of the first shard's record.

    Raises ``MeasurementError`` for jobs that are submitted too often without progress,
    ``StoppedError`` when a person stops it, which ends the jobs.
    """
    jobs = Jobs(request, options)
    try:
        return _submitted(jobs, observer)
    except KeyboardInterrupt as interrupt:
        for job in jobs.running.values():
            with suppress(OSError, subprocess.SubprocessError):
                job.cancel(check=False)
        said = "Interrupted: the jobs are ended, and what they measured is kept; the same command "
        raise StoppedError(f"{said}goes on.", interrupt) from interrupt


def _submitted(jobs: Jobs, observer: Observer) -> Path:
    tries, most, printed, of = 0, (-1, 0), "", jobs.shard.of
    while True:
        active, parts = jobs.active(), jobs.parts()
        text = "; ".join(f"shard {n} of {of}: {active[n]}" for n in sorted(active))
        if text not in ("", printed):
            observer.note(text)
        printed = text
        left = [n for n in range(1, of + 1) if n not in parts or parts[n].state != "measured"]
        if not left:
            return jobs.folder / parts[1].file
        if not active:
            reached = of - len(left), sum(part.kept for part in parts.values())
            tries, most = (1, reached) if reached > most else (tries + 1, most)
            if tries > _ATTEMPTS:
                number = next((n for n in left if n in jobs.running), min(jobs.running))
                log = Path(jobs.running[number].paths.stderr)
                said = last_line(log.read_text(errors="replace") if log.exists() else "")
                raise MeasurementError(
                    f"Shard {number} was submitted {_ATTEMPTS} times without progress, each time "
                    f"for {jobs.options.time} min (--time); {log} ends with: {said}"
                )
            now = left[: jobs.options.nodes] if jobs.options.cluster == "local" else left
            jobs.start(now)
            submitted = f"Submitted jobs for these of {of} shards: {', '.join(map(str, now))}"
            observer.note(f"{submitted}; time limit {jobs.options.time} min.")
        time.sleep(2)
