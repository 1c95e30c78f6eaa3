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
from collections.abc import Callable
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
from report.records.record import Shard

#: This program without its options; tests have one that knows their study.
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "experiments")
#: Asked of sbatch as they are.
_ASKED: Final = ("partition", "account", "qos", "constraint", "gres")
#: So often jobs are submitted without progress.
_ATTEMPTS: Final = 3
#: Sent to the run itself this long before its time is over: it keeps what is finished and ends.
_SIGNAL: Final = "B:TERM@30"


def add_jobs(go: argparse.ArgumentParser) -> None:
    """The options of ``submit`` that say how jobs are asked for."""
    jobs = go.add_argument_group("jobs")
    jobs.add_argument(
        "--cluster", choices=("slurm", "local"), default="slurm", help="local: on this machine"
    )
    for name, default, meaning in (
        ("nodes", 1, "jobs at once; default: 1"),
        ("shards", None, "default: as many as nodes"),
        ("time", 60, "limit of a job in minutes; default: 60"),
    ):
        jobs.add_argument(f"--{name}", type=_count, default=default, metavar="N", help=meaning)
    for name in _ASKED:
        jobs.add_argument(f"--{name}", metavar=name.upper(), help=f"{name} that sbatch asks for")
    jobs.add_argument("--export-sbatch", type=Path, metavar="FILE", help="write a script instead")


def _count(text: str) -> int:
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")


def _flags(jobs: argparse.Namespace) -> dict[str, str]:
    """What every job asks for, by sbatch's names."""
    asked = {name: value for name in _ASKED if (value := getattr(jobs, name))}
    return {"signal": _SIGNAL, **asked}


def _sweep(request: Request, jobs: argparse.Namespace) -> tuple[Shard, Path]:
    """What tells the sweep from others, and the folder of its logs, hidden and ignored by git."""
    shard = replace(request, shard=(1, jobs.shards or jobs.nodes)).part()
    assert shard is not None
    return shard, request.records / request.study / ".jobs"


def _words(request: Request, number: int | str, of: int) -> list[str]:
    """The command of the job that measures a shard."""
    words = (*request.command(request.threads)[3:], *request.places)
    return [*PROGRAM, *words, "--shard", f"{number}/{of}", "--if-missing"]


def export_script(request: Request, jobs: argparse.Namespace, say: Callable[[str], None]) -> int:
    """Write a script for sbatch that measures all shards and needs no submitit; the exit code.

    It may be submitted again, from anywhere.
    """
    (sweep, logs), path = _sweep(request, jobs), jobs.export_sbatch
    logs.mkdir(parents=True, exist_ok=True)
    flags = {
        "job-name": f"ridgepoint-{request.study}",
        "array": f"1-{sweep.of}%{jobs.nodes}",
        "time": jobs.time,
        "chdir": Path.cwd(),
        "output": f"{logs}/%A_%a.log",
        "comment": status.tag(request.study, sweep, range(sweep.of + 1)),
        "nodes": 1,
        **_flags(jobs),
    }
    asked = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in flags.items()]
    command = shlex.join(_words(request, "NUMBER", sweep.of))
    command = command.replace(" --shard NUMBER/", " --shard ${SLURM_ARRAY_TASK_ID}/")
    lines = ("#!/bin/bash", *asked, "#SBATCH --exclusive", "set -eu", f"exec {command}", "")
    path.write_text("\n".join(lines), encoding="utf-8")
    say(
        f"Submit it with: sbatch {shlex.quote(str(path))}; each job may take {jobs.time} min "
        "(--time). Submit it again if a shard is missing then: it goes on where it ended."
    )
    return 0


def submit(request: Request, jobs: argparse.Namespace, observer: Observer) -> Path:
    """Submit what is missing until it is there; the path of the first shard's record.

    Raises ``MeasurementError`` for jobs that are submitted too often without progress,
    ``StoppedError`` when a person stops it, which ends the jobs.
    """
    running: dict[int, Any] = {}
    try:
        return _submitted(request, jobs, running, observer)
    except KeyboardInterrupt as interrupt:
        for job in running.values():
            with suppress(OSError, subprocess.SubprocessError):
                job.cancel(check=False)
        said = "Interrupted: the jobs are ended, and what they measured is kept; the same command "
        raise StoppedError(f"{said}goes on.", interrupt) from interrupt


