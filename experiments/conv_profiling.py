"""One convolution through the profilers, inside the network that it belongs to.

The layer is the second convolution of PyTorch's MNIST example, float32, with random weights and
inputs from a fixed seed.  Factors:

- ``subject``: ``layer`` is this convolution alone; ``trace`` is one warm call of the layer or of
  the whole ``network`` (``scope``) as torch's profiler sees it, kept as a Chrome trace beside the
  record; ``training`` trains the network.
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
- ``dataset``: ``digits`` are those of scikit-learn, ``mnist`` a folder of the user's own.

Dimensions other than the example's are varied one at a time, forward, at batch 1 and 8.  At batch
8 the log of one call lies beside the record: oneDNN's primitives, with the instructions that the
processor has and with AVX2's.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Final

from experiments.harness import primitives, quantity_groups
from experiments.harness.images import check_folder, image_files, images_of
from experiments.harness.measure import measure_memory, measure_time
from experiments.harness.study import (
    SEED,
    CaseFile,
    Counting,
    Device,
    Factor,
    Factors,
    Levels,
    Session,
    Study,
)
from experiments.harness.workload import Workload
from report.records.layers import Layer
from report.records.record import Factor as Level
from report.records.record import Series

if TYPE_CHECKING:
    from torch import nn

    from experiments.harness.training import History

#: The dimensions of the example, and the batches at which others are measured.
BASE: Final[Factors] = {"channels": "32-64", "kernel": 3, "input": 28}
VARIED_BATCHES: Final = (1, 8)
#: The batch at which oneDNN's primitives are logged.
LOGGED_BATCH: Final = 8
#: What is traced, at which batches.
TRACED: Final = {"layer": (1, 64), "network": (64,)}
#: What is trained: the example, and the source's second network.
TRAINED: Final = ("32-64", "20-40")

#: The source trained for four epochs; the digits, a fortieth of MNIST, need more.
EPOCHS: Final = {"digits": 10, "mnist": 4}

#: Forward, backward and both gradients cost about three forward passes.
_PASSES: Final = {"forward": 1, "forward_backward": 3}
#: Under lackey an image of the layer takes half a second.  Up to which batch a pass is counted
#: unless all is asked for, and up to which it is called twice.
_COUNTED_UP_TO: Final = {"forward": 16, "forward_backward": 8}
_TWICE_UP_TO: Final = 16

_SUBJECTS: Final = ("layer", "trace", "training")


def cases(levels: Levels) -> tuple[Factors, ...]:
    """The layer in all its dimensions, what is traced, what is trained."""
    makers = (_layer_cases, _trace_cases, _training_cases)
    return tuple(
        case
        for subject, made in zip(_SUBJECTS, makers, strict=True)
        if subject in levels["subject"]
        for case in made(levels)
    )


def _layer_cases(levels: Levels) -> list[Factors]:
    names = ("channels", "kernel", "input", "pass", "batch")
    found = (_layer_case(*chosen) for chosen in product(*(levels[name] for name in names)))
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


def _layer_case(
    channels: Level, kernel: Level, extent: Level, direction: Level, batch: Level
) -> Factors:
    return {
        "subject": "layer",
        "channels": channels,
        "kernel": kernel,
        "input": extent,
        "batch": batch,
        "pass": direction,
        "layout": "contiguous",
    }


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


def _training_cases(levels: Levels) -> list[Factors]:
    return [
        {"subject": "training", "dataset": dataset, "channels": channels}
        for dataset, channels in product(levels["dataset"], levels["channels"])
        if channels in TRAINED
    ]


def layers(factors: Factors) -> tuple[Layer, ...]:
    """The layers of a case, found on the meta device: of a training those for one image."""
    import torch

    from experiments.harness.capture import layers_of

    with torch.device("meta"):
        module, shape = _subject(factors)
        return layers_of(module, torch.empty(shape), root="conv2")


def _subject(factors: Factors) -> tuple[nn.Module, tuple[int, ...]]:
    """The module, and the shape of its input."""
    from experiments.networks import mnist

    batch = int(factors.get("batch", 1))
    if _is_network(factors):
        return mnist.mnist_cnn(_channels(factors)), (batch, *mnist.INPUT_SHAPE)
    channels, kernel, size = _dimensions(factors)
    shape = mnist.second_convolution_input_shape(channels, size)
    return mnist.second_convolution(channels, kernel), (batch, *shape)


def _is_network(factors: Factors) -> bool:
    return factors["subject"] == "training" or factors.get("scope") == "network"


def _channels(factors: Factors) -> tuple[int, int]:
    first, second = str({**BASE, **factors}["channels"]).split("-")
    return int(first), int(second)


def _dimensions(factors: Factors) -> tuple[tuple[int, int], int, int]:
    """Channels, kernel and extent of the images; the example's where a case names none."""
    whole = {**BASE, **factors}
    return _channels(factors), int(whole["kernel"]), int(whole["input"])


def _output_shape(factors: Factors) -> tuple[int, ...]:
    """Images, channels, height and width of what the layer puts out."""
    from experiments.networks.mnist import second_convolution_output_shape

    return int(factors["batch"]), *second_convolution_output_shape(*_dimensions(factors))


def build(factors: Factors, device: Device) -> Workload:
    """Module and input on ``device``, the same values every time; not of what is trained.

    Sets the precision of convolutions on a GPU for this process until the next case.
    """
    import torch

    torch.manual_seed(SEED)
    torch.backends.cudnn.allow_tf32 = factors.get("precision") == "tfloat32"
    with torch.device(device):
        return _network(factors) if _is_network(factors) else _layer(factors)


