"""One case in a fresh process, so that nothing that ran before can help or disturb it.

``python -m experiments.harness.apart TASK RESULT``, both files

A process that has measured other cases keeps their pages in its allocator, their kernels in its
libraries' caches and their layout in its memory, all of which change the time of the next case; and
repetitions inside one process share what that process drew by chance (where its memory lies, which
core it began on).  Hence cases that are compared are repeated in processes of their own.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias, cast

import msgspec

from experiments.harness import runtime
from experiments.harness.outcomes import OutcomeError, outcome_of
from experiments.harness.study import CaseFile, Device, Factors, Session
from experiments.harness.text import last_line
from report.records.record import Protocol, Series, Status

#: Far longer than any case takes; a process that hangs must not hold up the run for ever.
LIMIT_S: Final = 1800.0

_ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Found:
    """What a case gave: its series, and files to keep beside the record."""

    series: tuple[Series, ...] = ()
    files: tuple[CaseFile, ...] = ()


#: What runs in the fresh process; a function at the top of a module.
Function: TypeAlias = Callable[[Factors, Session], Found]


class _Task(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the fresh process is to do; ``function`` is ``module:name``, ``images`` a folder."""

    function: str
    factors: Factors
    device: Device
    threads: int
    protocol: Protocol
    images: str | None


class _Result(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How it went."""

    status: Status
    reason: str | None
    found: Found = Found()


def call_apart(
    function: Function,
    factors: Factors,
    session: Session,
    *,
    threads: int,
    variables: Mapping[str, str] | None = None,
) -> Found:
    """Call ``function`` in a process of its own and return what it found.

    ``variables`` are added to the environment of that process.  Raises ``OutcomeError`` with the
    outcome if the function raised, or if the process ended without one.
    """
    task = _Task(
        f"{function.__module__}:{function.__name__}",
        factors,
        session.device,
        threads,
        session.protocol,
        None if session.images is None else str(session.images.resolve()),
    )
    with tempfile.TemporaryDirectory(prefix="ridgepoint-apart-") as name:
        result = _run(task, Path(name), variables or {})
    if result.status != "ok":
        raise OutcomeError(result.status, result.reason or "no reason was given")
    return result.found


def _run(task: _Task, folder: Path, variables: Mapping[str, str]) -> _Result:
    asked, told = folder / "task.json", folder / "result.json"
    asked.write_bytes(msgspec.json.encode(task))
    try:
        done = subprocess.run(
            [sys.executable, "-m", "experiments.harness.apart", os.fspath(asked), os.fspath(told)],
            capture_output=True,
            cwd=_ROOT,
            env={**os.environ, **variables},
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _Result("failed", f"The process of this case did not end within {LIMIT_S:g} s.")
    if done.returncode == 0 and told.exists():
        return msgspec.json.decode(told.read_bytes(), type=_Result)
    return _Result("failed", ended(done.returncode, done.stderr.decode(errors="replace")))


def ended(code: int, said: str) -> str:
    """How the process ended without a result."""
    if code == -9:
        return "The process of this case was killed, most likely for lack of memory."
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return f"The process of this case ended with {how}: {last_line(said)}"


def main(task: _Task) -> _Result:
    """Do what ``task`` says, in this process; an exception becomes an outcome."""
    try:
        runtime.start_torch(task.device, task.threads)
        images = None if task.images is None else Path(task.images)
        session = Session(task.device, task.protocol, images)
        return _Result("ok", None, _function(task.function)(task.factors, session))
    except Exception as error:
        return _Result(*outcome_of(error))


def _function(name: str) -> Function:
    module, _, attribute = name.partition(":")
    return cast(Function, getattr(importlib.import_module(module), attribute))


if __name__ == "__main__":
    asked, told = map(Path, sys.argv[1:])
    outcome = main(msgspec.json.decode(asked.read_bytes(), type=_Task))
    told.write_bytes(msgspec.json.encode(outcome))
