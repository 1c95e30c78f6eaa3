"""One network from scratch on several array libraries: how does a speed-up depend on the work?

A perceptron 784-h-10 (ReLU, softmax, cross-entropy) is written once against the array API standard
(``experiments.backends``).  Each case is measured by processes that import one library only.
Factors:

- ``subject``: ``scaling`` repeats the first iteration of full-batch gradient descent and times it;
  ``training`` goes through 500 of them, whose losses and accuracies are kept, one value before the
  first and one after each.
- ``backend``: the library; ``torch_cuda`` and ``cupy`` compute on a GPU, the others on the CPU.
- ``hidden``: neurons of the hidden layer, 10 in the source.
- ``samples``: images.  Where the data set has fewer, they begin again from the first.
- ``dtype``: of all arrays; ``float64`` for NumPy at the source's width only, whose default it is.
- ``dataset``: ``digits`` of scikit-learn, a fifth held out; ``mnist`` a folder of the user's own,
  1,000 images held out.
"""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from experiments.backends import libraries, perceptron
from experiments.backends.libraries import ON_CPU, ON_GPU, Array, Library
from experiments.backends.perceptron import (
    CLASSES,
    Operations,
    Parameters,
    backward,
    forward,
    iteration,
    update,
)
from experiments.harness.study import (
    FULL,
    QUICK,
    SEED,
    CaseFile,
    Factor,
    Factors,
    Levels,
    Session,
    Study,
)
from experiments.harness.timing import Workload, collector_off, cpu_clock, repeat_calls
from experiments.machine.text import read_text
from report.core.records.layers import DType, Layer
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Measured, Protocol, Sample

if TYPE_CHECKING:
    from experiments.datasets import Images, Split

#: The source's hidden layer, and its iterations.
HIDDEN: Final = 10
ITERATIONS: Final = 500
#: Images trained on: four fifths of the digits; 59,000 of MNIST, as in the source.
TRAINED_ON: Final = {"digits": 1_438, "mnist": 59_000}
#: Neurons times images up to which an iteration is measured: beyond, one takes seconds on a core.
LARGEST: Final = 2_048 * 16_000
#: Calls in a sample of what one costs.
_CALLS: Final = 100


# ------------------------------------------------------------------------------------------ plan


def cases(levels: Levels) -> tuple[Factors, ...]:
    """The libraries side by side at each size."""
    return tuple(
        {**size, "backend": backend}
        for size in _sizes(levels)
        for backend in levels["backend"]
        if size["dtype"] == "float32" or backend == "numpy"
    )


def _sizes(levels: Levels) -> Iterator[Factors]:
    """What is computed, but for the library."""
    for dataset, subject in product(levels["dataset"], levels["subject"]):
        base: Factors = {"subject": subject, "dataset": dataset}
        if subject == "training":
            trained = TRAINED_ON[str(dataset)]
            yield {**base, "hidden": HIDDEN, "samples": trained, "dtype": "float32"}
            continue
        varied = product(levels["hidden"], levels["samples"], levels["dtype"])
        for hidden, samples, dtype in varied:
            simple = dtype == "float32" or hidden == HIDDEN
            if int(hidden) * int(samples) <= LARGEST and simple:
                yield {**base, "hidden": hidden, "samples": samples, "dtype": dtype}


def is_timed(factors: Factors) -> bool:
    """One iteration again and again."""
    return factors["subject"] == "scaling"


def layers(factors: Factors) -> tuple[Layer, ...]:
    """The layers of a forward pass on all images of a case."""
    dtype: DType = "float64" if factors["dtype"] == "float64" else "float32"
    return perceptron.layers(int(factors["hidden"]), int(factors["samples"]), dtype)


# ------------------------------------------------------------ one case in the process that holds it


class Part(NamedTuple):
    """Images ``(784, m)`` in [0, 1] and one-hot targets ``(10, m)``."""

    images: Array
    targets: Array


