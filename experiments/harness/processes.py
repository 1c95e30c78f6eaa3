"""Start the worker processes that measure, and read their messages."""

import os
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import inf
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired
from typing import Any, Final, TypeAlias

import msgspec

from experiments import registry
from experiments.harness import policies, worker
from experiments.harness.journal import Ceilings, Message, Result
from experiments.harness.study import Experiment, Session
from experiments.harness.worker import Task, WorkerRole
from experiments.machine.code import ROOT
from experiments.machine.text import last_line
from report.core.errors import MeasurementError
from report.core.records.record import Factors, Moment, Policy
from report.core.system.programs import managed_process

#: Function that returns, for the worker's folder, the command of a program such as ncu that runs
#: the worker.
Wrapper: TypeAlias = Callable[[Path], Sequence[str]]

#: Variables with the number of threads, which array libraries read when imported.
_THREAD_VARIABLES: Final = (
    "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
)  # fmt: skip
#: Time between two reads of messages (s); an interruption loses the unread messages.
READ_INTERVAL_S: Final = 0.1

_decoder: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


@dataclass(frozen=True)
class Worker:
    """Worker process, and the folder to which the worker and its wrapper write."""

    process: Popen[Any]
    folder: Path

    def messages(self, end: float = inf) -> Iterator[Message]:
        """Yield the worker's messages until it ends, or until ``end`` by the monotonic clock."""
        incomplete, running = b"", True
        with (self.folder / "lines.jsonl").open("rb") as stream:
            while running and time.monotonic() < end:
                with suppress(TimeoutExpired):
                    self.process.wait(READ_INTERVAL_S)
                    running = False
                *lines, incomplete = (incomplete + stream.read()).split(b"\n")
                for line in lines:
                    yield _decoder.decode(line)

    def output(self) -> str:
        """Read what the worker and its wrapper have printed."""
        return (self.folder / "output.txt").read_text(errors="replace")


@contextmanager
def start_worker(
    task: Task, variables: Mapping[str, str] = {}, wrapper: Wrapper | None = None
) -> Iterator[Worker]:
    """Start a worker with environment ``variables``; on exit, terminate it and its children."""
    with tempfile.TemporaryDirectory(prefix="ridgepoint-worker-") as name:
        folder = Path(name)
        task_file, results = folder / "task.json", folder / "lines.jsonl"
        task_file.write_bytes(msgspec.json.encode(task))
        results.touch()
        command = [sys.executable, "-m", worker.__name__, str(task_file), str(results)]
        if wrapper is not None:
            command = [*wrapper(folder), *command]
        threads = {variable: str(task.session.threads) for variable in _THREAD_VARIABLES}
        environment = {**os.environ, **threads, **variables}
        with (
            (folder / "output.txt").open("wb") as output,
            managed_process(
                command, cwd=ROOT, env=environment, stdin=DEVNULL, stdout=output, stderr=output
            ) as process,
        ):
            yield Worker(process, folder)


def new_task(
    study: Experiment,
    role: WorkerRole,
    session: Session,
    cases: Mapping[int, Factors],
    policy: Policy = "default",
) -> Task:
    """Describe a worker's task: measure ``cases``, each in a forked child where possible."""
    return Task(
        role=role,
        session=session,
        module=registry.module_of(study.name),
        policy=policy,
        forks=worker.can_fork(session.device),
        cases=tuple(cases.items()),
    )


def run_cases(
    study: Experiment,
    task: Task,
    show_output: Callable[[str], None] | None = None,
    wrapper: Wrapper | None = None,
    end: float = inf,
) -> Generator[Any, None, None]:
    """Run cases in workers; yield each case's result, until ``end`` by the monotonic clock.

    Cases with the same imports share a worker.  If a case ends its worker, a new worker measures
    the remaining cases.  Where a worker cannot fork, a case without imports gets a separate worker,
    in which no earlier case has imported a library.  ``show_output`` is called with each worker's
    output.  Raises ``MeasurementError`` if a worker cannot be started.
    """
    waiting = dict(task.cases)
    while waiting:
        batch = _next_batch(study, task, waiting)
        last_message_at = None
        with start_worker(batch, policies.variables(task.policy), wrapper) as started:
            for message in started.messages(end):
                last_message_at = time.monotonic()
                if isinstance(message, Result):
                    del waiting[message.case]
                    yield message
            code, output = started.process.returncode, started.output()
        if show_output is not None:
            show_output(output)
        if time.monotonic() >= end:
            return
        if last_message_at is None:
            raise MeasurementError(f"The worker process could not start: {last_line(output)}.")
        for case, factors in batch.cases:
            if case in waiting:  # the first case without a result ended the worker
                del waiting[case]
                reason = worker.exit_reason(code) or "Its process ended early."
                seconds = time.monotonic() - last_message_at
                yield worker.unmeasured(study, batch, (case, factors), "failed", reason, seconds)
                break


def _next_batch(study: Experiment, task: Task, waiting: Mapping[int, Factors]) -> Task:
    """Reduce a task to the first waiting case, and the cases that share a worker with it."""
    imports = study.imports(next(iter(waiting.values())), task.session)
    batch = []
    for case, factors in waiting.items():
        if study.imports(factors, task.session) == imports:
            batch.append((case, factors))
        if not (imports or task.forks):  # there is nothing to share in one worker
            break
    return msgspec.structs.replace(task, cases=tuple(batch))


def measure_ceilings(
    study: Experiment, session: Session, moment: Moment, note: Callable[[str], None]
) -> Ceilings:
    """Measure the ceilings (peak rates) in a new process, with freed memory kept if possible."""
    size = study.plan.ceilings
    if size == "none":
        return Ceilings(reason="the study asks for no ceilings")
    occasion = " again, since a case was faster" if moment == "during" else f" {moment} the cases"
    note(f"Measuring the ceilings{occasion}.")
    retained = policies.unavailable("retained", session.device) is None
    variables = policies.variables("retained") if retained else {}
    task = Task(role="ceilings", session=session, ceilings=(size, moment))
    with start_worker(task, variables) as started:
        for message in started.messages():
            if isinstance(message, Ceilings):
                return message
        reason = f"The ceilings could not be measured: {last_line(started.output())}"
    note(reason)
    return Ceilings(reason=reason)
