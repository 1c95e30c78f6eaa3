"""The cases of ``experiments.inference_memory``: sets of them, one a question; pure.

A case is found by what it is: the same network at the same batch belongs to several sets and is
measured once.  Cases that are compared with each other run one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Final, TypeAlias

from experiments.harness.study import Factors, Levels
from report.records.record import Factor as Level

Sweep: TypeAlias = Callable[[Levels], Iterator[Factors]]

RESNETS: Final = ("ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110")
NETWORKS: Final = ("LeNet-5", "CIFAR", "AlexNet", "ZFNet", "VGG-16", *RESNETS)
LAYOUTS: Final = ("contiguous", "channels_last")
PRECISIONS: Final = ("float32", "bfloat16", "float16")
TILED: Final = ("tiled_layers", "tiled_blocks", "tiled_stages")
EXECUTIONS: Final = ("eager", "folded", "compiled", *TILED)
BATCHES: Final = tuple(2**n for n in range(11))
TILES: Final = (8, 16, 32, 64)

#: The largest batch of the plan; of the others only memory is measured, at few batches.
LARGEST: Final = {"LeNet-5": 1024, "CIFAR": 1024, "AlexNet": 128} | dict.fromkeys(RESNETS, 1024)
MEMORY_ONLY: Final = {"ZFNet": (1, 8, 32), "VGG-16": (1, 8)}
#: A case that runs out of memory on a machine with 24 GiB: three maps of 8.2 GB at once.
TOO_LARGE: Final = ("VGG-16", 640)
#: On a GPU the peak is asked for at these batches, and of some networks until memory is exhausted.
PEAK_BATCHES: Final = (64, 128, 256, 512, 1024)
EXHAUSTING: Final = {
    "LeNet-5": (4096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304),
    "AlexNet": (2048, 4096, 8192, 16_384, 32_768, 65_536),
    "VGG-16": (2048, 4096),
    "ResNet-20": (2048, 4096, 16_384, 65_536, 262_144, 524_288),
}
LEVELS: Final = tuple(sorted((*BATCHES, TOO_LARGE[1])))
#: A processor takes seconds where a GPU takes milliseconds: every other size, and times only up to
#: the size from which on they grow with every image alike.
LEVELS_ON_CPU: Final = (1, 2, 8, 16, 64, 256, TOO_LARGE[1])
TIMED_ON_CPU: Final = 64
#: Its calls of more images take seconds each.
ALEXNET_TIMED_ON_CPU: Final = 8

#: What a tile costs shows in a small batch as in a large one, in a quarter of the time.
TILING: Final = ("ResNet-20", 224, 2)
FUSION: Final = {"LeNet-5": (1, 64), "AlexNet": (8,), "ResNet-20": (1, 64), "ResNet-110": (1, 64)}
#: ResNet-110 is not compiled: that takes a minute.
COMPILED: Final = frozenset({"LeNet-5", "AlexNet", "ResNet-20"})
#: Networks of the published comparison, each at a small batch.
BEST: Final = {"LeNet-5": 64, "CIFAR": 64, "AlexNet": 8, "ZFNet": 8, "VGG-16": 2}
#: Left out, since compiling takes long and the other layout suits bfloat16 better.
NOT_COMPILED: Final = ("compiled", "bfloat16", "contiguous")
#: LeNet-5 has neither a normalisation nor a ReLU.
NOT_FOLDED: Final = frozenset({"LeNet-5"})
LIMITED: Final = ("ResNet-20", "ResNet-110", "AlexNet")
LIMITED_FROM: Final = 64

_IMAGENET: Final = frozenset({"AlexNet", "ZFNet", "VGG-16"})
_SUBJECTS: Final = ("matrix_product", "inference", "accuracy")
PRODUCT_SIDE: Final = 2048


def cases(levels: Levels) -> tuple[Factors, ...]:
    """The cases of the sets that ``levels["sweep"]`` names, each once, without other levels."""
    return _cases(levels, SWEEPS)


def cases_on_gpu(levels: Levels) -> tuple[Factors, ...]:
    """The same for a GPU."""
    return _cases(levels, SWEEPS_ON_GPU)


def _cases(levels: Levels, sweeps: dict[str, Sweep]) -> tuple[Factors, ...]:
    found = {
        frozenset(case.items()): case
        for name, made in sweeps.items()
        if name in levels["sweep"]
        for case in made(levels)
        if made is _peaks or _is_asked_for(case, levels)
    }
    return tuple(sorted(found.values(), key=_place))


def _is_asked_for(case: Factors, levels: Levels) -> bool:
    return all(level in levels[name] for name, level in case.items() if name in levels)


def _place(case: Factors) -> tuple[int, ...]:
    """Where a case stands in a run: what is compared stands together."""
    return (
        _SUBJECTS.index(str(case["subject"])),
        NETWORKS.index(str(case.get("network", NETWORKS[0]))),
        int(case.get("image", 0)),
        int(case.get("memory_limit", 0)),
        int(case.get("batch", 0)),
        EXECUTIONS.index(str(case.get("execution", "eager"))),
        int(case.get("tile", 0)),
        PRECISIONS.index(str(case.get("precision", "float32"))),
        LAYOUTS.index(str(case.get("layout", "contiguous"))),
    )


def inference(
    network: Level,
    batch: Level,
    layout: Level = "contiguous",
    precision: Level = "float32",
    execution: Level = "eager",
    **more: Level,
) -> Factors:
    """One call of a network; ``more`` are ``image``, ``tile`` and ``memory_limit``."""
    return {
        "subject": "inference",
        "network": network,
        "image": more.pop("image", 224 if network in _IMAGENET else 32),
        "batch": batch,
        "layout": layout,
        "precision": precision,
        "execution": execution,
        **more,
    }


def _batches(network: Level, levels: Levels) -> Sequence[int]:
    """The batches of a network: those of the plan up to its largest, others as asked for."""
    name = str(network)
    planned = MEMORY_ONLY.get(name) or [b for b in BATCHES if b <= LARGEST[name]]
    return [batch for batch in _asked(levels) if batch in planned or batch not in BATCHES]


def _asked(levels: Levels) -> list[int]:
    """Batches for every network."""
    return [int(batch) for batch in levels["batch"] if batch != TOO_LARGE[1]]


def _batch(levels: Levels) -> Iterator[Factors]:
    for network in levels["network"]:
        for batch, layout in product(_batches(network, levels), LAYOUTS):
            yield inference(network, batch, layout)
    yield inference(*TOO_LARGE)


def deepest(levels: Levels) -> str | None:
    """The deepest residual network among the levels, which reduced precision is tried on."""
    return next((name for name in reversed(RESNETS) if name in levels["network"]), None)


def _precision(levels: Levels) -> Iterator[Factors]:
    for precision in PRECISIONS[:2]:
        yield {"subject": "matrix_product", "precision": precision, "side": PRODUCT_SIDE}
    network = deepest(levels)
    if network is None:
        return
    for batch, precision in product(_asked(levels), PRECISIONS):
        yield inference(network, batch, precision=precision)
    for dataset in levels["dataset"]:
        named = {"network": network, "dataset": dataset}
        for precision in PRECISIONS:
            yield {"subject": "accuracy", **named, "precision": precision}


def _amp_layout(levels: Levels) -> Iterator[Factors]:
    """At the largest batch, and at the largest that is timed everywhere."""
    largest = max(_asked(levels), default=0)
    batches = dict.fromkeys((min(largest, TIMED_ON_CPU), largest))
    for network, batch, precision, layout in product(RESNETS, batches, PRECISIONS[:2], LAYOUTS):
        yield inference(network, batch, layout, precision)


def _tiling(levels: Levels) -> Iterator[Factors]:
    network, image, batch = TILING
    yield inference(network, batch, image=image)
    for form, tile in product(TILED, TILES):
        yield inference(network, batch, execution=form, image=image, tile=tile)


def _fusion(levels: Levels) -> Iterator[Factors]:
    for network, batches in FUSION.items():
        for batch in batches:
            for layout, execution in product(LAYOUTS, _foldings(network)):
                yield inference(network, batch, layout, execution=execution)
            if network in COMPILED:
                yield inference(network, batch, execution="compiled")


def _foldings(network: str) -> tuple[str, ...]:
    return ("eager",) if network in NOT_FOLDED else ("eager", "folded")


def _best(levels: Levels) -> Iterator[Factors]:
    for network, batch in BEST.items():
        executions = (*_foldings(network), "compiled")
        for execution, precision, layout in product(executions, PRECISIONS[:2], LAYOUTS):
            if (execution, precision, layout) != NOT_COMPILED:
                yield inference(network, batch, layout, precision, execution)


def _limit(levels: Levels) -> Iterator[Factors]:
    """Plain, and with what saves most memory."""
    ways = (("contiguous", "float32"), ("channels_last", "bfloat16"))
    for limit, network in product(levels["memory_limit"], LIMITED):
        for batch, (layout, precision) in product(_asked(levels), ways):
            if LIMITED_FROM <= batch <= LARGEST[network]:
                yield inference(network, batch, layout, precision, memory_limit=limit)


def _peaks(levels: Levels) -> Iterator[Factors]:
    """Every network in every precision; with all batches, some until the memory is exhausted."""
    batches = [batch for batch in PEAK_BATCHES if batch in levels["batch"]]
    for network in levels["network"]:
        more = EXHAUSTING.get(str(network), ()) if len(batches) == len(PEAK_BATCHES) else ()
        for batch, precision in product((*batches, *more), levels["precision"]):
            yield inference(network, batch, precision=precision)


SWEEPS: Final[dict[str, Sweep]] = {
    "batch": _batch,
    "precision": _precision,
    "amp_layout": _amp_layout,
    "tiling": _tiling,
    "fusion": _fusion,
    "best": _best,
    "limit": _limit,
}
#: A GPU has no limit on its address space; of its memory all is asked for.
SWEEPS_ON_GPU: Final[dict[str, Sweep]] = {
    **{name: make for name, make in SWEEPS.items() if name != "limit"},
    "peaks": _peaks,
}


def is_timed(factors: Factors) -> bool:
    """Whether durations are sampled: not where only memory is asked for."""
    network, batch = str(factors["network"]), factors["batch"]
    return network in LARGEST or batch == BEST.get(network)


def is_timed_on_cpu(factors: Factors) -> bool:
    """Which of them a processor times too: each process pays seconds for what a GPU does at once.

    Left out are calls of many images, compiling the networks of which only the peak is swept, and
    the other layout of the residual networks between the shallowest and the deepest one.
    """
    network, batch = str(factors["network"]), int(factors["batch"])
    if network == "AlexNet":
        return batch <= ALEXNET_TIMED_ON_CPU
    if network in MEMORY_ONLY and factors["execution"] == "compiled":
        return False
    if network in RESNETS[1:-1] and factors["layout"] != LAYOUTS[0]:
        return batch == TIMED_ON_CPU
    return batch <= TIMED_ON_CPU


def under_every_policy(factors: Factors) -> bool:
    """Whether a case is timed with freed memory returned too: plain ResNets, and tiles."""
    return factors.get("execution") in TILED or (
        factors.get("network") in (RESNETS[0], RESNETS[-1])
        and factors["layout"] == "contiguous"
        and factors["precision"] == "float32"
        and factors["execution"] == "eager"
    )
