"""Training rates of networks, compared with the ceilings (measured peak rates) of the machine.

Networks for images of the ImageNet shape are trained on random images by stochastic gradient
descent with momentum, as in PyTorch's ImageNet example.  Factors:

- ``subject``: ``training`` times whole steps; ``profile`` times steps layer by layer; ``loading``
  times steps on images from PyTorch's loader.
- ``network``, ``image`` (pixels per side), ``batch`` (images per step).
- ``precision``: precision of the arithmetic; weights, gradients and momentum are float32.
  ``tfloat32`` is a mode of NVIDIA's tensor cores, ``bfloat16`` is torch's autocast around the
  forward pass and the loss.
- ``layout``: order of images, maps and weights in memory (NCHW or NHWC).
- ``files``: shorter side of the loaded files in pixels, ``none`` for images in memory.

ReLUs overwrite their input, as in torchvision.  Except for ``loading``, the images are in memory
before a step is timed.  On a CPU every network is profiled on images of the largest size.  On
images of the smallest size, one network is trained at all batches, and every network in each
precision and each layout at one batch.  On a GPU all networks are trained at all batches, and their
memory is measured.

With ``loading``, one core trains in place of a GPU, and the loader's four workers share the other
cores.  Images are so small, and most files so large, that the ratio of the core's speed to the
loader's is about that of a GPU.  The network ``none`` does nothing, so that the loader is alone.

On one thread PyTorch computes 1×1 convolutions without oneDNN if a batch has fewer than 16 images
(``use_mkldnn`` in Convolution.cpp), so profiles have 16 images.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import chain, repeat
from typing import TYPE_CHECKING, Final

import msgspec

from experiments import image_loader
from experiments.harness import measure, study, timing
from experiments.networks import catalogue
from report.core.errors import MeasurementError
from report.core.records.record import Factors, Level, SeriesByQuantity

if TYPE_CHECKING:
    import torch
    from torch import nn

NETWORKS: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")
#: The network that a CPU trains at all batches.
SWEPT_NETWORK: Final = "ResNet-50"
BATCHES: Final = (1, 2, 4, 8, 16, 32)
#: Batch size of profiles and of steps on loaded images.
PROFILE_BATCH: Final = 16
#: Device → batch size at which precision and layout vary.
REFERENCE_BATCH: Final = {"cpu": 32, "cuda": 128}
#: Timed steps of training on loaded images.
LOADED_STEPS: Final = 20
#: Warm-up steps before the timed steps on loaded images.
LOADED_WARMUP: Final = 8
#: Cases with the subject ``loading``, as (network, pixels per side of an image, files).
LOADED: Final = (
    ("none", 32, "320"), ("none", 32, "1080"), ("none", 224, "320"), ("ResNet-18", 32, "none"),
    ("ResNet-18", 32, "320"), ("ResNet-18", 32, "1080"), ("ResNet-50", 32, "none"),
    ("ResNet-50", 32, "1080"),
)  # fmt: skip


def cases(levels: study.Levels, swept: tuple[str, ...], reference: int) -> tuple[Factors, ...]:
    """List the cases of all subjects in ``levels``.

    The networks ``swept`` are trained at all batch sizes, or all networks if ``levels`` contains
    none of ``swept``.  Precision and layout vary at the batch size nearest to ``reference``.
    """
    images = tuple(map(int, levels["image"]))
    batches = tuple(map(int, levels["batch"]))
    layouts, precisions = levels["layout"], levels["precision"]
    reference = _nearest(reference, batches)
    profile_batch = _nearest(PROFILE_BATCH, batches)
    # Keys are the values of the factors ``names``.  A dictionary drops duplicates, but keeps order.
    names = ("subject", "network", "image", "batch", "precision", "layout")
    distinct: dict[tuple[Level, ...], None] = {}
    for network in levels["network"]:
        steps: list[tuple[Level, ...]] = []
        if "float32" in precisions:
            profile = ("profile", network, max(images), profile_batch, "float32", "contiguous")
            distinct[profile] = None
            if network in swept or not {*swept} & {*levels["network"]}:
                steps += [(batch, "float32", "contiguous") for batch in batches]
            steps += [(reference, "float32", layout) for layout in layouts]
        steps += [(reference, precision, "contiguous") for precision in precisions]
        for step in steps:
            distinct["training", network, min(images), *step] = None
    listed: list[Factors] = [dict(zip(names, values, strict=True)) for values in distinct]
    loading: Factors = {"subject": "loading", "batch": PROFILE_BATCH}
    for network, image, files in LOADED:
        if network == "none" or network in levels["network"]:
            listed.append({**loading, "network": network, "image": image, "files": files})
    return tuple(case for case in listed if case["subject"] in levels["subject"])


def _nearest(wanted: int, levels: tuple[int, ...]) -> int:
    """Return the level nearest to ``wanted``; the smaller level if two levels are equally near."""
    return min(levels, key=lambda level: (abs(level - wanted), level))


def subject(factors: Factors) -> study.Subject:
    """Build a training step on random images; the network ``none`` does nothing."""
    import torch

    size, network = int(factors["image"]), str(factors["network"])
    images = torch.randn(int(factors["batch"]), 3, size, size)
    if network == "none":
        return study.Subject(torch.nn.Flatten(), images, mode=lambda: None)
    return study.Subject(
        catalogue.build_network(network, change="in_place"),
        images,
        mode="step",
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
    )


def times(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time training steps in this process: whole, layer by layer, or on loaded images."""
    if factors["subject"] == "training":
        return measure.measure_time(STUDY, factors, session)
    if factors["subject"] == "loading":
        return time_loading(factors, session)
    return time_layers(factors, session)