class Case(NamedTuple):
    """What is trained on, and the initial parameters, the same values in every library."""

    library: Library
    dtype: str
    train: Part
    parameters: Parameters

    @property
    def ops(self) -> Operations:
        """The operations of its library."""
        return Operations(self.library.xp)

    def iterate(self, parameters: Parameters) -> Parameters:
        """One iteration, which has ended when it returns."""
        return self.library.wait(iteration(self.ops, parameters, *self.train))  # type: ignore[no-any-return]


def placed(library: Library, dtype: str, split: Split, samples: int | None = None) -> Part:
    """Images on the device of a library; where there are fewer than ``samples``, they begin again.

    Pixels are divided by 255.
    """
    import numpy as np

    kind, count = np.dtype(dtype), len(split.labels)
    chosen = np.arange(samples or count) % count
    pixels, labels = split.pixels[chosen].reshape(len(chosen), -1), split.labels[chosen]
    columns = np.ascontiguousarray(pixels.T, dtype=kind) / kind.type(255)
    targets = np.eye(CLASSES, dtype=kind)[:, labels]
    return Part(library.place(columns, dtype), library.place(targets, dtype))


def case_of(library: Library, factors: Factors, train: Split) -> Case:
    """A case with its arrays on the device."""
    dtype = str(factors["dtype"])
    initial = perceptron.initial(int(factors["hidden"]), SEED)
    parameters = Parameters(*(library.place(value, dtype) for value in initial))
    return Case(library, dtype, placed(library, dtype, train, int(factors["samples"])), parameters)


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
    found = re.search(r"^VmRSS:\s+(\d+) kB$", read_text(Path("/proc/self/status")), re.MULTILINE)
    return int(found[1]) * 1024 if found else None


def _images(factors: Factors, session: Session) -> Images:
    from experiments.datasets import handwritten

    own = session.images if factors["dataset"] == "mnist" else None
    return handwritten(Path(own) if own else None)


def memory(factors: Factors, session: Session) -> Measured:
    """The course of a training, and what its library holds."""
    if is_timed(factors):
        return {}
    library, held = started(factors, session.threads)
    images = _images(factors, session)
    return course(case_of(library, factors, images.train), images.test, ITERATIONS) | held


def course(case: Case, test: Split, count: int) -> Measured:
    """Loss (nats a sample) and accuracy of both parts before the first and after each iteration."""
    parts = {"train": case.train, "test": placed(case.library, case.dtype, test)}
    parameters, xp = case.parameters, case.library.xp
    found = defaultdict[str, list[float]](list)
    for index in range(count + 1):
        if index:
            parameters = case.iterate(parameters)
        for name, part in parts.items():
            sums = forward(case.ops, parameters, part.images).z2
            found[f"{name}_loss"].append(perceptron.loss(xp, sums, part.targets))
            found[f"{name}_accuracy"].append(perceptron.accuracy(xp, sums, part.targets))
    return {name: tuple(samples) for name, samples in found.items()}


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """What the library of a training is, in its own words, and the images."""
    if is_timed(factors):
        return ()
    library = libraries.load(str(factors["backend"]), session.threads)
    told = {"name": library.name, "version": library.version, "device": library.device_name}
    identity = _images(factors, session).identity
    return (
        CaseFile(
            name=f"backend.{library.name}.json",
            meaning=f"version and device of {library.name}",
            content=msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n",
        ),
        CaseFile("images.json", "which images were trained and tested on", identity),
    )


# ------------------------------------------------------------------------------------- its times


def times(factors: Factors, session: Session) -> Measured:
    """The times of a case, in this process, which has used no library yet."""
    library, _ = started(factors, session.threads)
    case = case_of(library, factors, _images(factors, session).train)
    found = whole_times(case, session.protocol)
    return found | parts_times(case, session.protocol) if session.device == "cuda" else found


