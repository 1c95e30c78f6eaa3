"""Measures one case, in a process that imports one array library and nothing that it need not.

No library's threads or allocator disturb another's; a fresh process also makes the first call of
every case a cold one, and repetitions in several processes show what one draws by chance and keeps.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from experiments.harness import isolated, memory
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import Factors
from report.records.record import Protocol, Series

if TYPE_CHECKING:
    from experiments.backends.libraries import Library
    from experiments.backends.subject import Images, Subject


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
    """A case, and the images that it takes; without ``train`` its library can only be described.

    ``iterations`` is the length of a training, 0 for a case that learns nothing; with ``test`` its
    course is told too.
    """

    factors: Factors
    threads: int
    protocol: Protocol
    iterations: int = 0
    train: Pictures | None = None
    test: Pictures | None = None


Found = TypeVar("Found")

#: What the libraries are imported by; importing starts no thread of theirs.
_IMPORTED: Final = {
    "numpy": ("array_api_compat.numpy",),
    "torch": ("array_api_compat.torch",),
    "jax": ("jax", "jax.numpy"),
    "torch_cuda": (),
    "cupy": (),
}
_COMPILER: Final = ("torch._dynamo", "torch._inductor")


def isolated_call(function: Callable[[Task], Found], task: Task) -> Found:
    """What ``function`` finds in a process of its own; raises ``OutcomeError``."""
    return isolated.run(partial(function, task), variables(task))


def variables(task: Task) -> dict[str, str]:
    """What stands in the environment when a library is imported.

    Every library reads its number of threads then.  JAX computes in float32 whatever is asked for
    unless it is told otherwise, and takes a GPU where it finds one.
    """
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
    return {
        **dict.fromkeys(names, str(task.threads)),
        "JAX_PLATFORMS": "cpu",
        "JAX_ENABLE_X64": "1" if task.factors["dtype"] == "float64" else "0",
    }


def described(task: Task) -> dict[str, Any]:
    """What the library of a case says of itself, in this process."""
    from experiments.backends import libraries

    library = libraries.load(str(task.factors["backend"]), task.threads)
    return libraries.described(library, task.threads)


def measured(task: Task) -> tuple[Series, ...]:
    """The bytes of a case, and the course of its training, in this process."""
    from experiments.backends import times
    from experiments.backends.memory import measured, resident

    library, footprint = _started(task)
    case = _subject(task, library)
    found: tuple[Series, ...] = ()
    if task.test is not None:
        found = times.course(case, case.placed(), task.test.arrays(), task.iterations)
    return (*found, *resident(case), *measured(case), *footprint)


def begin(task: Task) -> None:
    """Import what a library needs in this process, and neither use it nor start its threads.

    One that is not there is left to ``timed``, which says so.
    """
    os.environ.update(variables(task))
    compiles = task.factors["execution"] == "inductor"
    for name in _IMPORTED[str(task.factors["backend"])] + _COMPILER * compiles:
        with suppress(ImportError):
            importlib.import_module(name)


def timed(task: Task) -> tuple[Series, ...]:
    """The times of a case, in this process, which has not used its library yet."""
    os.environ.update(variables(task))
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

    assert task.train is not None
    if task.factors["execution"] != "eager" and library.compiled is None:
        raise UnavailableError(f"{library.name} is measured eagerly only.")
    return subject(library, task.factors, task.train.arrays())


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
