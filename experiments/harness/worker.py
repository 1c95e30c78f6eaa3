"""One process of the rounds: many cases, one after the other, each in a child of its own.

A child begins from the same state, that of a process which has imported what the study uses and
done nothing else: what one case leaves in the allocator, or in a library's caches, reaches no
other.  It is made by ``fork``, which takes milliseconds where a new process takes seconds to import
torch.  Where the device is a GPU, which no fork survives, or where there is no Linux, the cases
follow each other in the worker itself.
"""

from __future__ import annotations

import gc
import importlib
import os
import select
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from experiments.harness import isolated, quiet, runtime, sensors
from experiments.harness.journal import Ended
from experiments.harness.measure import release
from experiments.harness.outcomes import outcome_of
from experiments.harness.study import Device, Factors, Session, Study
from report.records.record import Policy, Round, Series, Status

#: Far longer than any case takes in one process (s).
LIMIT_S: Final = 1200.0


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What one process measures: cases by their number in the run, in this order.

    ``module`` is where the study stands; ``apart`` says that each case has a child of its own.
    """

    module: str
    session: Session
    policy: Policy
    apart: bool
    cases: tuple[tuple[int, Factors], ...]


def can_fork(device: Device) -> bool:
    """Whether cases can have a child each."""
    return device == "cpu" and sys.platform.startswith("linux") and hasattr(os, "fork")


def work(task: Task, out: Path) -> None:
    """Measure the cases of ``task``; append an ``Ended`` a case to ``out``, a line of JSON each."""
    study: Study = importlib.import_module(task.module).STUDY.on(task.session.device)
    if not study.uses_torch:
        runtime.fix_threads(task.session.threads)
    elif task.apart:
        runtime.prepare_torch(task.session.threads)
    else:
        runtime.start_torch(task.session.device, task.session.threads)
    for module in study.imports:
        importlib.import_module(module)
    study.begin(task.cases[0][1], task.session)
    if task.apart:
        # Else each child looks through, and thereby copies, all that torch has imported.
        gc.collect()
        gc.freeze()
    measure = _in_child if task.apart else _measured
    with out.open("ab", buffering=0) as stream:
        for index, factors in task.cases:
            start = time.monotonic()
            found = measure(study, factors, task)
            ended = Ended(case=index, round=found, seconds=time.monotonic() - start)
            stream.write(msgspec.json.encode(ended) + b"\n")


def _measured(study: Study, factors: Factors, task: Task) -> Round:
    """What this process finds of a case, whatever its outcome, and what disturbed it meanwhile.

    Temperature, clock and power stand beside it where the machine shows them.
    """
    assert study.timed is not None
    log = sensors.Log(sensors.available(task.session.device))
    log.read()
    before = quiet.read()
    try:
        series = study.timed(factors, task.session)
    except Exception as error:
        traceback.print_exc()
        outcome = outcome_of(error)
    else:
        disturbance = quiet.disturbance(before, quiet.read(), task.session.threads)
        log.read()
        own = {each.quantity for each in series}
        seen = (each for each in log.series() if each.quantity not in own)
        return _round(task, "ok", None, disturbance, (*series, *seen))
    release(task.session.device)  # only now, since the exception's frames held its tensors
    return _round(task, *outcome)


def _round(
    task: Task,
    status: Status,
    reason: str | None,
    disturbance: str | None = None,
    series: tuple[Series, ...] = (),
) -> Round:
    return Round(
        process=task.session.process,
        policy=task.policy,
        status=status,
        reason=reason,
        disturbance=disturbance,
        series=series,
    )


def _in_child(study: Study, factors: Factors, task: Task) -> Round:
    """The same in a child of this process."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(reading)
        _be_child(study, factors, task, writing)
    os.close(writing)
    content = _read_until(reading, time.monotonic() + LIMIT_S)
    os.close(reading)
    if content is None:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if content is None:
        return _round(task, "failed", f"The process did not end within {LIMIT_S:g} s.")
    if not content:
        return _round(task, "failed", isolated.ended(os.waitstatus_to_exitcode(status), ""))
    return msgspec.msgpack.decode(content, type=Round)


def _be_child(study: Study, factors: Factors, task: Task, writing: int) -> NoReturn:
    """Measure, tell the parent, and end without the parent's clean-up."""
    code = 1
    try:
        content = msgspec.msgpack.encode(_measured(study, factors, task))
        while content:
            content = content[os.write(writing, content) :]
        code = 0
    finally:
        sys.stderr.flush()
        os._exit(code)


def _read_until(descriptor: int, deadline: float) -> bytes | None:
    """All that a pipe gives until its other end is closed; None if that takes too long."""
    parts: list[bytes] = []
    while (left := deadline - time.monotonic()) > 0:
        found, _, _ = select.select([descriptor], [], [], left)
        if not found:
            return None
        part = os.read(descriptor, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None
