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
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.harness import code, queue, run
from experiments.harness.progress import Observer
from experiments.harness.study import UsageError
from experiments.harness.sweep_status import ShardState, sweeps
from experiments.options import add_measured, count
from report.errors import MeasurementError
from report.records.record import Shard
from report.records.strict import read_strictly

#: This program without its options; tests have one that knows their study.
PROGRAM: tuple[str, ...] = (sys.executable, "-m", "experiments")
#: Asked of sbatch as they are.
_ASKED: Final = ("partition", "account", "qos", "constraint", "gres")
_REMEDY: Final = "write it as «name: {partition: gpu, time: 60}», as docs/cluster.md shows"
_POLL_S: Final = 2.0
#: Sent to the run itself this long before its time is over: it keeps what is finished and ends.
_SIGNAL: Final = "B:TERM@30"


class Jobs(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How jobs are asked for: a profile of ``clusters.yaml``, under the options that are given.

    ``time`` is in min; ``modules`` are loaded before a job; ``container`` is the command before
    ``python``.  At most ``nodes`` jobs run at once; ``attempts`` are those without progress.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    time: int = 60
    modules: tuple[str, ...] = ()
    container: str | None = None
    cluster: str = "slurm"
    nodes: int = 1
    shards: int = 0
    attempts: int = 3

    def asked(self, prefix: str = "") -> dict[str, str]:
        """What sbatch is asked for beside the time."""
        return {prefix + name: value for name in _ASKED if (value := getattr(self, name))}


def add_submit(go: argparse.ArgumentParser) -> None:
    """The options of ``submit``: those of a run, and those of its jobs."""
    add_measured(go)
    jobs = go.add_argument_group("jobs")
    jobs.add_argument("--cluster", choices=("slurm", "local"), help="local: on this machine")
    jobs.add_argument("--nodes", type=count, metavar="N", help="jobs at once; default: 1")
    jobs.add_argument("--shards", type=count, metavar="N", help="default: as many as nodes")
    for name in _ASKED:
        jobs.add_argument(f"--{name}", metavar=name.upper(), help=f"{name} that sbatch asks for")
    jobs.add_argument("--time", type=count, metavar="MIN", help="limit of a job; default: 60")
    jobs.add_argument("--profile", metavar="NAME", help="defaults from this one of clusters.yaml")
    jobs.add_argument("--attempts", type=count, metavar="N", help="without progress; default: 3")
    jobs.add_argument("--export-sbatch", type=Path, metavar="FILE", help="write a script instead")


def jobs_of(options: argparse.Namespace) -> Jobs:
    """What the options and their profile ask for; raises ``UsageError`` and ``RecordError``."""
    path, name, jobs = options.records / "clusters.yaml", options.profile, Jobs()
    if name is not None:
        if not path.exists():
            raise UsageError(f"--profile {name}: there is no {path}; write it, or leave it out.")
        profiles = read_strictly(path, dict[str, Jobs], "YAML", _REMEDY, options.records)
        if name not in profiles:
            raise UsageError(f"--profile {name}: {path} has {', '.join(profiles) or 'none'}.")
        jobs = profiles[name]
    given = {key: getattr(options, key, None) for key in Jobs.__struct_fields__}
    given = {key: value for key, value in given.items() if value is not None}
    jobs = msgspec.structs.replace(jobs, **given)
    return msgspec.structs.replace(jobs, shards=jobs.shards or jobs.nodes)


def _sweep(request: run.Request, jobs: Jobs) -> tuple[Shard, Path]:
    """What tells the sweep from others, and the folder of its logs, hidden and ignored by git."""
    study, selection = run.selected(request)
    first = replace(request, shard=(1, jobs.shards))
    shard = run.shard_of(first, study, selection, selection.plan.protocol)
    assert shard is not None
    return shard, request.records / request.study / ".jobs"


def _words(request: run.Request, number: int, jobs: Jobs) -> list[str]:
    """The command of the job that measures a shard."""
    container = shlex.split(jobs.container or "")
    program = [*container, "python", "-m", "experiments"] if container else PROGRAM
    words = (*run.command_of(request, request.threads)[3:], *run.places(request))
    return [*program, *words, "--shard", f"{number}/{jobs.shards}", "--if-missing"]


def _setup(jobs: Jobs) -> list[str]:
    return [shlex.join(["module", "load", *jobs.modules])] if jobs.modules else []


def export_script(request: run.Request, jobs: Jobs, path: Path, say: Callable[[str], None]) -> int:
    """Write a script for sbatch that measures all shards and needs no submitit; the exit code.

    It may be submitted again, from anywhere.
    """
    sweep, logs = _sweep(request, jobs)
    logs.mkdir(parents=True, exist_ok=True)
    flags = {
        "job-name": f"ridgepoint-{request.study}",
        "array": f"1-{jobs.shards}%{jobs.nodes}",
        "time": jobs.time,
        "chdir": Path.cwd(),
        "output": f"{logs}/%A_%a.log",
        "comment": queue.tag(request.study, sweep, range(jobs.shards + 1)),
        "signal": _SIGNAL,
        **jobs.asked(),
    }
    asked = [f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in flags.items()]
    command = shlex.join(_words(request, 0, jobs))
    command = command.replace(" --shard 0/", " --shard ${SLURM_ARRAY_TASK_ID}/")
    head = ("#!/bin/bash", *asked, "#SBATCH --nodes=1", "#SBATCH --exclusive", "set -eu")
    path.write_text("\n".join((*head, *_setup(jobs), f"exec {command}", "")), encoding="utf-8")
    say(
        f"Submit it with: sbatch {shlex.quote(str(path))}; each job may take {jobs.time} min "
        "(--time). Submit it again if a shard is missing then: it goes on where it ended."
    )
    return 0


def submit(request: run.Request, jobs: Jobs, observer: Observer) -> Path:
    """Submit what is missing until it is there; the path of the first shard's record.

    Raises ``MeasurementError`` for a shard that is submitted too often without progress,
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
        raise run.StoppedError(f"{said}goes on.", run.exit_code_of(interrupt)) from interrupt


def _submitted(
    request: run.Request, jobs: Jobs, running: dict[int, Any], observer: Observer
) -> Path:
    sweep, logs = _sweep(request, jobs)
    tries, before, printed = Counter[int](), dict[int, int](), ""
    while True:
        active = _active(request.study, sweep, jobs, running)
        text = "; ".join(
            f"shard {number} of {sweep.of}: {active[number]}" for number in sorted(active)
        )
        if text not in ("", printed):
            observer.note(text)
        printed, shards = text, _shards(request, sweep)
        left = [shard for shard in shards if shard.state != "measured"]
        if not left:
            return request.records / request.study / shards[0].place
        if not active:
            left = left[: jobs.nodes] if jobs.cluster == "local" else left
            for shard in left:
                progress = shard.done > before.get(shard.number, -1)
                tries[shard.number] = 1 if progress else tries[shard.number] + 1
                before[shard.number] = shard.done
                if tries[shard.number] > jobs.attempts:
                    raise _given_up(shard.number, jobs, Path(running[shard.number].paths.stderr))
            numbers = [shard.number for shard in left]
            running |= _started(request, sweep, jobs, logs, numbers)
            observer.note(
                f"Submitted jobs for these of {sweep.of} shards: {', '.join(map(str, numbers))}; "
                f"time limit {jobs.time} min."
            )
        time.sleep(_POLL_S)


def _active(study: str, sweep: Shard, jobs: Jobs, running: dict[int, Any]) -> dict[int, str]:
    """What the jobs that wait or run do, by shard; those of SLURM whoever submitted them."""
    if jobs.cluster == "local":
        return {number: "running" for number, job in running.items() if not job.done()}
    try:
        return queue.queued(study).get((sweep.sweep, sweep.of), {})
    except MeasurementError as error:
        if not running:
            raise
        return dict.fromkeys(running, str(error))


def _shards(request: run.Request, sweep: Shard) -> Sequence[ShardState]:
    """What there is of the shards that these jobs measure, on the newest kind of machine."""
    measuring = code.identify(request.study)[0].measuring_code
    for state in reversed(sweeps(request.study, request.records)):
        if (state.shard.sweep, state.shard.of, state.code) == (sweep.sweep, sweep.of, measuring):
            return state.shards
    return [ShardState(number, "missing", 0, 0) for number in range(1, sweep.of + 1)]


def _given_up(number: int, jobs: Jobs, log: Path) -> MeasurementError:
    last = (log.read_text(errors="replace") if log.exists() else "").strip().rpartition("\n")[2]
    return MeasurementError(
        f"Shard {number} of {jobs.shards} was submitted {jobs.attempts} times without progress, "
        f"each time for {jobs.time} min (--time); {log} ends with: {last or 'nothing'}"
    )


def _started(
    request: run.Request, sweep: Shard, jobs: Jobs, logs: Path, numbers: list[int]
) -> dict[int, Any]:
    """A job for each of these shards; each becomes the run itself, and hears its signals."""
    commands = [_words(request, number, jobs) for number in numbers]
    try:
        import submitit

        python = f"exec {shlex.quote(sys.executable)}"
        executor = submitit.AutoExecutor(logs, cluster=jobs.cluster, slurm_python=python)
        executor.update_parameters(
            name=f"ridgepoint-{request.study}",
            timeout_min=jobs.time,
            # A process of this machine sees no GPU unless it asks for one.
            gpus_per_node=1 if jobs.cluster == "local" and request.device == "cuda" else None,
            slurm_exclusive=True,
            slurm_array_parallelism=jobs.nodes,
            slurm_setup=_setup(jobs) or None,
            slurm_comment=queue.tag(request.study, sweep, numbers),
            slurm_additional_parameters={"signal": _SIGNAL},
            # A step of srun may be bound to one core of the node.
            slurm_use_srun=False,
            **jobs.asked("slurm_"),
        )
        started = executor.map_array(os.execvp, [words[0] for words in commands], commands)
    except ModuleNotFoundError as error:
        raise MeasurementError(
            "submit needs submitit; install it with: python -m pip install -e '.[slurm]', or give "
            "--export-sbatch FILE for a script that does not."
        ) from error
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        last = str(error).strip().rpartition("\n")[2]
        raise MeasurementError(
            f"The jobs cannot be submitted: {last}; change the options, or give --cluster local "
            "where there is no SLURM."
        ) from error
    return dict(zip(numbers, started, strict=True))