def whole_times(case: Case, protocol: Protocol) -> Measured:
    """The first iteration repeated, what a call costs, and the first layer's product by itself.

    The first call of a process stands apart: it loads kernels and starts threads.  A sample of
    ``call_time`` is the mean over so many calls on one element that the clock matters little.
    """
    workload = Workload(lambda: case.iterate(case.parameters))
    first = cpu_clock(workload)
    for _ in range(protocol.warmup_calls):
        cpu_clock(workload)
    with collector_off():
        samples = repeat_calls(workload, protocol, cpu_clock)
    wait, ops, weights = case.library.wait, case.ops, case.parameters.w1
    one = weights[:1, :1]

    def calls() -> None:
        for _ in range(_CALLS):
            wait(ops.add_bias(one, one))

    def product() -> Array:  # which is freed outside of the time
        return wait(ops.product(weights, case.train.images))

    return {
        "first_call_time": (first.wall,),
        **samples,
        "call_time": tuple(wall / _CALLS for wall in _again(calls, protocol)),
        "product_alone_time": _again(product, protocol),
    }


def parts_times(case: Case, protocol: Protocol) -> Measured:
    """The times of each pass of an iteration, and of each kind of operation, summed over it.

    Each has finished before the next begins.
    """
    found = defaultdict[str, list[float]](list)
    sums = defaultdict[str, float](float)
    ops, wait, now = case.ops, case.library.wait, time.perf_counter

    def passes() -> None:
        start = now()
        activations = wait(forward(ops, case.parameters, case.train.images))
        middle = now()
        gradients = wait(backward(ops, case.parameters, activations, *case.train))
        end = now()
        wait(update(ops, case.parameters, gradients))
        found["forward_time"].append(middle - start)
        found["backward_time"].append(end - middle)

    def tell(quantity: str, duration: float) -> None:
        sums[quantity] += duration

    watched = perceptron.timed(case.library.xp, wait, now, tell)

    def operations() -> None:
        sums.clear()
        iteration(watched, case.parameters, *case.train)
        for quantity, total in sums.items():
            found[quantity].append(total)

    _again(passes, protocol)
    _again(operations, protocol)
    # By the order of the table, not by that of the calls; the first is a warm-up.
    return {name: tuple(found[name][1:]) for name in QUANTITIES if name in found}


def _again(once: Callable[[], object], protocol: Protocol) -> tuple[Sample, ...]:
    """Once to warm up, then within the case's budget: each time (s)."""
    once()
    with collector_off():
        return repeat_calls(Workload(once), protocol, cpu_clock)["time"]


_PLAN: Final[dict[str, Any]] = {
    "warmup_calls": 1,
    "minimum_samples": 5,
    "maximum_samples": 20,
    "case_budget_s": 0.1,
    "timer": "time.perf_counter_ns around one iteration a sample, which has ended on its device",
}


def _factors(libraries: tuple[str, ...]) -> tuple[Factor, ...]:
    return (
        Factor("subject", levels=("training", "scaling")),
        Factor("hidden", levels=(10, 128, 2_048), quick=(10, 128), any_count=True),
        Factor("samples", levels=(1_000, 16_000, 60_000), any_count=True),
        Factor("dtype", levels=("float32", "float64"), quick=("float32",)),
        Factor("backend", levels=libraries),
        Factor("dataset", levels=("digits",)),
    )


STUDY: Final = Study(
    name="backend_speedup",
    question="How does the speed-up of one library over another depend on the work?",
    factors=_factors(ON_CPU),
    cases=cases,
    layers=layers,
    memory=memory,
    times=times,
    files=files,
    timed_under=lambda factors: "every" if is_timed(factors) else "none",
    # A process that times has imported the library before the first case.
    imports=lambda factors, session: (
        (libraries.namespace(str(factors["backend"])),) if session.process else ()
    ),
    images="mnist",
    full=msgspec.structs.replace(FULL, **_PLAN, processes={"retained": 9}, budget_s=600.0),
    quick=msgspec.structs.replace(QUICK, **_PLAN, processes={"retained": 2}, budget_s=120.0),
    ceilings="small",
    on_gpu={"factors": _factors(("numpy", *ON_GPU))},
)