def _submitted(
    request: Request, jobs: argparse.Namespace, running: dict[int, Any], observer: Observer
) -> Path:
    (sweep, logs), tries, before, printed = _sweep(request, jobs), 0, (-1, -1), ""
    while True:
        active = _active(request.study, sweep, jobs.cluster, running)
        text = "; ".join(f"shard {n} of {sweep.of}: {active[n]}" for n in sorted(active))
        if text not in ("", printed):
            observer.note(text)
        printed, shards = text, _shards(request, sweep)
        measured = {n: each for n, each in shards.items() if each.state == "measured"}
        left = [number for number in range(1, sweep.of + 1) if number not in measured]
        if not left:
            return request.records / request.study / measured[1].file
        if not active:
            done = (len(measured), sum(each.kept for each in shards.values()))
            tries, before = 1 if done > before else tries + 1, done
            if tries > _ATTEMPTS:
                log = Path(running[left[0]].paths.stderr)
                said = last_line(log.read_text(errors="replace") if log.exists() else "")
                raise MeasurementError(
                    f"Shard {left[0]} was submitted {_ATTEMPTS} times without progress, each time "
                    f"for {jobs.time} min (--time); {log} ends with: {said}"
                )
            left = left[: jobs.nodes] if jobs.cluster == "local" else left
            running |= _started(request, sweep, jobs, logs, left)
            numbers = ", ".join(map(str, left))
            submitted = f"Submitted jobs for these of {sweep.of} shards: {numbers}"
            observer.note(f"{submitted}; time limit {jobs.time} min.")
        time.sleep(2)


def _active(study: str, sweep: Shard, cluster: str, running: dict[int, Any]) -> dict[int, str]:
    """What the jobs that wait or run do, by shard; those of SLURM whoever submitted them."""
    if cluster == "local":
        return {number: "running" for number, job in running.items() if not job.done()}
    try:
        return status.queued(study).get((sweep.sweep, sweep.of), {})
    except MeasurementError as error:
        if not running:
            raise
        return dict.fromkeys(running, str(error))


def _shards(request: Request, sweep: Shard) -> dict[int, status.ShardState]:
    """What there is of the shards that these jobs measure, on the newest kind of machine."""
    wanted = (sweep.sweep, sweep.of, code.identify(request.study)[0].measuring_code)
    for each in reversed(status.sweeps(request.study, request.records)):
        if (each.shard.sweep, each.shard.of, each.head.code.measuring_code) == wanted:
            return each.shards
    return {}


def _started(
    request: Request, sweep: Shard, jobs: argparse.Namespace, logs: Path, numbers: list[int]
) -> dict[int, Any]:
    """A job for each of these shards; each becomes the run itself, and hears its signals."""
    import submitit

    commands = [_words(request, number, sweep.of) for number in numbers]
    try:
        python = f"exec {shlex.quote(sys.executable)}"
        executor = submitit.AutoExecutor(logs, cluster=jobs.cluster, slurm_python=python)
        executor.update_parameters(
            name=f"ridgepoint-{request.study}",
            timeout_min=jobs.time,
            # A process of this machine sees no GPU unless it asks for one.
            gpus_per_node=1 if jobs.cluster == "local" and request.device == "cuda" else None,
            slurm_exclusive=True,
            slurm_array_parallelism=jobs.nodes,
            slurm_comment=status.tag(request.study, sweep, numbers),
            slurm_additional_parameters=_flags(jobs),
            # A step of srun may be bound to one core of the node.
            slurm_use_srun=False,
        )
        started = executor.map_array(os.execvp, [words[0] for words in commands], commands)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise MeasurementError(
            f"The jobs cannot be submitted: {last_line(str(error))}; change the options, or give "
            "--cluster local where there is no SLURM."
        ) from error
    return dict(zip(numbers, started, strict=True))
