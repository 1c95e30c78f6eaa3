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

from collections.abc import Iterator
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import msgspec

from experiments.backends import case, perceptron
from experiments.backends.libraries import ON_CPU, ON_GPU, namespace
from experiments.harness.study import (
    FULL,
    QUICK,
    CaseFile,
    Factor,
    Factors,
    Levels,
    Session,
    Study,
)
from report.records.layers import DType, Layer
from report.records.record import Measured

if TYPE_CHECKING:
    from experiments.datasets import Images, Split

#: The source's hidden layer, and its iterations.
HIDDEN: Final = 10
ITERATIONS: Final = 500
#: Images trained on: four fifths of the digits; 59,000 of MNIST, as in the source.
TRAINED_ON: Final = {"digits": 1_438, "mnist": 59_000}
#: Neurons times images up to which an iteration is measured: beyond, one takes seconds on a core.
LARGEST: Final = 2_048 * 16_000


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


def memory(factors: Factors, session: Session) -> Measured:
    """The course of a training, and what its library holds."""
    if is_timed(factors):
        return {}
    library, held = case.started(factors, session.threads)
    images = _images(factors, session)
    one = case.Case(library, factors, _arrays(images.train, factors))
    return case.course(one, _arrays(images.test), ITERATIONS) | held


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """What the library and the images of a training are."""
    if is_timed(factors):
        return ()
    identity = _images(factors, session).identity
    return (
        case.description(str(factors["backend"]), session.threads),
        CaseFile("images.json", "which images were trained and tested on", identity),
    )


def times(factors: Factors, session: Session) -> Measured:
    """The times of a case, in this process, which has used no library yet."""
    library, _ = case.started(factors, session.threads)
    train = _arrays(_images(factors, session).train, factors)
    one = case.Case(library, factors, train)
    return case.times(one, session.protocol, apart=session.device == "cuda")


def _images(factors: Factors, session: Session) -> Images:
    from experiments.datasets import handwritten

    return handwritten(session.images if factors["dataset"] == "mnist" else None)


def _arrays(split: Split, factors: Factors | None = None) -> tuple[Any, Any]:
    """Pixels ``(N, 784)`` and labels ``(N,)``, no more than a case needs."""
    count = None if factors is None else int(factors["samples"])
    labels = split.labels[:count]
    return split.pixels[:count].reshape(len(labels), -1), labels


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
        (namespace(str(factors["backend"])),) if session.process else ()
    ),
    images="mnist",
    full=msgspec.structs.replace(FULL, **_PLAN, processes={"retained": 9}, budget_s=600.0),
    quick=msgspec.structs.replace(QUICK, **_PLAN, processes={"retained": 2}, budget_s=120.0),
    ceilings="small",
    on_gpu={"factors": _factors(("numpy", *ON_GPU))},
)
