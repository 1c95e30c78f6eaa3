"""How near the training of a network comes to what the machine can do.

Networks for images of the ImageNet shape are trained by stochastic gradient descent with momentum,
as in PyTorch's ImageNet example: on random images, or on photographs of the user's own.  A set of
cases (``sweep``) answers one question; a case that belongs to several is measured once.  Factors:

- ``subject``: ``training`` are steps of training; ``profile`` is a step watched layer by layer.
- ``network``, ``image`` (pixels a side), ``batch`` (images a step).
- ``precision``: of the arithmetic; weights, gradients and momentum are float32 in all.
  ``tfloat32`` is a mode of NVIDIA's tensor cores, ``bfloat16`` is torch's autocast around the
  forward pass and the loss.
- ``layout``: how images, maps and weights lie in memory (NCHW or NHWC).
- ``execution``: ``eager``; ``compiled`` by torch.compile, the first process with an empty cache and
  the others with its code; ``compiled_cuda_graph`` is the compiled step replayed as one graph.
- ``optimizer``: ``default`` is what torch chooses; ``fused`` updates all parameters in one kernel.
- ``dataset``: ``synthetic`` is one random batch in memory; ``folder`` are photographs, decoded by
  as many processes as ``workers`` says.

A step drops the gradients, then goes forward through network and cross entropy, backward, and
updates the parameters; ReLUs overwrite their input, as torchvision's do.  Its images are in memory,
on the device and in the layout of the case before it is timed; the wait for them is timed apart.
What each subject leaves behind, series and files, stands in ``experiments.training_processes``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from experiments.harness.measure import build, layers_of_case, measure_memory
from experiments.harness.study import (
    FULL,
    QUICK,
    CaseFile,
    Factor,
    Factors,
    Process,
    Results,
    Session,
    Study,
    Subject,
    replanned,
)
from experiments.training_cases import CPU, GPU, NETWORKS, PLAIN, SWEEPS, cases
from report.records.record import Policy

# ------------------------------------------------------------------------------------- measuring


def subject(factors: Factors) -> Subject:
    """A step of training on random images."""
    import torch

    from experiments.networks.catalogue import network

    batch, size = int(factors["batch"]), int(factors["image"])
    return Subject(
        network(str(factors["network"]), in_place=True),
        torch.randn(batch, 3, size, size),
        mode="step",
        layout=factors["layout"],  # type: ignore[arg-type]
        precision=factors["precision"],  # type: ignore[arg-type]
    )


def memory(factors: Factors, session: Session) -> Results:
    """Bytes of an eager step on images in memory; the trace of a profiled one."""
    from experiments.networks.variants import refuse_emulated

    refuse_emulated(factors["precision"], factors["batch"], session.device, _EMULATED)
    if factors["subject"] == "profile":
        if factors["precision"] == "float32":
            from experiments import training_processes

            yield training_processes.trace(factors, session)
    elif factors["dataset"] == "folder":
        yield _photographs_file(session)
    elif factors["execution"] == "eager":
        make = partial(build, STUDY, factors, session.device)
        series = measure_memory(make, session, _MEMORY_REPEATS)
        # A GPU's allocator is replayed from its events.
        events = session.device == "cuda"
        yield from (each for each in series if events or not each.quantity.startswith("memory_"))


def times(factors: Factors, session: Session) -> Results:
    """Steps of training, timed in this process, whole or layer by layer."""
    from experiments import training_processes

    if factors["subject"] == "profile":
        names = [layer.name for layer in layers_of_case(STUDY, factors)]
        return training_processes.profile(factors, session, names)
    return training_processes.train(factors, session)


def _photographs_file(session: Session) -> CaseFile:
    from experiments.datasets.image_folder import identity, photographs

    assert session.images is not None
    content = identity(photographs(session.images))
    return CaseFile("images.json", "which photographs were trained on", content)


def is_counted_on_gpu(factors: Factors) -> bool:
    """Eager steps in float32 of one batch: each has a thousand kernels."""
    return factors["subject"] == "training" and factors.items() >= _COUNTED.items()


#: Memory is measured twice, so that a paper can check that it is the same.
_MEMORY_REPEATS: Final = 2
#: What a case has whose work is counted.
_COUNTED: Final[Factors] = {**PLAIN, "dataset": "synthetic", "batch": 32}
#: The largest batch that is trained on in an emulated precision.
_EMULATED: Final = 2


# ------------------------------------------------------------------------------------------ plan


#: A step with memory returned stands beside the others; six processes bound a median at 96.9 %.
_PROCESSES: Final[dict[Policy, int]] = {"retained": 6, "default": 1}

_ON_CPU: Final = Study(
    name="training_roofline",
    question="How near does the training of a network come to what the machine can do?",
    factors=(
        Factor("sweep", levels=SWEEPS, quick=SWEEPS),
        Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
        Factor("image", levels=(64, 224), quick=(64,), any_count=True),
        Factor("batch", levels=(1, 8, 32), quick=(2, 8), any_count=True),
        Factor("precision", levels=("float32", "bfloat16"), quick=("float32", "bfloat16")),
        Factor(
            "layout",
            levels=("contiguous", "channels_last"),
            quick=("contiguous", "channels_last"),
        ),
        Factor("execution", levels=("eager", "compiled"), quick=("eager",)),
        Factor("optimizer", levels=("default", "fused"), quick=("default", "fused")),
        Factor("dataset", levels=("synthetic",), quick=("synthetic",)),
        Factor("workers", levels=(1,), quick=(1,), any_count=True),
    ),
    subject=subject,
    cases=partial(cases, scale=CPU),
    memory=memory,
    times=times,
    is_counted=lambda factors: False,
    # An optimizer imports the compiler, whether it is used or not.
    process=lambda factors, session: Process(
        ("torch", "torch._dynamo", "torch._inductor", "experiments.training_processes")
    ),
    images="folder",
    # A step takes up to seconds: fewer of them in a process leave time for more processes.
    full=replanned(
        FULL,
        warmup_calls=1,
        minimum_samples=2,
        maximum_samples=20,
        case_budget_s=1.0,
        processes=_PROCESSES,
        budget_s=1080.0,
    ),
    quick=replanned(QUICK, minimum_samples=3, maximum_samples=10, case_budget_s=0.5),
)

#: The factors that have other levels on a GPU.
_GPU_FACTORS: Final = (
    Factor("image", levels=(64, 224), quick=(224,), any_count=True),
    Factor("batch", levels=(8, 32, 64, 128, 256), quick=(8, 32), any_count=True),
    Factor(
        "precision",
        levels=("float32", "tfloat32", "bfloat16"),
        quick=("float32", "tfloat32", "bfloat16"),
    ),
    Factor("execution", levels=("eager", "compiled", "compiled_cuda_graph"), quick=("eager",)),
    Factor("workers", levels=(8,), quick=(8,), any_count=True),
)

_ON_GPU: Final = replace(
    _ON_CPU,
    factors=tuple(
        next((other for other in _GPU_FACTORS if other.name == factor.name), factor)
        for factor in _ON_CPU.factors
    ),
    cases=partial(cases, scale=GPU),
    is_counted=is_counted_on_gpu,
    full=replanned(FULL, maximum_samples=50, case_budget_s=1.5, processes=_PROCESSES),
)

STUDY = replace(_ON_CPU, on_gpu=_ON_GPU)
