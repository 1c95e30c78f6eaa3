"""Which cases the study of training measures, and in which order; pure.

A set of cases answers one question, and a case that belongs to several sets stands once in a round.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from experiments.harness.study import Factors, Levels
from report.records.record import Factor as Level

NETWORKS: Final = ("ResNet-18", "ResNet-50", "MobileNetV2")

#: The way of training that all others are compared with.
PLAIN: Final[Factors] = {
    "precision": "float32",
    "layout": "contiguous",
    "execution": "eager",
    "optimizer": "default",
}


@dataclass(frozen=True)
class Scale:
    """What fits a kind of machine.

    ``image`` and ``batch`` are those at which all but themselves is varied; ``sized_batch`` is the
    batch at which the image is varied and layers are profiled, and a quarter of it the other one at
    which the largest images are trained on.  ``ladder`` is what each of its
    steps changes, one after the other; only the ``laddered`` networks climb it, since compiling
    takes long, unless none of them is asked for.
    """

    image: int
    batch: int
    sized_batch: int
    ladder: tuple[Factors, ...]
    laddered: tuple[str, ...]


CPU: Final = Scale(
    image=64,
    batch=32,
    sized_batch=8,
    ladder=(
        {},
        {"precision": "bfloat16"},
        {"layout": "channels_last"},
        {"execution": "compiled"},
        {"optimizer": "fused"},
    ),
    laddered=("ResNet-18",),
)
GPU: Final = Scale(
    image=224,
    batch=128,
    sized_batch=64,
    ladder=(
        {},
        {"precision": "tfloat32"},
        {"precision": "bfloat16"},
        {"layout": "channels_last"},
        {"execution": "compiled"},
        {"optimizer": "fused"},
        {"execution": "compiled_cuda_graph"},
    ),
    laddered=("ResNet-50",),
)
#: The ways in which layers are profiled, and in which the largest images are trained on.
_WAYS: Final[tuple[Factors, ...]] = (
    PLAIN,
    {**PLAIN, "precision": "bfloat16", "layout": "channels_last"},
)


def cases(levels: Levels, scale: Scale) -> tuple[Factors, ...]:
    """Profiles, and training."""
    return (*_profiles(levels, scale), *_trainings(levels, scale))


def _profiles(levels: Levels, scale: Scale) -> Iterator[Factors]:
    if "profile" not in levels["sweep"] or "folder" in levels["dataset"]:
        return
    image, batch = max(levels["image"]), _nearest(scale.sized_batch, levels["batch"])
    for network in levels["network"]:
        for way in _WAYS:
            if _possible(way, levels):
                yield {
                    "subject": "profile",
                    "network": network,
                    "image": image,
                    "batch": batch,
                    "precision": way["precision"],
                    "layout": way["layout"],
                }


def _trainings(levels: Levels, scale: Scale) -> tuple[Factors, ...]:
    """The cases network by network; what is compared stands close together."""
    found = [
        {"subject": "training", "network": network, **case}
        for network in levels["network"]
        for name, make in _SETS.items()
        if name in levels["sweep"] and _has(name, network, levels, scale)
        for case in make(levels, scale)
        if _possible(case, levels)
    ]
    # A dictionary keeps the first of equal ones, in order.
    return tuple({tuple(case.items()): case for case in found}.values())


def _has(name: str, network: Level, levels: Levels, scale: Scale) -> bool:
    """Whether a network is measured in a set; photographs only in that of batches."""
    if "folder" in levels["dataset"]:
        return name == "batch"
    climbing = set(scale.laddered) & set(levels["network"])
    return name != "ladder" or not climbing or network in climbing


def _batch_set(levels: Levels, scale: Scale) -> Iterator[Factors]:
    image = _nearest(scale.image, levels["image"])
    for batch in levels["batch"]:
        yield _training(image, batch, PLAIN)
        if "folder" in levels["dataset"]:
            for workers in levels["workers"]:
                yield {**_training(image, batch, PLAIN), "dataset": "folder", "workers": workers}


def _precision_set(levels: Levels, scale: Scale) -> Iterator[Factors]:
    image, batch = _reference(levels, scale)
    for precision in levels["precision"]:
        for layout in levels["layout"]:
            yield _training(image, batch, {**PLAIN, "precision": precision, "layout": layout})


def _image_set(levels: Levels, scale: Scale) -> Iterator[Factors]:
    batch = _nearest(scale.sized_batch, levels["batch"])
    for image in levels["image"]:
        if image != max(levels["image"]):
            yield _training(image, batch, PLAIN)
            continue
        yield _training(image, _nearest(scale.sized_batch // 4, levels["batch"]), PLAIN)
        yield from (_training(image, batch, way) for way in _WAYS)


def _ladder_set(levels: Levels, scale: Scale) -> Iterator[Factors]:
    image, batch = _reference(levels, scale)
    way = PLAIN
    for change in scale.ladder:
        way = {**way, **change}
        yield _training(image, batch, way)


_SETS: Final = {
    "batch": _batch_set,
    "precision": _precision_set,
    "image": _image_set,
    "ladder": _ladder_set,
}


def _training(image: Level, batch: Level, way: Factors) -> Factors:
    return {"image": image, "batch": batch, **way, "dataset": "synthetic"}


def _reference(levels: Levels, scale: Scale) -> tuple[Level, Level]:
    return _nearest(scale.image, levels["image"]), _nearest(scale.batch, levels["batch"])


def _nearest(wanted: int, levels: tuple[Level, ...]) -> int:
    """The level of the plan that comes nearest, the smaller of two."""
    return min((int(level) for level in levels), key=lambda level: (abs(level - wanted), level))


def _possible(case: Factors, levels: Levels) -> bool:
    """Whether a case keeps to the levels that are asked for."""
    return all(case[name] in levels[name] for name in PLAIN)


#: What ``--set sweep`` can choose.
SWEEPS: Final = ("profile", *_SETS)
