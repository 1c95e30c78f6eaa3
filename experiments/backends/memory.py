"""Bytes of one iteration by component, each library by the instrument that can see its arrays.

The iteration is taken apart into stages: input, parameters, an iteration to warm up, forward and
backward.  An instrument tells how many bytes live after each stage, from those that lived before
the first one.

- NumPy: tracemalloc, in which NumPy keeps a domain of its own.
- PyTorch: the allocator's events in its profiler on a CPU, its statistics on a GPU.
- JAX: its live arrays; of a compiled iteration its arguments.
- CuPy: what its memory pool has handed out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, TypeAlias

from experiments.backends.case import Case
from experiments.backends.perceptron import backward, forward, iteration
from experiments.harness.memory import native_messages_off
from report.errors import MeasurementError
from report.records.record import Series

#: Stages in order: what each makes stays alive, but for ``warm_up``.
Stages: TypeAlias = dict[str, Callable[[], None]]
_COMPONENTS: Final = {
    "input": "allocated_input",
    "parameters": "allocated_parameters",
    "warm_up": "allocated_workspace",
    "forward": "allocated_activations",
    "backward": "allocated_gradients",
}


def measured(case: Case) -> tuple[Series, ...]:
    """The components (B) of an iteration; of a compiled one those that are its arguments."""
    if not case.is_eager:
        if case.library.name != "jax":
            return ()
        found = {"input": _size(*case.placed()), "parameters": _size(*case.parameters())}
    else:
        run = stages(case)
        levels = _INSTRUMENTS[case.library.name](run)
        found = dict(zip(run, (b - a for a, b in pairwise((0, *levels))), strict=True))
    return tuple(
        Series(quantity=_COMPONENTS[name], unit="B", samples=(size,))
        for name, size in found.items()
    )


def stages(case: Case) -> Stages:
    """One iteration in stages that hold what they make until the dictionary is dropped."""
    held: dict[str, Any] = {}
    wait, ops = case.library.wait, case.ops

    def place() -> None:
        held["part"] = wait(case.placed())

    def parameters() -> None:
        held["parameters"] = wait(case.parameters())

    def ahead() -> None:
        held["activations"] = wait(forward(ops, held["parameters"], held["part"].images))

    def back() -> None:
        given = held["parameters"], held["activations"], *held["part"]
        held["gradients"] = wait(backward(ops, *given))

    def warm_up() -> None:
        wait(iteration(ops, held["parameters"], *held["part"]))

    return {
        "input": place,
        "parameters": parameters,
        "warm_up": warm_up,
        "forward": ahead,
        "backward": back,
    }


def _by_tracemalloc(stages: Stages) -> list[int]:
    """NumPy: the bytes of its own domain."""
    import tracemalloc

    import numpy as np

    domain = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)

    def level() -> int:
        return sum(t.size for t in tracemalloc.take_snapshot().filter_traces((domain,)).traces)

    tracemalloc.start()
    try:
        return _levels(stages, level)
    finally:
        tracemalloc.stop()


def _levels(stages: Stages, level: Callable[[], int]) -> list[int]:
    """What ``level`` says after each stage, from what it says before the first."""
    start, found = level(), []
    for run in stages.values():
        run()
        found.append(level() - start)
    return found


def _by_profiler(stages: Stages) -> list[int]:
    """PyTorch on a CPU: the allocator's events inside a mark for each stage."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with (
        native_messages_off(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run,
    ):
        for name, stage in stages.items():
            with record_function(f"ridgepoint.{name}"):
                stage()
    assert run.profiler is not None
    results = run.profiler.kineto_results
    return levels_of(results.events() if results is not None else (), tuple(stages))


def levels_of(events: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Levels from the profiler's raw events, of which ``[memory]`` carry bytes.

    Raises ``MeasurementError`` if marks or bytes are missing, as after a change inside torch.
    """
    starts = {event.name(): event.start_ns() for event in events}
    moved = [(event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"]
    begins = [starts.get(f"ridgepoint.{name}") for name in names]
    if not moved or None in begins:
        raise MeasurementError(
            "The profiler of this PyTorch shows no memory events, so memory cannot be measured; "
            "use a version that ridgepoint was tested with (2.13)."
        )
    edges = (*begins, float("inf"))
    return list(
        accumulate(sum(size for at, size in moved if a <= at < b) for a, b in pairwise(edges))
    )


def _by_statistics(stages: Stages) -> list[int]:
    """PyTorch on a GPU: the blocks of its allocator, which are larger than what was asked for."""
    import torch

    return _levels(stages, torch.cuda.memory_allocated)


def _by_live_arrays(stages: Stages) -> list[int]:
    """JAX: the arrays that live."""
    import jax

    def level() -> int:
        gc.collect()
        return _size(*jax.live_arrays())  # type: ignore[no-untyped-call]

    return _levels(stages, level)


def _by_pool(stages: Stages) -> list[int]:
    """CuPy: what its pool has handed out, rounded as the pool rounds."""
    import cupy  # type: ignore[import-not-found]

    return _levels(stages, cupy.get_default_memory_pool().used_bytes)


def _size(*arrays: Any) -> int:
    return sum(int(array.nbytes) for array in arrays)


_INSTRUMENTS: Final[dict[str, Callable[[Stages], list[int]]]] = {
    "numpy": _by_tracemalloc,
    "torch": _by_profiler,
    "torch_cuda": _by_statistics,
    "jax": _by_live_arrays,
    "cupy": _by_pool,
}