def time_loading(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time successive steps and their wait for images, as PyTorch's ImageNet example does.

    A step begins at the end of the previous step; it waits for a batch, copies it, and trains.
    """
    built = measure.build_subject(STUDY, factors, session.device)
    if callable(built.mode):  # the network ``none``
        train = timing.Workload(built.mode)
    else:
        _, train = measure.training_step(built, session.device)
    steps = LOADED_WARMUP + LOADED_STEPS
    # So many batches that all workers have work until the last timed step.
    count = steps + 2 * image_loader.WORKERS * image_loader.AHEAD
    with ExitStack() as stack:
        batches: Iterator[torch.Tensor] = repeat(built.inputs)
        if factors["files"] != "none":
            side, image, batch = (int(factors[name]) for name in ("files", "image", "batch"))
            batches = stack.enter_context(image_loader.batches(side, image, batch, count))
        durations_s, waits_s, end = [], [], time.perf_counter_ns()
        for _ in range(steps):
            begin, images = end, next(batches)
            received = time.perf_counter_ns()
            built.inputs.copy_(images)
            train.once()
            end = time.perf_counter_ns()
            durations_s.append((end - begin) / 1e9)
            waits_s.append((received - begin) / 1e9)
    return {
        "time": tuple(durations_s[LOADED_WARMUP:]),
        "loading_time": tuple(waits_s[LOADED_WARMUP:]),
    }


def time_layers(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time the layers of successive steps, forward and backward, by the host's clock.

    Raises ``MeasurementError`` if a layer does not run once per step in both directions.
    """
    built = measure.build_subject(STUDY, factors, session.device)
    module, step = measure.training_step(built, session.device)
    step.call()  # allocates the momentum, and maps the memory
    names = [layer.name for layer in measure.layers_of_case(STUDY, factors)]
    durations_by_direction = _add_timing_hooks(module, names)
    count = session.protocol.minimum_samples
    short_protocol = msgspec.structs.replace(session.protocol, maximum_samples=count)
    with timing.garbage_collection_off():
        series = timing.repeat_calls(step, short_protocol, timing.cpu_clock)
    for direction, durations in durations_by_direction.items():
        for name in names:
            if len(durations[name]) != count:
                raise MeasurementError(
                    f"Layer {name} {direction}: {len(durations[name])} of {count} steps were "
                    "recorded; the hooks in experiments/training_roofline.py cannot time it; add a "
                    "case for it there."
                )
        steps = zip(*(durations[name] for name in names), strict=True)
        # All layers of the first step, then all layers of the second step, and so on.
        series[f"layer_{direction}_time"] = tuple(chain.from_iterable(steps))
    return series


def _add_timing_hooks(module: nn.Module, names: Iterable[str]) -> dict[str, dict[str, list[float]]]:
    """Add hooks that append each layer's forward and backward durations (s) to the returned lists.

    The result maps direction (``forward``, ``backward``) → layer → list.  Hooks surround each
    layer's forward call and the autograd node of its result, so that no time is inferred from
    the order or shapes of operators.  A layer's forward time includes the conversion of its weights
    to another precision; its backward time does not.  Sums of gradients at branches, and autograd's
    work between nodes, belong to no layer.
    """
    starts: dict[str, int] = {}
    forward, backward = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)

    def start_timer(name: str, *arguments: object) -> None:
        starts[name] = time.perf_counter_ns()

    def stop_timer(durations: dict[str, list[float]], name: str, *arguments: object) -> None:
        durations[name].append((time.perf_counter_ns() - starts[name]) / 1e9)

    def after_forward(name: str, layer: nn.Module, inputs: object, output: torch.Tensor) -> None:
        stop_timer(forward, name)
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(partial(start_timer, name))
            output.grad_fn.register_hook(partial(stop_timer, backward, name))

    for name in names:
        layer = module.get_submodule(name)
        layer.register_forward_pre_hook(partial(start_timer, name))
        layer.register_forward_hook(partial(after_forward, name))
    return {"forward": forward, "backward": backward}


