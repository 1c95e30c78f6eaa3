"""What a job of a cluster is: where it runs, for how long, and the command that it runs; pure.

Options win over those of a profile, which stands in ``clusters.yaml`` beside the records.
"""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from experiments.harness.run import Request, command_of, places
from experiments.harness.study import UsageError
from report.records.strict import read_strictly

Cluster: TypeAlias = Literal["slurm", "local"]

#: What sbatch is asked for, by the names that it has there, and what each means.
JOB_OPTIONS: Final = {
    "partition": "the partition of the cluster",
    "account": "the account that pays",
    "qos": "the quality of service",
    "constraint": "what a node must have, so that all are of one kind",
    "gres": "generic resources, such as gpu:1",
    "time": "time for each job, in minutes or as HH:MM:SS; default: 60",
}
PROFILES: Final = "clusters.yaml"
#: This program without its options; None for this interpreter, or ``python`` in a container.
PROGRAM: tuple[str, ...] | None = None

_REMEDY: Final = "write it as «name: {partition: gpu, time: 60}», as docs/cluster.md shows"
_CLOCK: Final = re.compile(r"(?:(\d+)-)?(\d+):(\d\d):(\d\d)")
_DEFAULT_MIN: Final = 60


class Profile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How jobs are asked for on one cluster.

    ``modules`` are loaded before a job; ``container`` is the command before ``python``, such as
    ``apptainer exec --nv image.sif``.
    """

    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gres: str | None = None
    time: str | int | None = None
    modules: tuple[str, ...] = ()
    container: str | None = None

    @property
    def minutes(self) -> int:
        """Time for a job, at least a minute; raises ``UsageError``."""
        return _DEFAULT_MIN if self.time is None else minutes(str(self.time))


@dataclass(frozen=True)
class Jobs:
    """The jobs of a sweep: ``shards`` of them, at most ``nodes`` at once, each on its own node.

    A shard is submitted at most ``attempts`` times.
    """

    cluster: Cluster
    nodes: int
    shards: int
    attempts: int
    profile: Profile


def minutes(text: str) -> int:
    """The minutes of ``90`` or of ``1-12:00:00``, rounded up; raises ``UsageError``."""
    if text.isdecimal() and int(text) >= 1:
        return int(text)
    if found := _CLOCK.fullmatch(text):
        days, hours, mins, seconds = (int(part or 0) for part in found.groups())
        if total := ((days * 24 + hours) * 60 + mins) * 60 + seconds:
            return -(-total // 60)
    raise UsageError(f"--time {text!r} is no time; write minutes, or HH:MM:SS.")


def profile_of(records: Path, name: str | None, given: dict[str, str]) -> Profile:
    """The profile ``name``, or a plain one, with what was ``given`` instead.

    Raises ``UsageError`` for a name that is not there, ``RecordError`` for a wrong file.
    """
    path = records / PROFILES
    there: dict[str, Profile] = {}
    if name is not None:
        if not path.exists():
            raise UsageError(f"--profile {name}: there is no {path}; write it, or leave it out.")
        there = read_strictly(path, dict[str, Profile], "YAML", _REMEDY, records)
        if name not in there:
            raise UsageError(f"--profile {name}: {path} has {', '.join(there) or 'none'}.")
    found = there.get(name or "", Profile())
    profile = msgspec.structs.replace(found, **given)
    minutes(str(profile.time or _DEFAULT_MIN))
    return profile


def words_of(request: Request, number: int, shards: int, profile: Profile) -> tuple[str, ...]:
    """The command of the job that measures a shard."""
    shard = replace(request, shard=(number, shards))
    _, _, _, *options = (*command_of(shard, request.threads), *places(request), "--if-missing")
    return (*_program(profile), *options)


def _program(profile: Profile) -> tuple[str, ...]:
    if PROGRAM is not None:
        return PROGRAM
    if profile.container is None:
        return (sys.executable, "-m", "experiments")
    return (*shlex.split(profile.container), "python", "-m", "experiments")


def setup_of(profile: Profile) -> list[str]:
    """What a shell does before a job."""
    return [shlex.join(["module", "load", *profile.modules])] if profile.modules else []


def sbatch_script(request: Request, jobs: Jobs, logs: Path) -> str:
    """A script for sbatch that measures all shards as an array of jobs, and needs no submitit.

    It may be submitted again: what is measured is left as it is, what is unfinished goes on.
    """
    profile, name = jobs.profile, f"ridgepoint-{request.study}"
    asked = {key: getattr(profile, key) for key in JOB_OPTIONS if key != "time"}
    flags = {
        "job-name": name,
        "array": f"1-{jobs.shards}%{jobs.nodes}",
        "nodes": 1,
        **{key: value for key, value in asked.items() if value is not None},
        "time": profile.minutes,
        "output": f"{logs}/%A_%a.log",
    }
    number = "${SLURM_ARRAY_TASK_ID}"
    words = shlex.join(words_of(request, 1, jobs.shards, profile))
    command = words.replace(f"--shard 1/{jobs.shards}", f"--shard {number}/{jobs.shards}")
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH --{key}={shlex.quote(str(value))}" for key, value in flags.items()),
        "#SBATCH --exclusive",
        "set -eu",
        *setup_of(profile),
        f"exec {command}",
    ]
    return "\n".join(lines) + "\n"
