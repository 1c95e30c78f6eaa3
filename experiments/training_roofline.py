"""Rates of training of networks, against the ceilings of the machine.

Networks for images of the ImageNet shape are trained on random images by stochastic gradient
descent with momentum, as in PyTorch's ImageNet example.  Factors:

- ``subject``: ``training`` is steps of training; ``profile`` is steps timed layer by layer.
- ``network``, ``image`` (pixels a side), ``batch`` (images a step).
- ``precision``: precision of the arithmetic; weights, gradients and momentum are float32.
  ``tfloat32`` is a mode of NVIDIA's tensor cores, ``bfloat16`` is torch's autocast around the
  forward pass and the loss.
- ``layout``: order of images, maps and weights in memory (NCHW or NHWC).

A step drops the gradients, goes forward through network and cross entropy, backward, and updates
the parameters; ReLUs overwrite their input, as torchvision's do.  The images are in memory before
the step is timed.  Labels are drawn before each step: a network would learn one batch by heart
within a few steps, and its gradients would vanish.

On a CPU every network is profiled on images of the largest size; on images of the smallest size
one network is trained over all batches, and every network in each precision and each layout.  On
a GPU all networks are trained over all batches, and their memory is measured.

On one thread PyTorch computes convolutions of one tap without oneDNN if a batch has fewer than 16
images (``use_mkldnn`` in Convolution.cpp), so profiles have 16.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final

import msgspec

from experiments.harness import timing
from experiments.harness.measure import (
    build_subject,
    layers_of_case,
    measure_time,
    training_step,
)
from experiments.harness.study import (
    FULL,
    QUICK,
    Factor,
    Factors,
    Levels,
    Plan,
    Session,
    Study,
    Subject,
    no_case,
)
from experiments.networks import catalogue
from report.core.errors import MeasurementError
from report.core.records.record import Factor as Level
from report.core.records.record import Measured

if TYPE_CHECKING:
    import torch
    from torch import nn

NETWORKS: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: The network that a CPU trains over all batches.
SWEPT: Final = "ResNet-50"
BATCHES: Final = (1, 2, 4, 8, 16, 32)
#: Batch of profiles, and the batch at which the precision varies.
WATCHED: Final = 16
VARIED: Final = {"cpu": 32, "cuda": 128}


# ----------------------------------------------------------------------------------------- cases


def cases(levels: Levels, swept: tuple[str, ...], varied: int) -> tuple[Factors, ...]:
    """List the cases: ``swept`` networks over all batches, precisions at the batch ``varied``."""
    images, batches = (tuple(map(int, levels[name])) for name in ("image", "batch"))
    layouts, precisions = levels["layout"], levels["precision"]
    reference = _nearest(varied, batches)
    ordered: dict[tuple[Level, ...], None] = {}  # drops repetitions, keeps the order
    for network in levels["network"]:
        steps: list[tuple[Level, ...]] = []
        if "float32" in precisions:
            large = max(images), _nearest(WATCHED, batches)
            ordered["profile", network, *large, "float32", "contiguous"] = None
            if network in swept or not {*swept} & {*levels["network"]}:
                steps += [(batch, "float32", "contiguous") for batch in batches]
            steps += [(reference, "float32", layout) for layout in layouts]
        steps += [(reference, precision, "contiguous") for precision in precisions]
        ordered |= {("training", network, min(images), *step): None for step in steps}
    names = ("subject", "network", "image", "batch", "precision", "layout")
    every = (dict(zip(names, values, strict=True)) for values in ordered)
    return tuple(case for case in every if case["subject"] in levels["subject"])


def _nearest(wanted: int, levels: tuple[int, ...]) -> int:
    """Return the nearest level of the plan, the smaller of two."""
    distances = [(abs(level - wanted), level) for level in levels]
    return min(distances)[1]


# ------------------------------------------------------------------------------------- measuring


def subject(factors: Factors) -> Subject:
    """Build a step of training on random images."""
    import torch

    size = int(factors["image"])
    return Subject(
        catalogue.network(str(factors["network"]), in_place=True),
        torch.randn(int(factors["batch"]), 3, size, size),
        mode="step",
        layout=factors["layout"],  # type: ignore[arg-type]
        precision=factors["precision"],  # type: ignore[arg-type]
    )


def times(factors: Factors, session: Session) -> Measured:
    """Time steps of training in this process, whole or layer by layer."""
    if factors["subject"] == "training":
        return measure_time(STUDY, factors, session)
    return profile(factors, session)


def profile(factors: Factors, session: Session) -> Measured:
    """Time the layers of successive steps, forward and backward, by the host's clock.

    Raises ``MeasurementError`` if a layer does not run once per step in both directions.
    """
    module, step = training_step(build_subject(STUDY, factors, session.device), session.device)
    step.call()  # allocates the momentum, and touches the memory
    names = [layer.name for layer in layers_of_case(STUDY, factors)]
    layers = watched(module, names)
    count = session.protocol.minimum_samples
    few = msgspec.structs.replace(session.protocol, maximum_samples=count)
    with timing.collector_off():
        series = timing.repeat_calls(step, few, timing.cpu_clock)
    for way, times in layers.items():
        if lost := [name for name in names if len(times[name]) != count]:
            recorded = f"{len(times[lost[0]])} of {count} steps were recorded"
            raise MeasurementError(
                f"Layer {lost[0]} {way}: {recorded}; experiments/training_roofline.py must learn "
                "how it is differentiated."
            )
        steps = zip(*(times[name] for name in names), strict=True)
        series[f"layer_{way}_time"] = tuple(chain.from_iterable(steps))
    return series


def watched(module: nn.Module, names: Iterable[str]) -> dict[str, dict[str, list[float]]]:
    """Return ``forward`` and ``backward`` durations (s) by layer; later steps append to them.

    Hooks surround the forward call of each layer, and the autograd node of the layer's result, so
    that no time is assigned by the order or the shapes of operators.  Conversions of weights to
    another precision belong to the layer in the forward pass only.  Sums of gradients at branches,
    and autograd's work between nodes, belong to no layer.
    """
    began: dict[str, int] = {}
    forward, backward = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)

    def enter(name: str, *arguments: object) -> None:
        began[name] = time.perf_counter_ns()

    def leave(times: dict[str, list[float]], name: str, *arguments: object) -> None:
        times[name].append((time.perf_counter_ns() - began[name]) / 1e9)

    def ended(name: str, part: nn.Module, inputs: object, output: torch.Tensor) -> None:
        leave(forward, name)
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(partial(enter, name))
            output.grad_fn.register_hook(partial(leave, backward, name))

    for name in names:
        part = module.get_submodule(name)
        part.register_forward_pre_hook(partial(enter, name))
        part.register_forward_hook(partial(ended, name))
    return {"forward": forward, "backward": backward}


# ------------------------------------------------------------------------------------------ plan


def memory(factors: Factors, session: Session) -> Measured:
    """Measure no memory on a CPU."""
    return {}


def imports(factors: Factors, session: Session) -> tuple[str, ...]:
    """Import the compiler too, which an optimizer imports whether it needs it or not."""
    return ("torch", "torch._dynamo")


_ON_CPU: Final = Study(
    subject=subject,
    factors=(
        Factor("subject", levels=("profile", "training")),
        Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
        Factor("image", levels=(64, 224), quick=(64,), any_count=True),
        Factor("batch", levels=BATCHES, quick=(2, 8), any_count=True),
        Factor("precision", levels=("float32", "bfloat16")),
        Factor("layout", levels=("contiguous", "channels_last")),
    ),
    cases=partial(cases, swept=(SWEPT,), varied=VARIED["cpu"]),
    name="training_roofline",
    question="How near does the training of a network come to what the machine can do?",
    plan=Plan(
        # A step takes up to seconds; few steps per process allow more processes.
        full=msgspec.structs.replace(
            FULL,
            warmup_calls=1,
            minimum_samples=2,
            maximum_samples=10,
            processes={"retained": 8},
            budget_s=600.0,
        ),
        quick=msgspec.structs.replace(QUICK, minimum_samples=3, maximum_samples=10),
        is_counted=no_case,
        memory=memory,
        times=times,
        imports=imports,
    ),
)
_FULL_ON_GPU: Final = msgspec.structs.replace(FULL, maximum_samples=50, processes={"retained": 8})
_ON_GPU: Final = replace(
    _ON_CPU,
    factors=(
        Factor("subject", levels=("training",)),
        Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
        Factor("image", levels=(224,), any_count=True),
        Factor("batch", levels=(8, 32, 64, 128, 256), quick=(8, 32), any_count=True),
        Factor("precision", levels=("float32", "tfloat32", "bfloat16")),
        Factor("layout", levels=("contiguous",)),
    ),
    cases=partial(cases, swept=NETWORKS, varied=VARIED["cuda"]),
    plan=replace(_ON_CPU.plan, full=_FULL_ON_GPU, memory=None),  # the harness measures memory
)
STUDY: Final = replace(_ON_CPU, on_gpu=_ON_GPU)