def memory(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Return no series, because memory is not measured on a CPU."""
    return {}


# A step can take seconds, so that each process times few steps, which allows more processes.
_FULL: Final = msgspec.structs.replace(
    study.FULL,
    warmup_calls=1,
    minimum_samples=2,
    maximum_samples=10,
    processes={"retained": 8},
    budget_s=600.0,
)
_FULL_ON_GPU: Final = msgspec.structs.replace(
    study.FULL, maximum_samples=50, processes={"retained": 8}
)
_PLAN: Final = study.Plan(
    full=_FULL,
    quick=msgspec.structs.replace(study.QUICK, minimum_samples=3, maximum_samples=10),
    counts_work=False,
    memory=memory,
    times=times,
    # Every optimizer imports torch's compiler.
    imports=("torch", "torch._dynamo"),
)
STUDY: Final = study.Experiment(
    subject=subject,
    factors=(
        study.Factor(
            "subject", levels=("profile", "training", "loading"), quick=("profile", "training")
        ),
        study.Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
        study.Factor("image", levels=(64, 224), quick=(64,), any_count=True),
        study.Factor("batch", levels=BATCHES, quick=(2, 8), any_count=True),
        study.Factor("precision", levels=("float32", "bfloat16")),
        study.Factor("layout", levels=("contiguous", "channels_last")),
    ),
    cases=partial(cases, swept=(SWEPT_NETWORK,), reference=REFERENCE_BATCH["cpu"]),
    name="training_roofline",
    question="How near does the training of a network come to what the machine can do?",
    plan=_PLAN,
).with_gpu(
    factors=(
        study.Factor("subject", levels=("training",)),
        study.Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
        study.Factor("image", levels=(224,), any_count=True),
        study.Factor("batch", levels=(8, 32, 64, 128, 256), quick=(8, 32), any_count=True),
        study.Factor("precision", levels=("float32", "tfloat32", "bfloat16")),
        study.Factor("layout", levels=("contiguous",)),
    ),
    cases=partial(cases, swept=NETWORKS, reference=REFERENCE_BATCH["cuda"]),
    plan=replace(_PLAN, full=_FULL_ON_GPU, memory=None),  # the harness measures memory
)
