"""One network from scratch on several array libraries: how does a speed-up depend on the work?

A perceptron 784-h-10 (h hidden neurons; ReLU, softmax, cross-entropy) is written once against the
array API standard (``experiments.backends``).  A process that measures a case imports one library
only.  «The source» is the published study that this study repeats.  Factors:

- ``subject``: ``scaling`` repeats and times the first iteration of full-batch gradient descent.
  ``training`` records loss and accuracy before the first and after each of 500 iterations.
  ``change`` times NumPy's first iteration on a CPU at three sizes, with one change at a time.
  ``calls`` times an iteration with another number of library calls (series ``time``) alternately
  with the unchanged iteration (``baseline_time``).
- ``calls``: number of library calls of the iteration, 31 if unchanged.
- ``change``: the one difference from the usual conditions, which are one thread, freed memory kept,
  float32 and separate operations (``experiments.backends.changes``).
- ``backend``: library; ``torch_cuda`` and ``cupy`` compute on a GPU, all others on the CPU.
- ``hidden``: neurons of the hidden layer, 10 in the source.
- ``samples``: number of images; if the data set is smaller, its images are repeated.
- ``dtype``: type of all arrays; ``float64``, NumPy's default, occurs only as a change.
- ``dataset``: ``digits`` of scikit-learn (a fifth is held out), or ``mnist`` from the user's folder
  (1,000 images are held out).
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from experiments.backends import libraries, perceptron
from experiments.backends.changes import (
    ALL_CALLS,
    CALL_COUNTS,
    CHANGES,
    DOUBLE_PRECISION,
    FUSED_RELU,
    MERGED_CALLS,
    UNCHANGED,
    apply_change,
    fused_forward,
    operations_with,
)
from experiments.backends.libraries import ON_CPU, ON_GPU, Library
from experiments.backends.perceptron import Training, learning_curve, training_of
from experiments.harness import study
from experiments.harness.timing import Workload, cpu_clock, garbage_collection_off, repeat_calls
from report.core.records.layers import DType, Layer
from report.core.records.quantities import QUANTITIES
from report.core.records.record import Factors, Protocol, SeriesByQuantity

if TYPE_CHECKING:
    from experiments.datasets import Images

#: Hidden neurons of the network in the source study.
HIDDEN: Final = 10
#: Iterations of the source study's training.
ITERATIONS: Final = 500
#: Number of training images: four fifths of the digits; 59,000 of MNIST, as in the source study.
TRAINED_ON: Final = {"digits": 1_438, "mnist": 59_000}
#: (Hidden neurons, images) of cases with a change: one image, the source's size, a wide network.
CHANGED_SIZES: Final = ((10, 1), (10, 60_000), (512, 1_438))
#: Numbers of images of cases with another number of calls, on the source study's network.
IMAGES_OF_CALLS: Final = (1, 1_000, 60_000)
#: Largest number of (changed, unchanged) iterations in a case with another number of calls.
_MOST_PAIRS: Final = 101
#: Largest product of neurons and images; with more work an iteration takes seconds on a core.
LARGEST_PRODUCT: Final = 2_048 * 16_000
#: A sample of ``call_time`` is the mean of this many calls on one element.
_CALLS_PER_SAMPLE: Final = 100


def cases(levels: study.Levels) -> tuple[Factors, ...]:
    """List all libraries at each size; changes only with NumPy, merged calls only with PyTorch."""
    listed: list[Factors] = []
    for dataset, subject in product(levels["dataset"], levels["subject"]):
        for size in _sizes(levels, str(dataset), str(subject)):
            name_part = "numpy" if "change" in size else ""  # "" is in every library's name
            if size.get("calls") == MERGED_CALLS:
                name_part = "torch"
            for backend in levels["backend"]:
                if name_part in str(backend):
                    case = {"subject": subject, "dataset": dataset, **size, "backend": backend}
                    listed.append(case)
    return tuple(listed)


def _sizes(levels: study.Levels, dataset: str, subject: str) -> Iterator[Factors]:
    """Yield the factors of a subject's cases that do not depend on the library."""
    if subject == "training":
        yield {"hidden": HIDDEN, "samples": TRAINED_ON[dataset], "dtype": "float32"}
    elif subject == "change":
        for (neurons, images), change in product(CHANGED_SIZES, levels["change"]):
            dtype = "float64" if change == DOUBLE_PRECISION else "float32"
            yield {"hidden": neurons, "samples": images, "dtype": dtype, "change": change}
    elif subject == "calls":
        for images, calls in product(IMAGES_OF_CALLS, levels["calls"]):
            yield {"hidden": HIDDEN, "samples": images, "dtype": "float32", "calls": calls}
    else:
        for hidden, samples in product(levels["hidden"], levels["samples"]):
            if int(hidden) * int(samples) <= LARGEST_PRODUCT:
                yield {"hidden": hidden, "samples": samples, "dtype": "float32"}


