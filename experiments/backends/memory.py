"""Bytes of one iteration by component, each library by the instrument that can see its arrays.

The iteration is taken apart into stages: input, parameters, an iteration to warm up, forward,
backward, update.  An instrument tells how many bytes live after each stage, from those that lived
before the first one, and at the peak from the forward pass on, where it can see that.

- NumPy: tracemalloc, in which NumPy keeps a domain of its own; the peak holds Python's objects too.
- PyTorch: the allocator's events in its profiler on a CPU, its statistics on a GPU.
- JAX: its live arrays, which tells nothing of a peak; for a compiled iteration XLA's own account.
- CuPy: the events of its memory pool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

from experiments.backends.learning import update
from experiments.backends.subject import Subject
from experiments.harness import memory
from report.errors import MeasurementError
from report.records.record import Series

#: Stages in order: what each makes stays alive, but for ``warm_up``.
Stages: TypeAlias = dict[str, Callable[[], None]]
CALL: Final = ("forward", "backward", "update")
_COMPONENTS: Final = {
    "input": "allocated_input",
    "parameters": "allocated_parameters",
    "warm_up": "allocated_workspace",
    "forward": "allocated_activations",
    "backward": "allocated_gradients",
}


@dataclass(frozen=True)
class Levels:
    """Bytes alive after each stage, at the peak of the call, and the allocator's events in it."""

    after: dict[str, int]
    peak: int | None
    events: tuple[int, ...] | None = None

    def made(self, stage: str) -> int:
        """How many bytes a stage has left."""
        names = list(self.after)
        before = names.index(stage) - 1
        return self.after[stage] - (self.after[names[before]] if before >= 0 else 0)


Instrument: TypeAlias = Callable[[Stages], Levels]


def measured(case: Subject) -> tuple[Series, ...]:
    """The components (B), what lives before and after an iteration, and the most during it.

    JAX alone tells them of a compiled program.
    """
    if case.execution != "eager":
        return _of_program(case) if case.library.name == "jax" else ()
    return series_of(_INSTRUMENTS[case.library.name](stages(case)))


def series_of(levels: Levels) -> tuple[Series, ...]:
    """The series of an instrument's levels."""
    found = {quantity: levels.made(stage) for stage, quantity in _COMPONENTS.items()}
    found["allocated_before"] = levels.after["warm_up"]
    found["allocated_after"] = levels.after["update"]
    if levels.peak is not None:
        found["allocated_peak"] = levels.peak
    events = () if levels.events is None else (_bytes("memory_events", levels.events),)
    return (*events, *(_bytes(name, (value,)) for name, value in found.items()))


def _bytes(quantity: str, samples: Sequence[int]) -> Series:
    return Series(quantity=quantity, unit="B", samples=tuple(samples))


def stages(case: Subject) -> Stages:
    """One iteration in stages that hold what they make until the dictionary is dropped."""
    held: dict[str, Any] = {}
    wait, network, ops = case.library.wait, case.network, case.ops

    def parameters() -> None:
        held["parameters"] = wait(case.parameters())

    def place() -> None:
        part = case.placed()
        held["images"], held["targets"] = wait((part.images, part.targets))

    def forward() -> None:
        held["activations"] = wait(network.forward(ops, held["parameters"], held["images"]))

    def backward() -> None:
        held["gradients"] = wait(
            network.backward(
                ops, held["parameters"], held["activations"], held["images"], held["targets"]
            )
        )

    def descend() -> None:
        held["updated"] = wait(update(ops, held["parameters"], held["gradients"], network.rate))

    def warm_up() -> None:
        for run in (forward, backward, descend):
            run()
        for name in ("activations", "gradients", "updated"):
            del held[name]

    return {
        "input": place,
        "parameters": parameters,
        "warm_up": warm_up,
        "forward": forward,
        "backward": backward,
        "update": descend,
    }


# ------------------------------------------------------------------------------ instruments


def _by_tracemalloc(stages: Stages) -> Levels:
    """NumPy: the bytes of its own domain after each stage; the peak of all that is traced."""
    import gc
    import tracemalloc

    import numpy as np

    domain = tracemalloc.DomainFilter(inclusive=True, domain=np.lib.tracemalloc_domain)
    after, peaks, level = {}, [], 0
    gc.collect()
    tracemalloc.start()
    try:
        for name, run in stages.items():
            # Python's own objects from before the stage are not the stage's.
            others = tracemalloc.get_traced_memory()[0] - level
            tracemalloc.reset_peak()
            run()
            if name in CALL:
                peaks.append(tracemalloc.get_traced_memory()[1] - others)
            snapshot = tracemalloc.take_snapshot().filter_traces((domain,))
            after[name] = level = sum(trace.size for trace in snapshot.traces)
            del snapshot
    finally:
        tracemalloc.stop()
    return Levels(after, max(peaks))


