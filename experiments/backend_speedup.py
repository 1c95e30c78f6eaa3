"""One network from scratch on many array libraries: what does the library change?

A perceptron 784-h-10 (ReLU, softmax, cross-entropy) is written once against the array API standard
(``experiments.backends``) and trained by full-batch gradient descent from the same initial
parameters on every library.  Each case is measured by processes of its own that import one library.
Factors:

- ``subject``: ``training`` goes through whole trainings, every iteration a sample; ``scaling``
  repeats the first iteration, so that the work stays the same.
- ``network``: the ``perceptron``, with ``hidden`` neurons.
- ``backend``: the library; ``torch_cuda`` and ``cupy`` compute on a GPU, the others on the CPU.
- ``execution``: ``eager`` is operation by operation; ``compiled`` makes the whole iteration one
  program by ``jax.jit``, ``inductor`` by ``torch.compile``, which takes many seconds and is
  measured at some widths only.
- ``dtype``: of all arrays.
- ``samples``: training images.  Where the data set has fewer, they begin again from the first.
- ``dataset``: ``digits`` of scikit-learn, a fifth held out; ``mnist`` a folder of the user's own,
  1,000 images held out.

Losses and accuracies of a training have one value before the first iteration and one after each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.backends import case, perceptron
from experiments.backends.libraries import ON_CPU, ON_GPU
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import (
    FULL,
    QUICK,
    CaseFile,
    Factor,
    Factors,
    Levels,
    Results,
    Session,
    Study,
    replanned,
)
from report.records.layers import DType, Layer
from report.records.record import Factor as Level

if TYPE_CHECKING:
    from experiments.datasets import Images, Split

#: The source's hidden layer, which is trained.
HIDDEN: Final = 10
#: The source's number.
ITERATIONS: Final = 500
#: Images trained on: four fifths of the digits; 59,000 of MNIST, as in the source.
TRAINED_ON: Final = {"digits": 1_438, "mnist": 59_000}
#: Images at which the width is varied.
WIDENED_AT: Final = {"digits": 1_438, "mnist": 4_000}
#: Neurons at which the number of images is varied.
SAMPLED_AT: Final = (HIDDEN, 128)
#: A width at which a GPU is full, and up to how many images a processor beside it computes that.
WIDE: Final = 2_048
WIDE_UP_TO: Final = 16_000
#: Which library compiles a whole iteration.
COMPILING: Final = {"compiled": "jax", "inductor": "torch"}
#: Neurons at which PyTorch does so: too few for its kernels to matter, some, and many.
INDUCTOR_WIDTHS: Final = (HIDDEN, 128, 2_048)
#: Of MNIST; of the digits a fifth.
HELD_OUT: Final = 1_000

_DTYPES: Final[tuple[DType, ...]] = ("float32", "float64")


def cases(levels: Levels) -> tuple[Factors, ...]:
    """On a CPU; that a GPU's libraries are not available there, one case each says."""
    return tuple(
        one
        for one in cases_on_gpu(levels)
        if (one["backend"] in ON_CPU and not _is_wide(one)) or _is_source(one)
    )


def cases_on_gpu(levels: Levels) -> tuple[Factors, ...]:
    """The libraries side by side at each size."""
    found = (
        {**size, "backend": backend, "execution": execution}
        for size in _sizes(levels)
        for backend, execution in product(levels["backend"], levels["execution"])
        if execution == "eager" or _is_compiled(backend, execution, size)
    )
    # The same size may stand in two sets.
    return tuple({tuple(one.items()): one for one in found}.values())


def _is_compiled(backend: Level, execution: Level, size: Factors) -> bool:
    """Whether a library makes one program of a case."""
    if backend != COMPILING.get(str(execution)) or size["dtype"] != "float32":
        return False
    widened = WIDENED_AT[str(size["dataset"])], TRAINED_ON[str(size["dataset"])]
    return backend == "jax" or (
        size.get("hidden") in INDUCTOR_WIDTHS and size["samples"] in widened
    )


def _is_wide(factors: Factors) -> bool:
    """Whether many neurons meet many images, which takes a processor seconds."""
    return _is_sized(factors) and factors.get("hidden") == WIDE


def _is_source(factors: Factors) -> bool:
    """Whether it is the network that the source trains, in the precision of a GPU."""
    chosen = {"subject": "training", "dtype": "float32", "execution": "eager"}
    return chosen.items() <= factors.items()


def _sizes(levels: Levels) -> Iterator[Factors]:
    """What a round goes through, but for the libraries."""
    makers = {"training": _trained, "scaling": _scaled}
    for subject, dataset, dtype in product(levels["subject"], levels["dataset"], levels["dtype"]):
        base = {"subject": subject, "network": "perceptron", "dtype": dtype, "dataset": dataset}
        yield from ({**base, **size} for size in makers[str(subject)](base, levels))


