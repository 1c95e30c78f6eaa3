"""Starts a process for each case, so that no library's threads or allocator disturb another's.

A fresh process also makes the first call of every case a cold one, and repetitions in several
processes show what one process draws by chance and keeps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.backends.child import Result, Task
from experiments.harness.apart import LIMIT_S, ended
from experiments.harness.outcomes import OutcomeError
from report.records.record import Series

_ROOT: Final = Path(__file__).parents[2]


def measured(task: Task) -> tuple[Series, ...]:
    """The series of a case; raises ``OutcomeError`` with the outcome where there are none."""
    return _ok(_run(task)).series


def described(task: Task) -> dict[str, Any]:
    """What a library says of itself; raises ``OutcomeError`` where it cannot be loaded."""
    return _ok(_run(task)).described or {}


def _ok(result: Result) -> Result:
    if result.status != "ok":
        raise OutcomeError(result.status, result.reason or "No reason was given.")
    return result


def variables_of(task: Task) -> dict[str, str]:
    """What every library reads when it is imported.

    JAX computes in float32 whatever is asked for unless it is told otherwise, and takes a GPU where
    it finds one.
    """
    threads = str(task.threads)
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return {
        **dict.fromkeys(names, threads),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1" if task.factors["dtype"] == "float64" else "0",
    }


def _run(task: Task) -> Result:
    try:
        done = subprocess.run(
            [sys.executable, "-m", "experiments.backends.child"],
            input=msgspec.msgpack.encode(task),
            capture_output=True,
            cwd=_ROOT,
            env={**os.environ, **variables_of(task)},
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        reason = f"The process of this case did not end within {LIMIT_S:g} s."
        return Result(status="failed", reason=reason)
    if done.returncode == 0:
        return msgspec.msgpack.decode(done.stdout, type=Result)
    return Result(
        status="failed", reason=ended(done.returncode, done.stderr.decode(errors="replace"))
    )
