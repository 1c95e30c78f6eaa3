"""One case in the process that measures it, which imports one array library and nothing else.

No library's threads or allocator disturb another's; a fresh process also makes the first call of
every case a cold one, and repetitions in several processes show what one draws by chance and keeps.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from experiments.backends import libraries, perceptron
from experiments.backends.libraries import Array, Library
from experiments.backends.perceptron import (
    CLASSES,
    Operations,
    Parameters,
    accuracy,
    backward,
    forward,
    iteration,
    loss,
    timed,
    update,
)
from experiments.harness.study import SEED, CaseFile, Factors
from experiments.harness.text import text_of
from experiments.harness.timing import Workload, collector_off, cpu_clock, repeated, series_of
from report.records.quantities import QUANTITIES
from report.records.record import Measured, Protocol

#: Pixels as NumPy's uint8 ``(N, 784)`` and labels ``(N,)``.
Images: TypeAlias = tuple[Any, Any]

#: Calls in a sample of what one costs.
_CALLS: Final = 100


class Part(NamedTuple):
    """Images ``(784, m)`` in [0, 1] and one-hot targets ``(10, m)``."""

    images: Array
    targets: Array


@dataclass(frozen=True)
class Case:
    """The arrays, the network and its iteration; ``train`` are the images to train on."""

    library: Library
    factors: Factors
    train: Images

    @property
    def ops(self) -> Operations:
        """The operations of its library."""
        return Operations(self.library.xp)

    def placed(self, images: Images | None = None) -> Part:
        """Copies of images and their targets on the device, by default of those to train on."""
        dtype = str(self.factors["dtype"])
        if images is None:
            images = repeated_images(self.train, int(self.factors["samples"]))
        return Part(*(self.library.place(values, dtype) for values in prepared(images, dtype)))

    def parameters(self) -> Parameters:
        """The initial parameters on the device, the same values in every library."""
        values = perceptron.initial(int(self.factors["hidden"]), SEED)
        place, dtype = self.library.place, str(self.factors["dtype"])
        return Parameters(*(place(value, dtype) for value in values))

    def step(self, part: Part) -> Callable[[Parameters], Parameters]:
        """One iteration on ``part`` that has ended when it returns."""
        ops, wait = self.ops, self.library.wait
        return lambda parameters: wait(iteration(ops, parameters, *part))


def repeated_images(images: Images, samples: int) -> Images:
    """The first ``samples`` images; where there are fewer, they begin again from the first."""
    import numpy as np

    pixels, labels = images
    chosen = np.arange(samples) % len(labels)
    return pixels[chosen], labels[chosen]


def prepared(images: Images, dtype: str) -> Part:
    """Pixels from 0 to 1 with a column an image, and one-hot targets, as arrays of NumPy."""
    import numpy as np

    pixels, labels = images
    kind = np.dtype(dtype)
    columns = np.ascontiguousarray(pixels.T, dtype=kind) / kind.type(255)
    return Part(columns, np.eye(CLASSES, dtype=kind)[:, labels])


# -------------------------------------------------------------------------------------- the library


def started(factors: Factors, threads: int) -> tuple[Library, Measured]:
    """The library, and what the process holds before it, after it, and after a first use (B).

    Nothing of the library, nor NumPy, may have been imported before; images come after this.
    """
    held = {"resident_start": _resident()}
    library = libraries.load(str(factors["backend"]), threads)
    held["resident_import"] = _resident()
    import numpy as np

    # A product of small matrices starts threads and loads kernels.
    values = library.place(np.ones((64, 64)), str(factors["dtype"]))
    library.wait(library.xp.matmul(values, values))
    held["resident_first_use"] = _resident()
    return library, {name: (level,) for name, level in held.items() if level is not None}


def _resident() -> int | None:
    """Resident memory of this process (B), mapped files included; None where it cannot be read."""
    found = re.search(r"^VmRSS:\s+(\d+) kB$", text_of(Path("/proc/self/status")), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def description(backend: str, threads: int) -> CaseFile:
    """Which version of a library computes, and on what, in its own words."""
    library = libraries.load(backend, threads)
    told = {"name": library.name, "version": library.version, "device": library.device_name}
    return CaseFile(
        name=f"backend.{library.name}.json",
        meaning=f"version and device of {library.name}",
        content=msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n",
    )


# ---------------------------------------------------------------------------- its times and course


def times(case: Case, protocol: Protocol, *, apart: bool) -> Measured:
    """The first iteration repeated, a call and a product alone; ``apart`` its parts too.

    The first call of a process stands apart: it loads kernels and starts threads.
    """
    part, parameters = case.placed(), case.parameters()
    step = case.step(part)
    workload = Workload(lambda: step(parameters))
    first = cpu_clock(workload)
    for _ in range(protocol.warmup_calls):
        cpu_clock(workload)
    with collector_off():
        durations = repeated(workload, protocol, cpu_clock)
    found = {"first_call_time": (first.wall,)} | series_of(durations)
    found |= _alone(case, part, protocol)
    if apart:
        found |= _passes(case, part, protocol) | _operations(case, part, protocol)
    return found


def _passes(case: Case, part: Part, protocol: Protocol) -> Measured:
    """``forward_time`` and ``backward_time``, each pass finished before the next begins."""
    parameters, ops = case.parameters(), case.ops
    found: dict[str, list[float]] = defaultdict(list)

    def once() -> None:
        wait, now = case.library.wait, time.perf_counter
        start = now()
        activations = wait(forward(ops, parameters, part.images))
        middle = now()
        gradients = wait(backward(ops, parameters, activations, *part))
        end = now()
        wait(update(ops, parameters, gradients))
        found["forward_time"].append(middle - start)
        found["backward_time"].append(end - middle)

    _again(once, protocol)
    return {name: tuple(samples[1:]) for name, samples in found.items()}


def _operations(case: Case, part: Part, protocol: Protocol) -> Measured:
    """The time of each kind of operation in one iteration, each finished before the next begins.

    A sample is the sum over the operations of that kind in one iteration.
    """
    parameters = case.parameters()
    sums: dict[str, float] = defaultdict(float)
    found: dict[str, list[float]] = defaultdict(list)

    def tell(quantity: str, duration: float) -> None:
        sums[quantity] += duration

    watched = timed(case.library.xp, case.library.wait, time.perf_counter, tell)

    def once() -> None:
        sums.clear()
        iteration(watched, parameters, *part)
        for quantity, total in sums.items():
            found[quantity].append(total)

    _again(once, protocol)
    # By the order of the table, not by that of the calls; the first is a warm-up.
    return {name: tuple(found[name][1:]) for name in QUANTITIES if name in found}


def _alone(case: Case, part: Part, protocol: Protocol) -> Measured:
    """What a call on one element costs, and the first layer's product by itself.

    A sample of ``call_time`` is the mean over so many calls that the clock matters little.
    """
    wait, ops, weights = case.library.wait, case.ops, case.parameters().w1
    one = weights[:1, :1]

    def calls() -> None:
        for _ in range(_CALLS):
            wait(ops.add_bias(one, one))

    return {
        "call_time": tuple(wall / _CALLS for wall in _again(calls, protocol)),
        "product_alone_time": tuple(
            _again(lambda: wait(ops.product(weights, part.images)), protocol)
        ),
    }


def _again(once: Callable[[], object], protocol: Protocol) -> list[float]:
    """Once to warm up, then within the case's budget: each time (s)."""
    once()
    with collector_off():
        return [each.wall for each in repeated(Workload(once), protocol, cpu_clock)]


def course(case: Case, test: Images, count: int) -> Measured:
    """Loss (nats a sample) and accuracy of both parts before the first and after each iteration."""
    parts = {"train": case.placed(), "test": case.placed(test)}
    step, parameters, xp = case.step(parts["train"]), case.parameters(), case.library.xp
    found: dict[str, list[float]] = defaultdict(list)
    for index in range(count + 1):
        if index:
            parameters = step(parameters)
        for name, part in parts.items():
            sums = forward(case.ops, parameters, part.images).z2
            found[f"{name}_loss"].append(loss(xp, sums, part.targets))
            found[f"{name}_accuracy"].append(accuracy(xp, sums, part.targets))
    return {name: tuple(samples) for name, samples in found.items()}