def _by_profiler(stages: Stages) -> Levels:
    """PyTorch on a CPU: the allocator's events inside a mark for each stage."""
    from torch.profiler import ProfilerActivity, profile, record_function

    with (
        memory.native_messages_off(),
        profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run,
    ):
        for name, stage in stages.items():
            with record_function(_mark(name)):
                stage()
    assert run.profiler is not None
    results = run.profiler.kineto_results
    return levels_of(results.events() if results is not None else (), tuple(stages))


def _mark(stage: str) -> str:
    return f"ridgepoint.{stage}"


def levels_of(events: Sequence[Any], names: Sequence[str]) -> Levels:
    """Levels from the profiler's raw events, of which ``[memory]`` carry bytes.

    Raises ``MeasurementError`` if marks or bytes are missing, as after a change inside torch.
    """
    starts = {event.name(): event.start_ns() for event in events}
    moved = sorted(
        ((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"),
        key=lambda pair: pair[0],
    )
    if not moved or any(_mark(name) not in starts for name in names):
        raise MeasurementError(
            "The profiler of this PyTorch shows no memory events, so memory cannot be measured; "
            "use a version that ridgepoint was tested with (2.13)."
        )
    begins = [starts[_mark(name)] for name in names]
    within = {
        name: tuple(size for moment, size in moved if begin <= moment < end)
        for name, begin, end in zip(names, begins, (*begins[1:], float("inf")), strict=True)
    }
    after = dict(zip(names, accumulate(sum(within[name]) for name in names), strict=True))
    return from_events(after, tuple(size for name in CALL for size in within[name]))


def from_events(after: dict[str, int], events: tuple[int, ...]) -> Levels:
    """Levels with the peak that the call's events reach."""
    return Levels(after, after["warm_up"] + memory.highest(events), events)


def _by_statistics(stages: Stages) -> Levels:
    """PyTorch on a GPU: the blocks of its allocator, which are larger than what was asked for."""
    import torch

    start, after = torch.cuda.memory_allocated(), {}
    for name, run in stages.items():
        if name == CALL[0]:
            torch.cuda.reset_peak_memory_stats()
        run()
        after[name] = torch.cuda.memory_allocated() - start
    return Levels(after, torch.cuda.max_memory_allocated() - start)


def _by_live_arrays(stages: Stages) -> Levels:
    """JAX: the arrays that live; none that an operation makes and frees meanwhile."""
    import gc

    import jax

    def level() -> int:
        gc.collect()
        return _size(*jax.live_arrays())  # type: ignore[no-untyped-call]

    start, after = level(), {}
    for name, run in stages.items():
        run()
        after[name] = level() - start
    return Levels(after, None)


def _by_pool(stages: Stages) -> Levels:
    """CuPy: what its pool hands out and takes back, rounded as the pool rounds."""
    after, call = {}, []
    with _pool_events() as events:
        for name, run in stages.items():
            begin = len(events)
            run()
            after[name] = sum(events)
            if name in CALL:
                call += events[begin:]
    return from_events(after, tuple(call))


@contextmanager
def _pool_events() -> Iterator[list[int]]:
    """Allocations (B) of CuPy's pool as they happen, frees negative."""
    import cupy  # type: ignore[import-not-found]

    events: list[int] = []

    class Hook(cupy.cuda.MemoryHook):  # type: ignore[misc]
        """Appends every block."""

        name = "ridgepoint"

        def malloc_postprocess(self, **block: Any) -> None:
            events.append(int(block["mem_size"]))

        def free_postprocess(self, **block: Any) -> None:
            events.append(-int(block["mem_size"]))

    with Hook():
        yield events


_INSTRUMENTS: Final[dict[str, Instrument]] = {
    "numpy": _by_tracemalloc,
    "torch": _by_profiler,
    "torch_cuda": _by_statistics,
    "jax": _by_live_arrays,
    "cupy": _by_pool,
}


def _of_program(case: Subject) -> tuple[Series, ...]:
    """A compiled iteration: XLA's account of the program's arguments, results and temporaries."""
    import jax

    from experiments.backends.learning import iteration

    part, parameters = case.placed(), case.parameters()

    def whole(*arguments: Any) -> Any:
        return iteration(case.network, case.ops, *arguments)

    lowered = jax.jit(whole).lower(parameters, part.images, part.targets)
    account: Any = lowered.compile().memory_analysis()
    given = int(account.argument_size_in_bytes)
    results = int(account.output_size_in_bytes) - int(account.alias_size_in_bytes)
    return (
        _bytes("allocated_input", (_size(part.images, part.targets),)),
        _bytes("allocated_parameters", (_size(*parameters),)),
        _bytes("allocated_before", (given,)),
        _bytes("allocated_after", (given + results,)),
        _bytes("allocated_peak", (given + results + int(account.temp_size_in_bytes),)),
    )


def _size(*arrays: Any) -> int:
    return sum(int(array.nbytes) for array in arrays)
