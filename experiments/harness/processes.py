"""Starts the workers that measure, and reads what they say."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any, Final

import msgspec

from experiments import registry
from experiments.harness import policies, worker
from experiments.harness.code import ROOT
from experiments.harness.journal import Done, Message
from experiments.harness.study import Factors, Session, Study
from experiments.harness.text import last_line
from experiments.harness.worker import Role, Task
from report.errors import MeasurementError
from report.records.record import Policy
from report.system.processes import started

#: How often lines are read (s): so much of the work is lost with a run that is killed.
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
                interrupt: BaseException | None = None
                try:
                    self.process.wait(TICK_S)
                    running = False
                except TimeoutExpired:
                    pass
                except KeyboardInterrupt as raised:
                    interrupt = raised  # what is done is still told
                *whole, incomplete = (incomplete + stream.read()).split(b"\n")
                yield from map(_decoder.decode, whole)
                if interrupt is not None:
                    raise interrupt

    def said(self) -> str:
        """What it and what it runs under have printed."""
        return (self.folder / "said.txt").read_text(errors="replace")


@contextmanager
def working(
    task: Task,
    variables: Mapping[str, str] | None = None,
    under: Callable[[Path], Sequence[str]] = lambda folder: (),
) -> Iterator[Running]:
    """A worker on ``task``, ended with its children on leaving, who would else go on for nobody.

    ``variables`` are added to its environment; ``under`` gives the command that runs it.
    """
    with tempfile.TemporaryDirectory(prefix="ridgepoint-worker-") as name:
        folder = Path(name)
        tasks, lines = folder / "task.json", folder / "lines.jsonl"
        # The worker stands elsewhere, so that a relative path would lead it astray.
        tasks.write_bytes(msgspec.json.encode(task, enc_hook=lambda path: str(path.resolve())))
        lines.touch()
        words = (sys.executable, "-m", worker.__name__, str(tasks), str(lines))
        with (
            (folder / "said.txt").open("wb") as said,
            started(
                (*under(folder), *words),
                cwd=ROOT,
                env={**os.environ, **(variables or {})},
                stdin=DEVNULL,
                stdout=said,
                stderr=said,
            ) as process,
        ):
            yield Running(process, folder)


def measured(
    study: Study,
    role: Role,
    session: Session,
    policy: Policy,
    cases: Mapping[int, Factors],
    debug: Callable[[str], None],
) -> Iterator[Message]:
    """What workers say of ``cases``, each of which has a ``Done`` at last.

    Cases that need the same share a worker; where one ends it, another measures those that are
    left.  ``debug`` is given what they print.  Raises ``MeasurementError`` if a worker cannot be
    started at all.
    """
    left = dict(cases)
    while left:
        needs = study.process(next(iter(left.values())), session)
        together = [(n, f) for n, f in left.items() if study.process(f, session) == needs]
        task = Task(
            role=role,
            session=session,
            module=registry.STUDIES[study.name],
            policy=policy,
            forks=worker.can_fork(session.device),
            cases=tuple(together),
        )
        done, began = 0, False
        with working(task, {**needs.variables, **policies.variables(policy)}) as running:
            for message in running.messages():
                began = True
                if isinstance(message, Done):
                    del left[message.case]
                    done += 1
                yield message
            code, said = running.process.returncode, running.said()
        debug(said)
        if done < len(together):
            if not began:
                raise MeasurementError(
                    f"The process that measures could not start: {last_line(said)}."
                )
            case = together[done][0]
            del left[case]
            reason = worker.ended(code) or "Its process ended early."
            yield Done(case=case, status="failed", reason=reason)
