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

``loading`` is steps of training on images that PyTorch's loader brings, on a CPU.  Their factors
are the ``network`` (``none`` for the loader alone), ``image``, ``batch``, and ``files``, the
shorter side of the files in pixels (``none`` for images in memory).  One core trains and the
loader's four workers share the others, as beside a GPU.  Images are so small, and most files so
large, that this core is about as fast in relation to the loader as a GPU is.

On one thread PyTorch computes convolutions of one tap without oneDNN if a batch has fewer than 16
images (``use_mkldnn`` in Convolution.cpp), so profiles have 16.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

import msgspec

from experiments import image_loader
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
    Experiment,
    Factor,
    Levels,
    Plan,
    Session,
    Subject,
)
from experiments.networks import catalogue
from report.core.errors import MeasurementError
from report.core.records.record import Factors, Level, SeriesByQuantity

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
#: Steps of training on loaded images whose times are samples, and those before them.
LOADED_STEPS: Final = 20
LOADED_WARMUP: Final = 8
#: Network, image and files of each case of loading; 16 images a step.
LOADED: Final = (
    ("none", 32, "320"),
    ("none", 32, "1080"),
    ("none", 224, "320"),
    ("ResNet-18", 32, "none"),
    ("ResNet-18", 32, "320"),
    ("ResNet-18", 32, "1080"),
    ("ResNet-50", 32, "none"),
    ("ResNet-50", 32, "1080"),
)


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
    every = [dict(zip(names, values, strict=True)) for values in ordered]
    loaded: Factors = {"subject": "loading", "batch": WATCHED}
    for network, image, files in LOADED:
        if network == "none" or network in levels["network"]:
            every.append({**loaded, "network": network, "image": image, "files": files})
    return tuple(case for case in every if case["subject"] in levels["subject"])


def _nearest(wanted: int, levels: tuple[int, ...]) -> int:
    """Return the nearest level of the plan, the smaller of two."""
    distances = [(abs(level - wanted), level) for level in levels]
    return min(distances)[1]


# ------------------------------------------------------------------------------------- measuring


def subject(factors: Factors) -> Subject:
    """Build a step of training on random images."""
    import torch

    size, network = int(factors["image"]), str(factors["network"])
    images = torch.randn(int(factors["batch"]), 3, size, size)
    if network == "none":
        return Subject(torch.nn.Flatten(), images, mode=lambda: None)
    return Subject(
        catalogue.network(network, in_place=True),
        images,
        mode="step",
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
    )


def times(factors: Factors, session: Session) -> SeriesByQuantity:
    """Time steps of training in this process, whole or layer by layer."""
    if factors["subject"] == "training":
        return measure_time(STUDY, factors, session)
    measure = loading if factors["subject"] == "loading" else profile
    return measure(factors, session)


def loading(factors: Factors, session: Session) -> SeriesByQuantity:
    """Time successive steps with their wait for images, as PyTorch's ImageNet example does."""
    subject = build_subject(STUDY, factors, session.device)
    if callable(subject.mode):
        train = timing.Workload(subject.mode)
    else:
        train = training_step(subject, session.device)[1]
    if factors["files"] == "none":
        return _in_turn(repeat(subject.inputs), subject.inputs, train)
    # More batches than are timed, so that no worker runs out of work before the others.
    count = LOADED_WARMUP + LOADED_STEPS + 2 * image_loader.WORKERS * image_loader.AHEAD
    side, image, batch = (int(factors[name]) for name in ("files", "image", "batch"))
    with image_loader.batches(side, image, batch, count) as loaded:
        return _in_turn(loaded, subject.inputs, train)


def _in_turn(
    loaded: Iterator[torch.Tensor], inputs: torch.Tensor, train: timing.Workload
) -> SeriesByQuantity:
    """Copy each loaded batch into ``inputs`` and train; time each step from the last one's end."""
    durations, waits, end = [], [], time.perf_counter_ns()
    for _ in range(LOADED_WARMUP + LOADED_STEPS):
        begin, images = end, next(loaded)
        received = time.perf_counter_ns()
        inputs.copy_(images)
        train.once()
        end = time.perf_counter_ns()
        durations.append((end - begin) / 1e9)
        waits.append((received - begin) / 1e9)
    return {
        "time": tuple(durations[LOADED_WARMUP:]),
        "loading_time": tuple(waits[LOADED_WARMUP:]),
    }


def profile(factors: Factors, session: Session) -> SeriesByQuantity:
    """Time the layers of successive steps, forward and backward, by the host's clock.

    Raises ``MeasurementError`` if a layer does not run once per step in both directions.
    """
    module, step = training_step(build_subject(STUDY, factors, session.device), session.device)
    step.call()  # allocates the momentum, and touches the memory
    names = [layer.name for layer in layers_of_case(STUDY, factors)]
    layers = _add_timing_hooks(module, names)
    count = session.protocol.minimum_samples
    short_protocol = msgspec.structs.replace(session.protocol, maximum_samples=count)
    with timing.collector_off():
        series = timing.repeat_calls(step, short_protocol, timing.cpu_clock)
    for direction, times in layers.items():
        if incomplete := [name for name in names if len(times[name]) != count]:
            recorded = f"{len(times[incomplete[0]])} of {count} steps were recorded"
            raise MeasurementError(
                f"Layer {incomplete[0]} {direction}: {recorded}; the hooks in "
                "experiments/training_roofline.py cannot time it; add a case for it there."
            )
        steps = zip(*(times[name] for name in names), strict=True)
        series[f"layer_{direction}_time"] = tuple(chain.from_iterable(steps))
    return series


def _add_timing_hooks(module: nn.Module, names: Iterable[str]) -> dict[str, dict[str, list[float]]]:
    """Add hooks that append forward and backward durations (s) to the returned lists by layer.

    Hooks surround the forward call of each layer, and the autograd node of the layer's result, so
    that every time is measured at its layer, not inferred from the order or shapes of operators.
    Conversions of weights to another precision belong to the layer in the forward pass only.  Sums
    of gradients at branches, and autograd's work between nodes, belong to no layer.
    """
    began: dict[str, int] = {}
    forward, backward = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)

    def enter(name: str, *arguments: object) -> None:
        began[name] = time.perf_counter_ns()

    def leave(times: dict[str, list[float]], name: str, *arguments: object) -> None:
        times[name].append((time.perf_counter_ns() - began[name]) / 1e9)

    def after_forward(name: str, part: nn.Module, inputs: object, output: torch.Tensor) -> None:
        leave(forward, name)
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(partial(enter, name))
            output.grad_fn.register_hook(partial(leave, backward, name))

    for name in names:
        part = module.get_submodule(name)
        part.register_forward_pre_hook(partial(enter, name))
        part.register_forward_hook(partial(after_forward, name))
    return {"forward": forward, "backward": backward}


# ------------------------------------------------------------------------------------------ plan


def memory(factors: Factors, session: Session) -> SeriesByQuantity:
    """Measure no memory on a CPU."""
    return {}


_ON_CPU: Final = Experiment(
    subject=subject,
    factors=(
        Factor("subject", levels=("profile", "training", "loading"), quick=("profile", "training")),
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
        is_counted=False,
        memory=memory,
        times=times,
        # An optimizer imports the compiler, whether it needs it or not.
        imports=("torch", "torch._dynamo"),
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