def _trained(base: Factors, levels: Levels) -> Iterator[Factors]:
    if HIDDEN in levels["hidden"]:
        yield {"hidden": HIDDEN, "samples": TRAINED_ON[str(base["dataset"])]}


def _scaled(base: Factors, levels: Levels) -> Iterator[Factors]:
    """The width, every other one in float64 too; the number of images in float32."""
    simple = base["dtype"] == "float32"
    for hidden in levels["hidden"] if simple else levels["hidden"][::2]:
        yield {"hidden": hidden, "samples": WIDENED_AT[str(base["dataset"])]}
    for hidden, samples in product(levels["hidden"], levels["samples"]):
        few = hidden in SAMPLED_AT or (hidden == WIDE and int(samples) <= WIDE_UP_TO)
        if simple and few:
            yield {"hidden": hidden, "samples": samples}


def layers(factors: Factors) -> tuple[Layer, ...]:
    """The layers of a forward pass on all images of a case."""
    dtype = next(name for name in _DTYPES if name == factors["dtype"])
    return perceptron.layers(int(factors["hidden"]), int(factors["samples"]), dtype)


def memory(factors: Factors, session: Session) -> Results:
    """The bytes of a case, the course of its training, and what its library and images are."""
    if session.device == "cpu" and factors["backend"] in ON_GPU:
        raise UnavailableError(
            f"{factors['backend']} computes on a GPU; measure it with --device cuda where one is."
        )
    if session.device == "cpu" or not _is_sized(factors):  # a GPU's time is dear
        yield from _bytes(factors, session)
    if factors["subject"] == "training":
        from experiments.datasets import identity

        content = identity(_images(str(factors["dataset"]), session.images))
        yield CaseFile("images.json", "which images were trained and tested on", content)


def _bytes(factors: Factors, session: Session) -> Results:
    images = _images(str(factors["dataset"]), session.images)
    one, held = case.started(factors, session.threads, _arrays(images.train, factors))
    from experiments.backends import memory, times

    if factors["subject"] == "training":
        yield from times.course(one, _arrays(images.test), ITERATIONS)
    yield from (*memory.measured(one), *held)
    if _is_source(factors):
        yield case.description(one.library)


def _is_sized(factors: Factors) -> bool:
    """Whether a case varies the number of images."""
    widened = WIDENED_AT[str(factors["dataset"])]
    return factors["subject"] == "scaling" and factors["samples"] != widened


def times(factors: Factors, session: Session) -> Results:
    """The times of a case, in this process, which has used no library yet."""
    images = _images(str(factors["dataset"]), session.images)
    one, _ = case.started(factors, session.threads, _arrays(images.train, factors))
    from experiments.backends import times

    iterations = ITERATIONS if factors["subject"] == "training" else 0
    return times.times(one, session.protocol, iterations)


@lru_cache(maxsize=1)
def _images(dataset: str, folder: Path | None) -> Images:
    """The images, split as in the source; kept between cases."""
    from experiments.datasets import handwritten, resplit

    if dataset != "mnist":
        return handwritten(None)
    return resplit(handwritten(folder), HELD_OUT)


def _arrays(split: Split, factors: Factors | None = None) -> tuple[Any, Any]:
    """Pixels ``(N, 784)`` and labels ``(N,)``, no more than a case needs."""
    count = None if factors is None else int(factors["samples"])
    labels = split.labels[:count]
    return split.pixels[:count].reshape(len(labels), -1), labels


_TIMER: Final = "time.perf_counter_ns around one iteration a sample, which has ended on its device"

_ON_CPU: Final = Study(
    name="backend_speedup",
    question="What does the array library change when the same network is trained on each?",
    factors=(
        Factor("subject", levels=("training", "scaling"), quick=("training", "scaling")),
        Factor("network", levels=("perceptron",), quick=("perceptron",)),
        Factor("hidden", levels=(10, 32, 128, 512, 2048, 4096), quick=(10, 512), any_count=True),
        Factor("samples", levels=(1_000, 4_000, 16_000, 60_000), quick=(16_000,), any_count=True),
        Factor("dtype", levels=_DTYPES, quick=("float32",)),
        Factor("backend", levels=(*ON_CPU, *ON_GPU), quick=(*ON_CPU, *ON_GPU)),
        Factor("execution", levels=("eager", "compiled", "inductor"), quick=("eager", "compiled")),
        Factor("dataset", levels=("digits",), quick=("digits",)),
    ),
    cases=cases,
    layers=layers,
    memory=memory,
    times=times,
    process=case.process,
    images="mnist",
    full=replanned(
        FULL,
        minimum_samples=5,
        maximum_samples=20,
        case_budget_s=0.25,
        timer=_TIMER,
        # Of so many cases there is time for one memory policy only.
        processes={"retained": 6},
        budget_s=1080.0,
    ),
    quick=replanned(QUICK, timer=_TIMER, processes={"retained": 2}),
)

STUDY: Final = replace(_ON_CPU, on_gpu=replace(_ON_CPU, cases=cases_on_gpu))
