"""``python -m experiments submit``: a run in shards, each measured by a job of its own.

A shard is there when its record is; so jobs that fail, run out of time or lose their node are
submitted again, and go on where they were.
"""

from __future__ import annotations

import argparse
import getpass
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.cluster.jobs import (
    JOB_OPTIONS,
    Jobs,
    profile_of,
    sbatch_script,
    setup_of,
    words_of,
)
from experiments.harness import code
from experiments.harness.run import Request, StoppedError, exit_code_of, selected, shard_of
from experiments.harness.sweep import Observer
from experiments.harness.sweep_status import SweepState, sweeps
from experiments.harness.text import last_line, period_text, text_of
from experiments.options import add_measured, count
from report.errors import MeasurementError
from report.records.record import Shard

if TYPE_CHECKING:
    from submitit import Job

#: Where jobs write what they print, below the records of their study; hidden, ignored by git.
_LOGS: Final = ".jobs"
_POLL_S: Final = 2.0
#: Records and journals are read this often (s), for the time left.
_LOOK_S: Final = 10.0
#: So many seconds before its time is over, a job is told to end.
_NOTICE_S: Final = 20


def add_submit(go: argparse.ArgumentParser) -> None:
    """The options of ``submit``: those of a run, and those of its jobs."""
    add_measured(go)
    jobs = go.add_argument_group("jobs")
    jobs.add_argument(
        "--cluster",
        choices=("slurm", "local"),
        default="slurm",
        help="where the jobs run; local: as processes of this machine",
    )
    jobs.add_argument("--nodes", type=count, default=1, metavar="N", help="jobs at once")
    jobs.add_argument("--shards", type=count, metavar="N", help="default: as many as nodes")
    for name, what in JOB_OPTIONS.items():
        jobs.add_argument(f"--{name}", metavar=name.upper(), help=what)
    jobs.add_argument(
        "--profile", metavar="NAME", help="take what is not given from this one of clusters.yaml"
    )
    jobs.add_argument(
        "--attempts", type=count, default=3, metavar="N", help="times that a shard is submitted"
    )
    jobs.add_argument(
        "--export-sbatch", type=Path, metavar="FILE", help="write a script for sbatch, and end"
    )


def jobs_of(options: argparse.Namespace) -> Jobs:
    """The jobs that the options ask for; raises ``UsageError`` and ``RecordError``."""
    given = {name: getattr(options, name) for name in JOB_OPTIONS}
    return Jobs(
        cluster=options.cluster,
        nodes=options.nodes,
        shards=options.shards or options.nodes,
        attempts=options.attempts,
        profile=profile_of(
            options.records,
            options.profile,
            {name: value for name, value in given.items() if value is not None},
        ),
    )


def export_script(request: Request, jobs: Jobs, path: Path, say: Callable[[str], None]) -> int:
    """Write the script that measures all shards; the exit code."""
    _sweep(request, jobs)
    logs = request.records / request.study / _LOGS
    logs.mkdir(parents=True, exist_ok=True)
    path.write_text(sbatch_script(request, jobs, logs), encoding="utf-8")
    say(f"Submit it with: sbatch {path}; again, if a shard is missing afterwards.")
    return 0


def submit(request: Request, jobs: Jobs, observer: Observer) -> Path:
    """Submit what is missing until it is there; the path of the first shard's record.

    Raises ``MeasurementError`` for a shard that fails too often, ``StoppedError`` when a person
    stops it, which ends the jobs.
    """
    sweep = _sweep(request, jobs)
    attempts: Counter[int] = Counter()
    watched = _Watched(request, jobs, sweep, observer)
    while missing := watched.missing():
        tired = [number for number in missing if attempts[number] >= jobs.attempts]
        if tired:
            raise _given_up(request, jobs, tired, watched.said)
        now = missing if jobs.cluster == "slurm" else missing[: jobs.nodes]
        attempts.update(now)
        running = _start(request, jobs, now)
        observer.note(f"Submitted jobs for these of {jobs.shards} shards: {_listed(running)}.")
        try:
            watched.wait(running)
        except KeyboardInterrupt as interrupt:
            for job in running.values():
                with suppress(OSError, subprocess.SubprocessError):
                    job.cancel(check=False)
            raise StoppedError(
                "Interrupted: the jobs are ended, and what they measured is kept; the same command "
                "goes on.",
                exit_code_of(interrupt),
            ) from interrupt
    return watched.first_record()


def _sweep(request: Request, jobs: Jobs) -> Shard:
    """What tells the sweep from others; raises ``UsageError`` for more shards than can be."""
    study, selection = selected(request)
    whole = replace(request, shard=(1, jobs.shards))
    found = shard_of(whole, study, selection, selection.plan.protocol)
    assert found is not None
    return found


def _given_up(
    request: Request, jobs: Jobs, tired: Sequence[int], said: Mapping[int, str]
) -> MeasurementError:
    logs = request.records / request.study / _LOGS
    number = tired[0]
    return MeasurementError(
        f"Shard {number} of {jobs.shards} was submitted {jobs.attempts} times and is not there; "
        f"its job said: {said.get(number, 'nothing')}; see {logs}, and submit again."
    )


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(map(str, numbers))


# ---------------------------------------------------------------------------------- starting jobs


