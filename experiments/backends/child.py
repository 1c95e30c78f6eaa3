"""Measures one case, in a process that imports one array library and nothing that it need not.

No library's threads or allocator disturb another's; a fresh process also makes the first call of
every case a cold one, and repetitions in several processes show what one draws by chance and keeps.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from experiments.harness import memory
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import CaseFile, Factors, Process, Results, Session
from report.records.record import Protocol, Series

if TYPE_CHECKING:
    from experiments.backends.libraries import Library
    from experiments.backends.subject import Images, Subject


@dataclass(frozen=True)
class Task:
    """A case, and the images that it takes.

    ``iterations`` is the length of a training, 0 for a case that learns nothing; with ``test`` its
    course is told too.  ``describe`` asks for what its library is.
    """

    factors: Factors
    threads: int
    protocol: Protocol
    iterations: int
    train: Images
    test: Images | None = None
    describe: bool = False


#: What the libraries are imported by; importing starts no thread of theirs.
_IMPORTED: Final = {
    "numpy": ("array_api_compat.numpy",),
    "torch": ("array_api_compat.torch",),
    "jax": ("jax", "jax.numpy"),
    "torch_cuda": (),
    "cupy": (),
}
_COMPILER: Final = ("torch._dynamo", "torch._inductor")


def process(factors: Factors, session: Session) -> Process:
    """The library of a case, told what to compute; a process that times has imported it already."""
    backend = str(factors["backend"])
    imports = _IMPORTED[backend] + _COMPILER * (factors["execution"] == "inductor")
    return Process(imports if session.process else (), variables(factors, session.threads))


def variables(factors: Factors, threads: int) -> dict[str, str]:
    """What stands in the environment when a library is imported.

    Every library reads its number of threads then.  JAX computes in float32 whatever is asked for
    unless it is told otherwise, and takes a GPU where it finds one.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return {
        **dict.fromkeys(names, str(threads)),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1" if factors["dtype"] == "float64" else "0",
    }


def measured(task: Task) -> Results:
    """The bytes of a case, and the course of its training, in this process."""
    from experiments.backends import times
    from experiments.backends.memory import measured

    library, footprint = _started(task)
    case = _subject(task, library)
    if task.test is not None:
        yield from times.course(case, case.placed(), task.test, task.iterations)
    yield from (*measured(case), *footprint)
    if task.describe:
        yield _description(library, task.threads)


def _description(library: Library, threads: int) -> CaseFile:
    """What the library of a case says of itself."""
    from experiments.backends import libraries

    content = msgspec.json.encode(libraries.described(library, threads), order="sorted")
    return CaseFile(
        name=f"backend.{library.name}.json",
        meaning=f"version, libraries below and device of {library.name}",
        content=msgspec.json.format(content, indent=1) + b"\n",
    )


def timed(task: Task) -> tuple[Series, ...]:
    """The times of a case, in this process, which has not used its library yet."""
    library, _ = _started(task)
    return _times(task, library)


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


def _subject(task: Task, library: Library) -> Subject:
    from experiments.backends.subject import subject

    if task.factors["execution"] != "eager" and library.compiled is None:
        raise UnavailableError(f"{library.name} is measured eagerly only.")
    return subject(library, task.factors, task.train)


def _times(task: Task, library: Library) -> tuple[Series, ...]:
    from experiments.backends import times
    from experiments.backends.libraries import ON_GPU

    case = _subject(task, library)
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
        if task.factors["network"] == "perceptron":
            found += times.alone(case, part, task.protocol)
    if library.name in ON_GPU and task.iterations:
        found += times.transfers(case, part, task.protocol)
    return found
