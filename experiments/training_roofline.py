"""How near the training of a network comes to what the machine can do.

Networks for images of the ImageNet shape are trained on random images by stochastic gradient
descent with momentum, as in PyTorch's ImageNet example.  Factors:

- ``subject``: ``training`` are steps of training; ``profile`` is a step timed layer by layer.
- ``network``, ``image`` (pixels a side), ``batch`` (images a step).
- ``precision``: of the arithmetic; weights, gradients and momentum are float32 in all.
  ``tfloat32`` is a mode of NVIDIA's tensor cores, ``bfloat16`` is torch's autocast around the
  forward pass and the loss.
- ``layout``: how images, maps and weights lie in memory (NCHW or NHWC).

A step drops the gradients, then goes forward through network and cross entropy, backward, and
updates the parameters; ReLUs overwrite their input, as torchvision's do.  Its images are in memory
before it is timed.  Labels are drawn anew before each step: a network learns one batch by heart
within a few steps, and its gradients vanish.

On a CPU every network is profiled on images of the largest size; on images of the smallest size
one is trained over all batches, and all of them in each precision and each layout.  On a GPU all
networks are trained over all batches, and their memory is measured.

On one thread PyTorch leaves convolutions of one tap to another library than oneDNN where a batch
has fewer than 16 images (``use_mkldnn`` in its Convolution.cpp), so that profiles have that many.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable
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
    Session,
    Study,
    Subject,
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
#: The batch of profiles, and the one at which the precision is varied.
WATCHED: Final = 16
VARIED: Final = {"cpu": 32, "cuda": 128}


# ----------------------------------------------------------------------------------------- cases


def cases(levels: Levels, swept: tuple[str, ...], varied: int) -> tuple[Factors, ...]:
    """Every case once: ``swept`` networks over all batches, precisions at the batch ``varied``."""
    images, batches = (tuple(map(int, levels[name])) for name in ("image", "batch"))
    layouts, precisions = levels["layout"], levels["precision"]
    reference = _nearest(varied, batches)
    found: dict[tuple[Level, ...], None] = {}  # each once, in this order
    for network in levels["network"]:
        steps: list[tuple[Level, ...]] = []
        if "float32" in precisions:
            large = max(images), _nearest(WATCHED, batches)
            found["profile", network, *large, "float32", "contiguous"] = None
            if network in swept or not {*swept} & {*levels["network"]}:
                steps += [(batch, "float32", "contiguous") for batch in batches]
            steps += [(reference, "float32", layout) for layout in layouts]
        steps += [(reference, precision, "contiguous") for precision in precisions]
        found |= {("training", network, min(images), *step): None for step in steps}
    names = ("subject", "network", "image", "batch", "precision", "layout")
    every = (dict(zip(names, values, strict=True)) for values in found)
    return tuple(case for case in every if case["subject"] in levels["subject"])


def _nearest(wanted: int, levels: tuple[int, ...]) -> int:
    """The level of the plan that comes nearest, the smaller of two."""
    return min(levels, key=lambda level: (abs(level - wanted), level))


# ------------------------------------------------------------------------------------- measuring


def subject(factors: Factors) -> Subject:
    """A step of training on random images."""
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
    """Steps of training, timed in this process, whole or layer by layer."""
    if factors["subject"] == "training":
        return measure_time(STUDY, factors, session)
    return profile(factors, session)


def profile(factors: Factors, session: Session) -> Measured:
    """Steps whose layers are timed, forward and backward, by the host's clock, step after step.

    Raises ``MeasurementError`` if a layer did not run once a step in both directions.
    """
    module, step = training_step(build_subject(STUDY, factors, session.device), session.device)
    step.call()  # makes the momentum, and touches the memory
    names = [layer.name for layer in layers_of_case(STUDY, factors)]
    layers = watched(module, names)
    count = session.protocol.minimum_samples
    few = msgspec.structs.replace(session.protocol, maximum_samples=count)
    with timing.collector_off():
        found = timing.repeat_calls(step, few, timing.cpu_clock)
    for way, times in layers.items():
        if lost := [name for name in names if len(times[name]) != count]:
            seen = f"{len(times[lost[0]])} of {count} steps were seen"
            raise MeasurementError(
                f"Layer {lost[0]} {way}: {seen}; experiments/training_roofline.py must learn how "
                "it is differentiated."
            )
        steps = zip(*(times[name] for name in names), strict=True)
        found[f"layer_{way}_time"] = tuple(chain.from_iterable(steps))
    return found


def watched(module: nn.Module, names: Iterable[str]) -> dict[str, dict[str, list[float]]]:
    """``forward`` and ``backward`` durations (s) by layer, which further steps add to.

    Hooks stand around the forward call of each layer, and around the node of automatic
    differentiation that its result came from, so that nothing is guessed from the order or the
    shapes of operators.  Conversions of weights to another precision lie inside the layer forward,
    and outside of it backward; the sum of two gradients where ways fork, and what autograd does
    between its nodes, belong to no layer.
    """
    began: dict[str, int] = {}
    forward, backward = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)

    def enter(name: str, *given: object) -> None:
        began[name] = time.perf_counter_ns()

    def leave(found: dict[str, list[float]], name: str, *given: object) -> None:
        found[name].append((time.perf_counter_ns() - began[name]) / 1e9)

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

STUDY: Final = Study(
    name="training_roofline",
    question="How near does the training of a network come to what the machine can do?",
    factors=(
        Factor("subject", levels=("profile", "training")),
        Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
        Factor("image", levels=(64, 224), quick=(64,), any_count=True),
        Factor("batch", levels=BATCHES, quick=(2, 8), any_count=True),
        Factor("precision", levels=("float32", "bfloat16")),
        Factor("layout", levels=("contiguous", "channels_last")),
    ),
    subject=subject,
    cases=partial(cases, swept=(SWEPT,), varied=VARIED["cpu"]),
    memory=lambda factors, session: {},  # only on a GPU
    times=times,
    is_counted=lambda factors: False,
    # An optimizer imports the compiler, whether it is used or not.
    imports=lambda factors, session: ("torch", "torch._dynamo"),
    # A step takes up to seconds: fewer of them in a process leave time for more processes.
    full=msgspec.structs.replace(
        FULL,
        warmup_calls=1,
        minimum_samples=2,
        maximum_samples=10,
        processes={"retained": 8},
        budget_s=600.0,
    ),
    quick=msgspec.structs.replace(
        QUICK, minimum_samples=3, maximum_samples=10, processes={"retained": 2}
    ),
    on_gpu={
        "factors": (
            Factor("subject", levels=("training",)),
            Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
            Factor("image", levels=(224,), any_count=True),
            Factor("batch", levels=(8, 32, 64, 128, 256), quick=(8, 32), any_count=True),
            Factor("precision", levels=("float32", "tfloat32", "bfloat16")),
            Factor("layout", levels=("contiguous",)),
        ),
        "cases": partial(cases, swept=NETWORKS, varied=VARIED["cuda"]),
        "memory": None,  # as the harness does it
        "full": msgspec.structs.replace(FULL, maximum_samples=50, processes={"retained": 8}),
    },
)