def is_timed(factors: Factors) -> bool:
    """Return whether a case times repeated iterations; other cases record a training."""
    return factors["subject"] != "training"


def layers(factors: Factors) -> tuple[Layer, ...]:
    """Describe the layers of a forward pass on all images of a case."""
    dtype: DType = "float64" if factors["dtype"] == "float64" else "float32"
    return perceptron.layers(int(factors["hidden"]), int(factors["samples"]), dtype)


def load_library(factors: Factors, threads: int) -> Library:
    """Load the library, and compute a matrix product to start threads and load kernels."""
    library = libraries.load(str(factors["backend"]), threads)
    import numpy as np

    values = library.copy_to_device(np.ones((64, 64)), str(factors["dtype"]))
    library.wait(library.xp.matmul(values, values))
    return library


def _load_images(factors: Factors, session: study.Session) -> Images:
    """Load the data set of a case; MNIST is read from the user's folder."""
    from experiments.datasets import load_handwritten

    folder = session.images if factors["dataset"] == "mnist" else None
    return load_handwritten(Path(folder) if folder else None)


def memory(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Record loss and accuracy during a training; return no series for other subjects."""
    if is_timed(factors):
        return {}
    library, images = load_library(factors, session.threads), _load_images(factors, session)
    return learning_curve(training_of(library, factors, images.train), images.test, ITERATIONS)


def files(factors: Factors, session: study.Session) -> tuple[study.CaseFile, ...]:
    """Return files that identify the library and images of a training; () for other subjects."""
    if is_timed(factors):
        return ()
    library = libraries.load(str(factors["backend"]), session.threads)
    content = {"name": library.name, "version": library.version, "device": library.device_name}
    text = msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n"
    images = _load_images(factors, session)
    return (
        study.CaseFile(
            f"backend.{library.name}.json", f"version and device of {library.name}", text
        ),
        study.CaseFile("images.json", "which images were trained and tested on", images.identity),
    )


def times(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time a case in this process, which has not yet used any library.

    Passes and operations are timed separately too, in every case on a GPU without ``calls``, and on
    a CPU in the case with ``change`` = ``none``.
    """
    library = load_library(factors, session.threads)
    change = factors.get("change")
    if change:
        apply_change(str(change))
    training = training_of(library, factors, _load_images(factors, session).train)
    if "calls" in factors:
        return time_with_calls(training, int(factors["calls"]), session.protocol)
    if change == FUSED_RELU:
        training = training._replace(forward=fused_forward)
    series = time_iteration(training, session.protocol)
    if session.device == "cuda" or change == UNCHANGED:
        series |= time_parts(training, session.protocol)
    return series


def time_iteration(training: Training, protocol: Protocol) -> SeriesByQuantity:
    """Time the first iteration of the training repeatedly.

    The first call of a process, which loads kernels and starts threads, is in a separate series.
    """
    workload = Workload(partial(training.iterate, training.parameters))
    first_call = cpu_clock(workload)
    for _ in range(protocol.warmup_calls):
        cpu_clock(workload)
    with garbage_collection_off():
        series = repeat_calls(workload, protocol, cpu_clock)
    return {"first_call_time": (first_call.wall,), **series}


def time_parts(training: Training, protocol: Protocol) -> SeriesByQuantity:
    """Time the passes of an iteration, its operations by kind, and a call on one element.

    Each time ends when the device has computed the result.
    """
    series = defaultdict[str, list[float]](list)
    time_by_kind = defaultdict[str, float](float)
    ops, wait, now = training.ops, training.library.wait, time.perf_counter
    one_element = training.parameters.w1[:1, :1]

    def time_passes() -> None:
        start = now()
        activations = wait(perceptron.forward(ops, training.parameters, training.train.images))
        middle = now()
        gradients = wait(
            perceptron.backward(ops, training.parameters, activations, *training.train)
        )
        series["forward_time"].append(middle - start)
        series["backward_time"].append(now() - middle)
        wait(perceptron.update(ops, training.parameters, gradients))

    def add_duration(quantity: str, duration: float) -> None:
        time_by_kind[quantity] += duration

    timed_operations = perceptron.timed_operations(training.library.xp, wait, now, add_duration)

    def time_operations() -> None:
        time_by_kind.clear()
        perceptron.iteration(timed_operations, training.parameters, *training.train)
        for quantity, duration in time_by_kind.items():
            series[quantity].append(duration)

    def time_calls_on_one_element() -> None:
        start = now()
        for _ in range(_CALLS_PER_SAMPLE):
            wait(ops.add_bias(one_element, one_element))
        series["call_time"].append((now() - start) / _CALLS_PER_SAMPLE)

    for time_once in time_passes, time_operations, time_calls_on_one_element:
        time_once()  # warm-up
        with garbage_collection_off():
            repeat_calls(Workload(time_once), protocol, cpu_clock)
    # The order is that of ``QUANTITIES``; the first sample, which is the warm-up, is dropped.
    return {name: tuple(series[name][1:]) for name in QUANTITIES if name in series}


def time_with_calls(training: Training, calls: int, protocol: Protocol) -> SeriesByQuantity:
    """Time alternately an iteration with ``calls`` library calls and the unchanged iteration.

    An extra call adds two numbers, and no other call uses the sum.
    """
    xp, one_element = training.library.xp, training.parameters.w1[:1, :1]

    def iteration_with(call_count: int) -> Workload:
        ops = operations_with(call_count, xp, training.train.images.shape[1])

        def iterate() -> object:
            result = perceptron.iteration(ops, training.parameters, *training.train)
            for _ in range(ALL_CALLS, call_count):
                ops.add_bias(one_element, one_element)
            return training.library.wait(result)

        return Workload(iterate)

    workloads = {"time": iteration_with(calls), "baseline_time": iteration_with(ALL_CALLS)}
    order, series = list(workloads), defaultdict[str, list[float]](list)

    def time_pair() -> None:
        order.reverse()
        for name in order:
            series[name].append(cpu_clock(workloads[name]).wall)

    for _ in range(protocol.minimum_samples):  # warm-up
        time_pair()
    series.clear()
    protocol_of_pairs = msgspec.structs.replace(protocol, maximum_samples=_MOST_PAIRS)
    with garbage_collection_off():
        repeat_calls(Workload(time_pair), protocol_of_pairs, cpu_clock)
    return {name: tuple(series[name]) for name in workloads}


def _factors(libraries: tuple[str, ...], changes: tuple[str, ...] = ()) -> tuple[study.Factor, ...]:
    """Return the study's factors; without ``changes``, there is no subject or factor ``change``."""
    quick = ("training", "scaling")
    subjects = (*quick, "calls", "change") if changes else (*quick, "calls")
    factors = (
        study.Factor("subject", levels=subjects, quick=quick),
        study.Factor("hidden", levels=(10, 128, 2_048), quick=(10, 128), any_count=True),
        study.Factor("samples", levels=(1_000, 16_000, 60_000), any_count=True),
        study.Factor("backend", levels=libraries),
        study.Factor("dataset", levels=("digits",)),
        study.Factor("calls", levels=CALL_COUNTS),
    )
    return (*factors, study.Factor("change", levels=changes)) if changes else factors


def timed_under(factors: Factors) -> study.Policies:
    """Return "every" memory policy for a timed iteration, and "none" for a training."""
    return "every" if is_timed(factors) else "none"


def imports(factors: Factors, session: study.Session) -> tuple[str, ...]:
    """Return the modules that a process for times imports before its first case.

    Cases with a change or other calls are short, so scikit-learn is imported before them too.
    """
    if not session.process:  # the process measures memory
        return ()
    library = libraries.namespace(str(factors["backend"]))
    is_short = factors["subject"] in ("change", "calls")
    return (library, "sklearn.datasets") if is_short else (library,)


_FULL: Final = msgspec.structs.replace(
    study.FULL,
    warmup_calls=1,
    minimum_samples=5,
    maximum_samples=20,
    case_budget_s=0.1,
    timer="time.perf_counter_ns around one iteration a sample, which has ended on its device",
    processes={"retained": 9},
    budget_s=750.0,
)
_QUICK: Final = msgspec.structs.replace(
    _FULL, plan="quick", processes={"retained": 2}, budget_s=120.0
)
STUDY: Final = study.Experiment(
    subject=None,
    factors=_factors(ON_CPU, CHANGES),
    cases=cases,
    name="backend_speedup",
    question="How does the speed-up of one library over another depend on the work?",
    plan=study.Plan(
        full=_FULL,
        quick=_QUICK,
        ceilings="small",
        timed_under=timed_under,
        memory=memory,
        times=times,
        layers=layers,
        files=files,
        imports=imports,
        images="mnist",
    ),
).with_gpu(factors=_factors(("numpy", *ON_GPU)))