def _start(request: Request, jobs: Jobs, numbers: Sequence[int]) -> dict[int, Job[Any]]:
    """A job for each of these shards; each becomes the run itself, and hears its signals."""
    executor = _executor(request, jobs)
    commands = [list(words_of(request, n, jobs.shards, jobs.profile)) for n in numbers]
    try:
        started = executor.map_array(os.execvp, [words[0] for words in commands], commands)
    except (OSError, RuntimeError, subprocess.SubprocessError) as error:
        raise MeasurementError(
            f"The jobs cannot be submitted: {last_line(str(error))}; mend the options."
        ) from error
    return dict(zip(numbers, started, strict=True))


def _executor(request: Request, jobs: Jobs) -> Any:
    try:
        import submitit
    except ModuleNotFoundError as error:
        raise MeasurementError(
            "submit needs submitit; install it with: python -m pip install -e '.[slurm]', or give "
            "--export-sbatch FILE for a script that does not."
        ) from error
    profile = jobs.profile
    try:
        executor = submitit.AutoExecutor(
            folder=request.records / request.study / _LOGS, cluster=jobs.cluster
        )
    except RuntimeError as error:
        raise MeasurementError(
            "There is no SLURM here, since srun is not found; run this where jobs are submitted, "
            "or give --cluster local."
        ) from error
    asked = {name: getattr(profile, name) for name in JOB_OPTIONS if name != "time"}
    executor.update_parameters(
        name=f"ridgepoint-{request.study}",
        timeout_min=profile.minutes,
        # A process of this machine sees no GPU unless it asks for one.
        gpus_per_node=1 if jobs.cluster == "local" and request.device == "cuda" else None,
        slurm_exclusive=True,
        slurm_array_parallelism=jobs.nodes,
        slurm_setup=setup_of(profile) or None,
        slurm_signal_delay_s=_NOTICE_S,
        # A step of srun may be bound to one core of the node.
        slurm_use_srun=False,
        **{f"slurm_{name}": value for name, value in asked.items()},
    )
    return executor


# ------------------------------------------------------------------------------- watching jobs


@dataclass
class _Watched:
    """What is known of the jobs of a sweep; ``said`` is the last line of each."""

    request: Request
    jobs: Jobs
    sweep: Shard
    observer: Observer
    said: dict[int, str] = field(default_factory=dict)
    began: float = field(default_factory=time.monotonic)
    looked: float = 0.0
    at_first: int | None = None

    def state(self) -> SweepState | None:
        """The newest sweep that these jobs measure; None before anything of it is there."""
        measuring = code.identify()[0].measuring_code
        for found in reversed(sweeps(self.request.study, self.request.records)):
            same = (found.shard.sweep, found.shard.of) == (self.sweep.sweep, self.sweep.of)
            if same and found.code == measuring:
                return found
        return None

    def missing(self) -> list[int]:
        """The shards that are not measured."""
        state = self.state()
        every = range(1, self.jobs.shards + 1)
        return [shard.number for shard in state.left] if state else list(every)

    def first_record(self) -> Path:
        """The record of the first shard."""
        state = self.state()
        assert state is not None
        return self.request.records / self.request.study / state.shards[0].place

    def wait(self, running: Mapping[int, Job[Any]]) -> None:
        """Return when all jobs have ended, whatever became of them; say what changes."""
        printed: dict[int, str] = {}
        while True:
            words = _states(self.jobs, running)
            for number, word in words.items():
                changed = f"shard {number} of {self.jobs.shards}: {word}"
                self._progressed(changed if printed.get(number) != word else None)
            printed = words
            if all(word == "ended" for word in words.values()):
                break
            time.sleep(_POLL_S)
        for number, job in running.items():
            self.said[number] = last_line(text_of(Path(job.paths.stderr)))

    def _progressed(self, text: str | None) -> None:
        if text is None and time.monotonic() - self.looked < _LOOK_S:
            return
        self.looked = time.monotonic()
        state = self.state()
        done = sum(shard.done for shard in state.shards) if state else 0
        planned = sum(shard.planned for shard in state.shards) if state else 0
        if self.at_first is None:
            self.at_first = done
        new, spent = done - self.at_first, time.monotonic() - self.began
        left = period_text(spent * (planned - done) / new) if new > 0 else "unknown time"
        self.observer.progressed(text, done / planned if planned else 0.0, left)


def _states(jobs: Jobs, running: Mapping[int, Job[Any]]) -> dict[int, str]:
    """In a word what each job does; ``ended`` whether it went well or not."""
    if jobs.cluster == "local":
        return {n: "ended" if job.done() else "running" for n, job in running.items()}
    queue = _queue()
    if queue is None:
        return dict.fromkeys(running, "unknown, since squeue does not answer")
    return {number: queue.get(job.job_id, "ended") for number, job in running.items()}


def _queue() -> dict[str, str] | None:
    """What the jobs of this user do, by their names; None where SLURM does not answer.

    From the queue, since many clusters keep no accounts that submitit could ask.
    """
    words = ["squeue", "--noheader", "--array", "--user", getpass.getuser()]
    done = subprocess.run(
        [*words, "--format", "%i|%T|%N"], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        return None
    rows = (line.split("|") for line in done.stdout.splitlines() if line.count("|") == 2)
    return {name: f"{state.lower()} {node and f'on {node}'}".strip() for name, state, node in rows}
