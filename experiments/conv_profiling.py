"""One convolution through the profilers, inside the network that it belongs to.

The layer is the second convolution of PyTorch's MNIST example, float32, with random weights and
inputs from a fixed seed.  Factors:

- ``subject``: ``layer`` is this convolution alone; ``trace`` is one warm call of the layer or of
  the whole ``network`` (``scope``) as torch's profiler sees it, kept as a Chrome trace beside the
  record.
- ``channels``: those that the two convolutions of the network put out, so those that go into and
  come out of the layer; ``32-64`` are the example's.
- ``kernel``, ``input``: the layer's kernel, and the extent of the images.  The first convolution
  has a kernel of 3, so that ``input`` - 2 is the extent at the layer.
- ``batch``: images a call.
- ``pass``: ``forward`` is one call under ``torch.no_grad()``; ``forward_backward`` one call with
  gradients on and ``backward``: of a fixed random gradient for the layer, whose input requires its
  gradient too, as it does inside the network; of the loss for the network.
- ``precision``: ``tfloat32`` lets cuDNN compute in that mode of NVIDIA's tensor cores, on a GPU
  alone; a case that names none computes in float32.

Dimensions other than the example's are varied one at a time, forward, at batch 1 and 8.  At batch
8 the log of one call lies beside the record: oneDNN's primitives, with the instructions that the
processor has and with AVX2's.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Final

from experiments.harness import profiling
from experiments.harness.measure import build, measure_memory
from experiments.harness.study import (
    CaseFile,
    Device,
    Factor,
    Factors,
    Levels,
    Results,
    Session,
    Study,
    Subject,
)

#: The dimensions of the example, and the batches at which others are measured.
BASE: Final[Factors] = {"channels": "32-64", "kernel": 3, "input": 28}
VARIED_BATCHES: Final = (1, 8)
#: The batch at which oneDNN's primitives are logged.
LOGGED_BATCH: Final = 8
#: What is traced, at which batches.
TRACED: Final = {"layer": (1, 64), "network": (64,)}

_MODES: Final = ("forward", "forward_backward")
_SUBJECTS: Final = ("layer", "trace")


def cases(levels: Levels) -> tuple[Factors, ...]:
    """The layer in all its dimensions, and what is traced."""
    makers = {"layer": _layer_cases, "trace": _trace_cases}
    return tuple(
        case
        for subject, cases_of in makers.items()
        if subject in levels["subject"]
        for case in cases_of(levels)
    )


def _layer_cases(levels: Levels) -> list[Factors]:
    names = ("channels", "kernel", "input", "pass", "batch")
    found = (
        {"subject": "layer", **dict(zip(names, chosen, strict=True)), "layout": "contiguous"}
        for chosen in product(*(levels[name] for name in names))
    )
    return [factors for factors in found if _is_measured(factors)]


def cases_on_gpu(levels: Levels) -> tuple[Factors, ...]:
    """The layer of the example in both precisions, forward and backward; and all else."""
    found = cases(levels)
    fast = [
        {**case, "precision": "tfloat32"}
        for case in found
        if case["subject"] == "layer" and case.items() >= BASE.items()
    ]
    precisions = levels["precision"]
    return (*found * ("float32" in precisions), *fast * ("tfloat32" in precisions))


def _is_measured(factors: Factors) -> bool:
    """Whether a combination of dimensions, batch and pass is one of the plan."""
    varied = sum(factors[name] != level for name, level in BASE.items())
    if varied == 0:
        return True
    return varied == 1 and factors["pass"] == "forward" and factors["batch"] in VARIED_BATCHES


def _trace_cases(levels: Levels) -> list[Factors]:
    return [
        {"subject": "trace", "scope": scope, "batch": batch, "pass": "forward_backward"}
        for scope, batch in product(levels["scope"], levels["batch"])
        if batch in TRACED[str(scope)] and "forward_backward" in levels["pass"]
    ]


def subject(factors: Factors) -> Subject:
    """The layer, or a step of the network without its update, dropout included."""
    import torch
    from torch.nn.functional import nll_loss

    from experiments.networks import mnist

    batch = int(factors.get("batch", 1))
    if factors.get("scope") == "network":
        module, source = mnist.mnist_cnn(_channels(factors)), torch.randn(batch, *mnist.INPUT_SHAPE)
        labels = torch.randint(10, (batch,))
        loss = partial(nll_loss, target=labels)
        return Subject(module, source, "forward_backward", loss=loss)
    dimensions = {**BASE, **factors}
    channels = _channels(factors)
    shape = mnist.second_convolution_input_shape(channels, int(dimensions["input"]))
    return Subject(
        mnist.second_convolution(channels, int(dimensions["kernel"])),
        torch.randn(batch, *shape),
        mode=factors["pass"],  # type: ignore[arg-type]
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
        name="conv2",
    )


def _channels(factors: Factors) -> tuple[int, int]:
    first, second = str({**BASE, **factors}["channels"]).split("-")
    return int(first), int(second)


def memory(factors: Factors, session: Session) -> Results:
    """Memory and logs of the layer, memory and trace of a call."""
    make = partial(build, STUDY, factors, session.device)
    if factors["subject"] == "layer" and factors["batch"] == LOGGED_BATCH:
        yield from profiling.log_files(make, factors, session)
    yield from measure_memory(make, session)
    if factors["subject"] == "trace":
        yield _trace_file(factors, session.device)


def _trace_file(factors: Factors, device: Device) -> CaseFile:
    scope, batch = factors["scope"], factors["batch"]
    of = f"the {scope}, forward and backward, at batch {batch}"
    return profiling.trace_file(
        f"{scope}-{batch}", of, partial(build, STUDY, factors, device), device
    )


_ON_CPU: Final = Study(
    name="conv_profiling",
    question="What do the profilers see of one convolution, and does theory say so beforehand?",
    factors=(
        Factor("subject", levels=_SUBJECTS, quick=_SUBJECTS),
        Factor(
            "channels",
            levels=("32-64", "20-40", "16-32", "8-24", "33-65", "64-128"),
            quick=("32-64",),
        ),
        Factor("kernel", levels=(3, 1, 5), quick=(3, 1)),
        Factor("input", levels=(28, 16, 20, 32), quick=(28,)),
        Factor("batch", levels=tuple(2**n for n in range(10)), quick=(1, 8, 64), any_count=True),
        Factor("pass", levels=_MODES, quick=_MODES),
        Factor("scope", levels=tuple(TRACED), quick=tuple(TRACED)),
    ),
    subject=subject,
    cases=cases,
    memory=memory,
    is_timed=lambda factors: factors["subject"] == "layer",
    is_counted=lambda factors: factors["subject"] == "layer",
)

STUDY = replace(
    _ON_CPU,
    on_gpu=replace(
        _ON_CPU,
        cases=cases_on_gpu,
        factors=(
            *_ON_CPU.factors,
            Factor("precision", levels=("float32", "tfloat32"), quick=("float32", "tfloat32")),
        ),
    ),
)