def _layer(factors: Factors) -> Workload:
    import torch

    from experiments.harness.passes import forward, forward_backward

    module, shape = _subject(factors)
    if factors["pass"] == "forward":
        return forward(module, torch.randn(shape))
    source = torch.randn(shape, requires_grad=True)
    return forward_backward(module, source, torch.randn(_output_shape(factors)))


def _network(factors: Factors) -> Workload:
    """A training step without its update, dropout included, on random images and labels."""
    import torch
    from torch.nn.functional import nll_loss

    from experiments.harness.passes import loss_backward

    module, shape = _subject(factors)
    return loss_backward(module, torch.randn(shape), torch.randint(10, shape[:1]), nll_loss)


def measure_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Memory of the layer and of what is traced, the course of a training."""
    if factors["subject"] == "training":
        return _trained(factors, session)
    return measure_memory(lambda: build(factors, session.device), session)


def time_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Times of the layer in this process."""
    return measure_time(lambda: build(factors, session.device), session)


def _trained(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Every step and every epoch, from weights that start from the seed."""
    import torch

    from experiments.harness.training import train

    torch.manual_seed(SEED)
    torch.backends.cudnn.allow_tf32 = False
    with torch.device(session.device):
        module, _ = _subject(factors)
    images = images_of(factors, session)
    return training_series(train(module, images, epochs=EPOCHS[str(factors["dataset"])]))


def training_series(history: History) -> tuple[Series, ...]:
    """A loss a step; scores and duration (s) an epoch."""
    epochs = history.epochs
    return (
        Series(quantity="step_loss", unit="1", samples=history.losses),
        Series(quantity="epoch_time", unit="s", samples=tuple(e.seconds for e in epochs)),
        Series(quantity="train_loss", unit="1", samples=tuple(e.train.loss for e in epochs)),
        Series(
            quantity="train_accuracy", unit="1", samples=tuple(e.train.accuracy for e in epochs)
        ),
        Series(quantity="test_loss", unit="1", samples=tuple(e.test.loss for e in epochs)),
        Series(quantity="test_accuracy", unit="1", samples=tuple(e.test.accuracy for e in epochs)),
    )


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """oneDNN's logs and the trace of a call; which images were trained on, and some of them."""
    match factors["subject"]:
        case "layer" if session.device == "cpu" and factors["batch"] == LOGGED_BATCH:
            return primitives.log_files(log_case, factors, session)
        case "trace":
            return (_trace_file(factors, session.device),)
        case "training":
            return image_files(images_of(factors, session))
    return ()


def log_case(factors: Factors, session: Session) -> bytes:
    """oneDNN's lines on one call in this process, which has ``primitives.VERBOSE``."""
    return primitives.log_of(session, lambda: build(factors, session.device))


def _trace_file(factors: Factors, device: Device) -> CaseFile:
    from experiments.harness.profiling import trace_file

    scope, batch = factors["scope"], factors["batch"]
    of = f"the {scope}, forward and backward, at batch {batch}"
    return trace_file(f"{scope}-{batch}", of, lambda: build(factors, device), device)


def effort(factors: Factors) -> float:
    """Small batches last about equally long, large ones in proportion to their size."""
    match factors["subject"]:
        case "trace":
            return 100.0
        case "training":
            return 2000.0
    return _PASSES[str(factors["pass"])] * max(64.0, float(factors["batch"]))


def multiply_adds(factors: Factors) -> int:
    """Those expected of one call of the layer, about, to tell how long counting takes; else 0."""
    if factors["subject"] != "layer":
        return 0
    taps = _channels(factors)[0] * int(factors["kernel"]) ** 2
    return _PASSES[str(factors["pass"])] * taps * math.prod(_output_shape(factors))


def calls(factors: Factors, thorough: bool) -> int:
    """How often a case is called while its multiply-adds are counted: small batches twice.

    Without ``thorough`` the largest are left out, so that a full plan stays within minutes.
    """
    if factors["subject"] != "layer":
        return 0
    batch = int(factors["batch"])
    if not thorough and batch > _COUNTED_UP_TO[str(factors["pass"])]:
        return 0
    return 2 if batch <= _TWICE_UP_TO else 1


def calls_on_gpu(factors: Factors, thorough: bool) -> int:
    """The layer is counted at every batch: a GPU's counters only replay each kernel."""
    return 2 if factors["subject"] == "layer" else 0


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
        Factor("pass", levels=tuple(_PASSES), quick=tuple(_PASSES)),
        Factor("scope", levels=tuple(TRACED), quick=tuple(TRACED)),
        Factor("dataset", levels=("digits",), quick=("digits",)),
    ),
    measures=(
        *quantity_groups.TIME,
        *quantity_groups.MEMORY,
        *quantity_groups.COUNTED_WORK,
        *quantity_groups.LEARNING,
    ),
    cases=cases,
    layers=layers,
    measure=measure_case,
    timed=time_case,
    is_timed=lambda factors: factors["subject"] == "layer",
    effort=effort,
    files=files,
    counting=Counting(
        workload=build,
        multiply_adds=multiply_adds,
        calls=calls,
        warm_up=_layer_case("32-64", 3, 28, "forward_backward", 1),
        calls_on_gpu=calls_on_gpu,
    ),
    prepare=check_folder,
    images="mnist",
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
