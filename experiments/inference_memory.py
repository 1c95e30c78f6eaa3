"""Whether a batch fits into memory, and what makes it fit.

Networks in evaluation mode with random weights and random images from a fixed seed, under
``torch.no_grad()``.  ``sweep`` names sets of cases and stands in no case: a case that belongs to
several sets is measured once.  Factors of a case:

- ``subject``: ``inference`` is one call of a network; ``limit`` looks for the largest batch that
  runs under a real limit of ``memory_limit`` MiB (``largest_batch``).
- ``network``, ``image`` (pixels a side), ``batch``.
- ``layout``: of weights, images and so of all maps, ``contiguous`` (NCHW) or ``channels_last``.
- ``precision``: ``bfloat16`` and ``float16`` by ``torch.autocast`` around the call; the weights
  stay float32 and are cast in every call.
- ``execution``: ``eager``, or ``tiled_layers``, ``tiled_blocks``, ``tiled_stages``, tile by tile
  with ``tile`` × ``tile`` pixels of the output (``experiments.networks.tiled``).

Peaks are measured of every call, times of the shallowest and the deepest residual network and of
tiles, with freed memory kept.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import Final

import msgspec

from experiments.harness.measure import build_workload, measure_memory, measure_time
from experiments.harness.memory import measure_cpu
from experiments.harness.study import (
    FULL,
    QUICK,
    Factor,
    Factors,
    Levels,
    Policies,
    Session,
    Study,
    Subject,
)
from experiments.harness.timing import Workload
from experiments.machine.limits import is_out_of_memory, limit_memory
from experiments.networks import catalogue
from report.core.records.record import Factor as Level
from report.core.records.record import Measured

RESNETS: Final = ("ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110")
NETWORKS: Final = ("LeNet-5", "AlexNet", "VGG-16", *RESNETS)
LAYOUTS: Final = ("contiguous", "channels_last")
PRECISIONS: Final = ("float32", "bfloat16", "float16")
TILED: Final = ("tiled_layers", "tiled_blocks", "tiled_stages")
TILES: Final = (8, 16, 32, 64)
BATCHES: Final = tuple(2**n for n in range(11))
#: A GPU has memory for more of them.
BATCHES_ON_GPU: Final = (*BATCHES, *(2**n for n in range(12, 20, 2)))

#: The largest batch whose peak is measured on a processor, 256 of the other networks.
LARGEST: Final = {"AlexNet": 64, "VGG-16": 8}
#: The largest batch that is timed on a processor: a second for each call.
TIMED: Final = {"ResNet-20": 1024, "ResNet-110": 128}
#: The batches at which reduced precision meets both layouts.
REDUCED: Final = (64, 256, 1024)
#: What a tile costs shows in a small batch as in a large one, in a quarter of the time.
TILING: Final[Factors] = {"network": "ResNet-20", "image": 224, "batch": 2}
#: Limits (MiB) that a few to two hundred images of a network reach.
LIMITS: Final = {
    "ResNet-20": (16, 48),
    "ResNet-110": (16, 48),
    "AlexNet": (256, 384),
    "VGG-16": (640, 800),
}

#: The bytes by which a call may exceed a limit: for the ends of pages and for what is no tensor.
ROOM: Final = 131_072
#: From this size on a block has pages of its own (B).
_MAPPED: Final = 16_384
_M_MMAP_THRESHOLD: Final = -3
#: More than the heap ever has free (B); where it cannot grow, its blocks are mapped.
_LARGEST_HEAP: Final = 2**30
#: Two batches from whose peaks the search for the largest begins.
_FEW, _MORE = 2, 4


def inference(
    network: Level,
    batch: Level,
    layout: Level = "contiguous",
    precision: Level = "float32",
    **more: Level,
) -> Factors:
    """One call of a network; ``more`` are ``image``, ``execution`` and ``tile``."""
    return {
        "subject": "inference",
        "network": network,
        "image": catalogue.INPUT_SHAPES[str(network)][1],
        "batch": batch,
        "layout": layout,
        "precision": precision,
        "execution": "eager",
        **more,
    }


def _peaks(levels: Levels, gpu: bool) -> Iterator[Factors]:
    """Every network in both layouts, on a GPU in every precision too."""
    for network, batch in product(levels["network"], levels["batch"]):
        if gpu or int(batch) <= LARGEST.get(str(network), 256):
            for layout in LAYOUTS:
                yield inference(network, batch, layout)
            for precision in PRECISIONS[1:] if gpu else ():
                yield inference(network, batch, precision=precision)


def _time(levels: Levels, gpu: bool) -> Iterator[Factors]:
    """The shallowest and the deepest residual network."""
    for network, batch, precision in product(levels["network"], levels["batch"], PRECISIONS):
        case = inference(network, batch, precision=precision)
        if timed_under(case, gpu) != "none":
            yield case


def _precision(levels: Levels, gpu: bool) -> Iterator[Factors]:
    """Residual networks in every precision and layout."""
    for network, batch in product(RESNETS, REDUCED if gpu else REDUCED[:-1]):
        if network in levels["network"] and batch in levels["batch"]:
            for precision, layout in product(PRECISIONS, LAYOUTS):
                yield inference(network, batch, layout, precision)


def _tiling(levels: Levels, gpu: bool) -> Iterator[Factors]:
    if TILING["network"] in levels["network"]:
        yield inference(**TILING)
        for form, tile in product(TILED, levels["tile"]):
            yield inference(**TILING, execution=form, tile=tile)


def _limit(levels: Levels, gpu: bool) -> Iterator[Factors]:
    """A limit on the address space, which a processor alone has."""
    for network, limits in LIMITS.items():
        if network in levels["network"] and not gpu:
            for limit, layout in product(limits, LAYOUTS):
                case: Factors = {
                    "subject": "limit",
                    "network": network,
                    "image": catalogue.INPUT_SHAPES[str(network)][1],
                }
                yield {**case, "layout": layout, "memory_limit": limit}


_SWEEPS: Final = {
    "peaks": _peaks, "time": _time, "precision": _precision, "tiling": _tiling, "limit": _limit,
}  # fmt: skip


def cases(levels: Levels, gpu: bool = False) -> tuple[Factors, ...]:
    """The cases of the sets that ``levels["sweep"]`` names, each once."""
    found = (case for name in levels["sweep"] for case in _SWEEPS[str(name)](levels, gpu))
    return tuple({frozenset(case.items()): case for case in found}.values())


def subject(factors: Factors) -> Subject:
    """A network in evaluation mode on random images; of a limit, on one."""
    import torch

    from experiments.networks.tiled import tiled

    name = str(factors["network"])
    module = catalogue.network(name).eval()
    side = int(factors.get("image", 32))
    shape = (int(factors.get("batch", 1)), catalogue.INPUT_SHAPES[name][0], side, side)
    form, tile = factors.get("execution"), int(factors.get("tile", 0))
    return Subject(
        module,
        torch.randn(shape),
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
        executed=(lambda _: tiled(module, form, tile)) if tile else None,  # type: ignore[arg-type]
    )


def memory(factors: Factors, session: Session) -> Measured:
    """The bytes of a call, which is called before: where memory runs out, outside the profiler."""
    if factors["subject"] == "limit":
        return largest_batch(subject(factors), int(factors["memory_limit"]) * 2**20)
    with limit_memory() if session.device == "cpu" else nullcontext():
        build_workload(STUDY, factors, session.device).once()
        series = measure_memory(STUDY, factors, session, 2)
    # A GPU's allocator is replayed from its events; those of thousands of tiles fill megabytes.
    events = session.device == "cuda" and "tile" not in factors
    return {n: each for n, each in series.items() if events or not n.startswith("memory_")}


def timed_under(factors: Factors, gpu: bool = False) -> Policies:
    """Freed memory is kept while tiles and two networks are timed, whatever set they are from."""
    if factors["subject"] != "inference":
        return "none"
    within = int(factors["batch"]) <= (1024 if gpu else TIMED.get(str(factors["network"]), 0))
    plain = factors["layout"] == LAYOUTS[0] and (gpu or factors["precision"] == PRECISIONS[0])
    is_timed = "tile" in factors or (factors["network"] in TIMED and plain and within)
    return "main" if is_timed else "none"


def times(factors: Factors, session: Session) -> Measured:
    """Times of a case in this process, as far as its memory reaches."""
    with limit_memory() if session.device == "cpu" else nullcontext():
        return measure_time(STUDY, factors, session)


# ------------------------------------------------------------------------------------ real limits
#
# The limit is one on the address space of the process, under which an allocation fails at once.
# What the process has beside tensors is measured before each call: every block of a page or more is
# mapped by itself, so that nothing that was freed is used again, and the heap is filled.


def largest_batch(subject: Subject, limit: int) -> Measured:
    """``batch_tried`` and ``batch_ran`` of the batches around the largest one under ``limit`` (B).

    Linux with glibc only.  The last two that are tried differ by one image and in their outcome,
    unless no image fits.  The search begins where the peaks of two small batches lead; the limit
    alone decides.
    """
    import torch

    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _MAPPED)
    last = torch.channels_last if subject.layout == "channels_last" else torch.contiguous_format
    module = subject.module.to(memory_format=last)  # type: ignore[call-overload]
    held = sum(t.untyped_storage().nbytes() for t in (*module.parameters(), *module.buffers()))
    shape = subject.inputs.shape[1:]
    del subject

    def call(batch: int) -> object:
        with torch.no_grad():
            return module(torch.empty((batch, *shape), memory_format=last).normal_())

    def runs(batch: int) -> bool:
        call(batch)  # kernels are generated for a batch when it is called first
        gc.collect()
        _fill_heap()
        try:
            with limit_memory(limit - held + ROOM):
                call(batch)
        except Exception as error:
            if is_out_of_memory(error):
                return False
            raise
        return True

    def peak(batch: int) -> int:
        series = measure_cpu(lambda: Workload(partial(call, batch)), 1)
        return int(series["allocated_peak"][0])

    few, more = peak(_FEW), peak(_MORE)
    batch = max(1, _FEW + (limit - held - few) * (_MORE - _FEW) // (more - few))
    tried: dict[int, bool] = {}
    while batch and batch not in tried:
        tried[batch] = runs(batch)
        batch += 1 if tried[batch] else -1
    return {"batch_tried": tuple(tried), "batch_ran": tuple(map(int, tried.values()))}


def _fill_heap() -> None:
    """Take what is free in the heap for good, so that no block finds room there."""
    library = ctypes.CDLL(None)
    library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
    end = library.sbrk(0)
    for _ in range(_LARGEST_HEAP // _MAPPED):
        if library.sbrk(0) != end:
            break
        library.malloc(_MAPPED - 64)


# ------------------------------------------------------------------------------------------ plan


def _factors(batches: tuple[int, ...]) -> tuple[Factor, ...]:
    return (
        Factor("sweep", levels=tuple(_SWEEPS)),
        Factor("network", levels=NETWORKS, quick=("LeNet-5", "ResNet-20")),
        Factor("batch", levels=batches, quick=(1, 8, 64), any_count=True),
        Factor("tile", levels=TILES, quick=(32, 64)),
    )


STUDY: Final = Study(
    name="inference_memory",
    question="Does a batch fit into memory, and what makes it fit?",
    factors=_factors(BATCHES),
    subject=subject,
    cases=cases,
    memory=memory,
    times=times,
    timed_under=timed_under,
    is_counted=lambda factors: False,
    full=msgspec.structs.replace(
        FULL,
        warmup_calls=1,
        minimum_samples=2,
        maximum_samples=15,
        case_budget_s=0.2,
        processes={"retained": 8},
        budget_s=450.0,
    ),
    quick=msgspec.structs.replace(QUICK, minimum_samples=3, warmup_calls=1),
    on_gpu={
        "factors": _factors(BATCHES_ON_GPU),
        "cases": partial(cases, gpu=True),
        "timed_under": partial(timed_under, gpu=True),
    },
)
