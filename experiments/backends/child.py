"""Measures one case, in a process that imports one array library and nothing that it need not.

``python -m experiments.backends.child`` reads a task from standard input and writes its result to
standard output, both MessagePack; ``apart`` is the other side.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from experiments.harness import memory
from experiments.harness.outcomes import UnavailableError, outcome_of
from experiments.harness.study import Factors
from report.records.record import Protocol, Series, Status

if TYPE_CHECKING:
    from experiments.backends.libraries import Library
    from experiments.backends.subject import Images


class Pictures(msgspec.Struct, frozen=True):
    """Images in bytes: pixels row by row, 784 an image, and a label each."""

    pixels: bytes
    labels: bytes

    def arrays(self) -> Images:
        """The same as arrays of NumPy, ``(N, 784)`` and ``(N,)``."""
        import numpy as np

        labels = np.frombuffer(self.labels, np.uint8)
        return np.frombuffer(self.pixels, np.uint8).reshape(len(labels), -1), labels


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What to do; without ``train`` the library is only described.

    ``iterations`` is the length of a training, 0 for a case that learns nothing.
    """

    factors: Factors
    threads: int
    protocol: Protocol
    iterations: int = 0
    train: Pictures | None = None
    test: Pictures | None = None


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """How it went."""

    status: Status
    reason: str | None = None
    series: tuple[Series, ...] = ()
    described: dict[str, Any] | None = None


def main(task: Task) -> Result:
    """Do what ``task`` says, in this process; an exception becomes an outcome."""
    try:
        return _described(task) if task.train is None else _measured(task)
    except Exception as error:
        status, reason = outcome_of(error)
        return Result(status=status, reason=reason)


def _described(task: Task) -> Result:
    from experiments.backends import libraries

    library = libraries.load(str(task.factors["backend"]), task.threads)
    return Result(status="ok", described=libraries.described(library, task.threads))


def _measured(task: Task) -> Result:
    library, footprint = _started(task)
    return Result(status="ok", series=(*_series(task, library), *footprint))


def _started(task: Task) -> tuple[Library, tuple[Series, ...]]:
    """The library, and what the process holds before its import, after it, and after a first use.

    Nothing of it, nor NumPy, may have been imported before.
    """
    limit_cores(task.threads)
    before = memory.resident_now()
    from experiments.backends import libraries

    library = libraries.load(str(task.factors["backend"]), task.threads)
    imported = memory.resident_now()
    _first_use(library, str(task.factors["dtype"]))
    levels = {
        "resident_start": before,
        "resident_import": imported,
        "resident_first_use": memory.resident_now(),
    }
    return library, tuple(
        Series(quantity=name, unit="B", samples=(level,))
        for name, level in levels.items()
        if level is not None
    )


def _first_use(library: Library, dtype: str) -> None:
    """A product of small matrices, which starts threads and loads kernels."""
    import numpy as np

    values = library.place(np.ones((64, 64)), dtype)
    library.wait(library.xp.matmul(values, values))


def limit_cores(threads: int) -> None:
    """Give this process as many cores as threads: XLA asks for cores and for nothing else."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])


def _series(task: Task, library: Library) -> tuple[Series, ...]:
    from experiments.backends import times
    from experiments.backends.libraries import ON_GPU
    from experiments.backends.memory import measured, resident
    from experiments.backends.subject import subject

    assert task.train is not None
    if task.factors["execution"] == "compiled" and library.compiled is None:
        raise UnavailableError(f"{library.name} is measured eagerly only.")
    case = subject(library, task.factors, task.train.arrays())
    part, parameters = case.placed(), case.parameters()
    step = case.step(part)
    found = (
        times.trained(step, parameters, task.iterations)
        if task.iterations
        else times.repeatedly(step, parameters, task.protocol)
    )
    if case.execution == "eager":
        found += times.phases(case, part, task.protocol)
        found += times.operations(case, part, task.protocol)
    if library.name in ON_GPU and task.iterations:
        found += times.transfers(case, part, task.protocol)
    if task.test is not None:
        found += times.course(case, part, task.test.arrays(), task.iterations)
    del part, parameters, step
    if task.factors["process"] == 1:
        found += (*resident(case), *measured(case))
    return found


if __name__ == "__main__":
    # What a library prints must not come between.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    result = main(msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Task))
    out.write(msgspec.msgpack.encode(result))
    out.close()
