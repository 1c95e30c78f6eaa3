"""Starts the workers that measure, and reads what they say."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any, Final, TypeAlias

import msgspec

from experiments import registry
from experiments.harness import policies, worker
from experiments.harness.journal import Last, Message
from experiments.harness.study import Factors, Session, Study
from experiments.harness.worker import Role, Task
from experiments.machine.code import ROOT
from experiments.machine.text import last_line
from report.errors import MeasurementError
from report.records.record import Policy
from report.system.processes import started

#: The command under which a worker runs, of the folder in which both write.
Under: TypeAlias = Callable[[Path], Sequence[str]]

#: What tells every array library how many threads to use; they read it when imported.
_THREADS: Final = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
#: How often lines are read (s): so much of the work is lost with a run that ends early.
TICK_S: Final = 0.1

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


@dataclass(frozen=True)
class Running:
    """A worker that runs, and the folder in which it and what it runs under write."""

    process: Popen[Any]
    folder: Path

    def messages(self) -> Iterator[Message]:
        """What the worker says, to its end."""
        incomplete, running = b"", True
        with (self.folder / "lines.jsonl").open("rb") as stream:
            while running:
                with suppress(TimeoutExpired):
                    self.process.wait(TICK_S)
                    running = False
                *whole, incomplete = (incomplete + stream.read()).split(b"\n")
                yield from map(_decoder.decode, whole)

    def said(self) -> str:
        """What it and what it runs under have printed."""
        return (self.folder / "said.txt").read_text(errors="replace")


@contextmanager
def working(
    task: Task,
    variables: Mapping[str, str] = {},
    under: Under = lambda folder: (),
) -> Iterator[Running]:
    """A worker on ``task``, ended with its children on leaving, who would else go on for nobody.

    ``variables`` are added to its environment.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-worker-") as name:
        folder = Path(name)
        tasks, lines = folder / "task.json", folder / "lines.jsonl"
        tasks.write_bytes(msgspec.json.encode(task))
        lines.touch()
        words = (sys.executable, "-m", worker.__name__, str(tasks), str(lines))
        with (
            (folder / "said.txt").open("wb") as said,
            started(
                (*under(folder), *words),
                cwd=ROOT,
                env={
                    **os.environ,
                    **dict.fromkeys(_THREADS, str(task.session.threads)),
                    **variables,
                },
                stdin=DEVNULL,
                stdout=said,
                stderr=said,
            ) as process,
        ):
            yield Running(process, folder)


def task_of(
    study: Study,
    role: Role,
    session: Session,
    cases: Mapping[int, Factors],
    policy: Policy = "default",
) -> Task:
    """To measure ``cases`` of a study, in a child each where that is possible."""
    return Task(
        role=role,
        session=session,
        module=registry.STUDIES[study.name],
        policy=policy,
        forks=worker.can_fork(session.device),
        cases=tuple(cases.items()),
    )


def measured(
    study: Study,
    task: Task,
    debug: Callable[[str], None],
    under: Under = lambda folder: (),
) -> Generator[Any, None, None]:
    """What becomes of each case of ``task``, by workers: what ends a case in its role.

    Cases that need the same imports share a worker; where one ends it, another measures those that
    are left.  A case that needs none finds none: without forks it has a worker of its own.
    ``debug`` is given what they print.  Raises ``MeasurementError`` if a worker cannot be started.
    """
    left = dict(task.cases)
    while left:
        needed = study.imports(next(iter(left.values())), task.session)
        together = [(n, f) for n, f in left.items() if study.imports(f, task.session) == needed]
        if not (needed or task.forks):
            together = together[:1]
        part = msgspec.structs.replace(task, cases=tuple(together))
        last = None
        with working(part, policies.variables(task.policy), under) as running:
            for message in running.messages():
                last = time.monotonic()
                if isinstance(message, Last):
                    del left[message.case]
                    yield message
            code, said = running.process.returncode, running.said()
        debug(said)
        if last is None:
            raise MeasurementError(f"The process that measures could not start: {last_line(said)}.")
        first = next((case for case in together if case[0] in left), None)
        if first is not None:
            del left[first[0]]
            reason = worker.ended(code) or "Its process ended early."
            yield worker.lost(study, part, first, "failed", reason, time.monotonic() - last)
