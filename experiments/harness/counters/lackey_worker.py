"""The program that runs under lackey: torch is imported once, and every case is a fork.

Importing torch takes a minute under valgrind, hence one process for all cases.  Each case has a
process that builds its workload and forks three more, so that their counts differ by exactly one
thing: ``base`` ends at once, ``first`` calls once, and ``second``, forked by ``first`` after its
call, calls again.  Every process leaves by ``os._exit``, since what Python does at its end differs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import NoReturn

import msgspec

from experiments.harness import runtime
from experiments.harness.counters.plan import (
    Done,
    Ended,
    Failed,
    Job,
    Message,
    Plan,
    Ready,
    counting_of,
)
from experiments.harness.outcomes import outcome_of
from experiments.harness.study import Counting
from experiments.harness.workload import Workload


def main(plan: Plan) -> NoReturn:
    """Run all jobs of ``plan``, then leave at once: Python's own end takes long under valgrind."""
    runtime.start_torch("cpu", threads=1)
    counting = counting_of(plan)
    warm = counting.workload(plan.warm_up, "cpu")
    warm.call()
    _say(Ready())
    running: dict[int, Job] = {}
    for job in plan.jobs:
        if len(running) == plan.at_once:
            _reap(running)
        running[_forked(job, partial(_case, counting, job))] = job
    while running:
        _reap(running)
    os._exit(0)


def _reap(running: dict[int, Job]) -> None:
    """Wait until one of the cases has ended, and tell of it."""
    pid, status = os.wait()
    how = _how(status)
    _say(Done(case=running.pop(pid).case, error=how and f"its process {how}"))


def _how(status: int) -> str | None:
    """How a process ended, from what the system says; None if well."""
    code = os.waitstatus_to_exitcode(status)
    if code == 0:
        return None
    return f"ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"


def _case(counting: Counting, job: Job) -> None:
    """One case, in a process of its own."""
    workload = counting.workload(job.factors, "cpu")
    workload.reset()
    _run(job, "base", lambda: None)
    _run(job, "first", partial(_calls, workload, job))


def _calls(workload: Workload, job: Job) -> None:
    result = workload.call()
    del result
    if job.calls > 1:
        workload.reset()
        _run(job, "second", workload.call)


def _run(job: Job, role: str, action: Callable[[], object]) -> None:
    """Run ``action`` in a new process and wait for it, since its log is whole only then."""
    pid = _forked(job, action)
    how = _how(os.waitpid(pid, 0)[1])
    if how is not None:
        _say(Failed(case=job.case, error=f"the process of the {role} call {how}"))
        os._exit(1)
    _say(Ended(case=job.case, role=role, pid=pid))


def _forked(job: Job, action: Callable[[], object]) -> int:
    pid = os.fork()
    if pid == 0:
        _act(job, action)
    return pid


def _act(job: Job, action: Callable[[], object]) -> NoReturn:
    code = 1
    try:
        action()
        code = 0
    except Exception as raised:
        _say(Failed(case=job.case, error=outcome_of(raised)[1]))
    finally:
        os._exit(code)


def _say(message: Message) -> None:
    """One line in one write, so that lines of different processes do not mix."""
    os.write(1, msgspec.json.encode(message) + b"\n")
