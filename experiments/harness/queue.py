"""The shards that jobs of SLURM wait to measure or measure, as its queue says.

A job says in its comment which shards its array measures, so that the queue can be asked from any
login; many clusters keep no accounts that could be asked instead.
"""

from __future__ import annotations

import getpass
import subprocess
from collections.abc import Iterable

from report.errors import MeasurementError
from report.records.record import Shard

_PROGRAM = "ridgepoint"


def tag(study: str, sweep: Shard, numbers: Iterable[int]) -> str:
    """The comment of jobs whose array measures the shards ``numbers``, in this order from 0."""
    return f"{_PROGRAM}:{study}:{sweep.sweep}:{sweep.of}:{','.join(map(str, numbers))}"


def queued(study: str) -> dict[tuple[str, int], dict[int, str]]:
    """What the jobs of this user do, by sweep and shard; nothing where there is no SLURM.

    Raises ``MeasurementError`` where SLURM is there and does not answer.
    """
    command = ["squeue", "--noheader", "--array", "--user", getpass.getuser()]
    command += ["--format", "%i|%T|%N|%l|%k"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return {}
    if done.returncode != 0:
        raise MeasurementError(f"SLURM does not answer ({done.stderr.strip()}); try again later.")
    found: dict[tuple[str, int], dict[int, str]] = {}
    for line in done.stdout.splitlines():
        name, state, node, limit, comment = line.split("|", 4)
        if not comment.startswith(f"{_PROGRAM}:{study}:"):
            continue
        _, _, sweep, of, numbers = comment.split(":")
        number = int(numbers.split(",")[int(name.partition("_")[2] or 0)])
        where = f" on {node}" if node else ""
        text = f"{state.lower()}{where}, time limit {limit}"
        found.setdefault((sweep, int(of)), {})[number] = text
    return found
