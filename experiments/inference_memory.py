"""Memory of inference: batches that fit, and ways to make larger batches fit.

Networks run in evaluation mode under ``torch.no_grad()``, with random weights and images from a
fixed seed.  ``--set sweep=…`` selects sets of cases.  A case in several sets is measured once.
Factors of a case:

- ``subject``: ``inference`` is one call of a network; ``limit`` searches for the largest batch that
  runs under a real limit of memory, ``memory_limit`` MiB (``largest_batch``).
- ``network``, ``image`` (pixels per side), ``batch``.
- ``layout``: layout of weights, images and all maps, ``contiguous`` (NCHW) or ``channels_last``.
- ``precision``: ``bfloat16`` and ``float16`` by ``torch.autocast`` around the call; the weights
  remain float32 and are cast in every call.
- ``change``: a change of the network's code by which it allocates outputs differently
  (``catalogue.build_network``).  Only cases with a limit have this factor.
- ``execution``: ``eager`` for whole maps.  ``tiled_layers``, ``tiled_blocks`` and ``tiled_stages``
  compute ``tile`` × ``tile`` pixels of the output at a time (``experiments.networks.tiled``).

The peak of every call is measured.  Times are measured only of calls in tiles and of the same call
without tiles, while PyTorch keeps freed memory.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Final

import msgspec

from experiments.harness import study
from experiments.harness.measure import build_workload, measure_memory, measure_time
from experiments.harness.memory import measure_cpu
from experiments.harness.timing import Workload
from experiments.machine.limits import is_out_of_memory, limit_memory
from experiments.networks import catalogue
from report.core.records.record import Factors, Level, SeriesByQuantity

if TYPE_CHECKING:
    from torch import nn

RESNETS: Final = ("ResNet-20", "ResNet-32", "ResNet-44", "ResNet-56", "ResNet-110")
NETWORKS: Final = ("LeNet-5", "AlexNet", "VGG-16", *RESNETS)
LAYOUTS: Final = ("contiguous", "channels_last")
PRECISIONS: Final = ("float32", "bfloat16", "float16")
TILED_EXECUTIONS: Final = ("tiled_layers", "tiled_blocks", "tiled_stages")
#: Pixels on each side of a tile.
TILE_SIDES: Final = (8, 16, 32, 64)
BATCHES: Final = tuple(2**n for n in range(11))
#: Batches on a GPU, which usually has more memory.
BATCHES_ON_GPU: Final = (*BATCHES, *(2**n for n in range(12, 20, 2)))

#: Network → largest batch whose peak is measured on a CPU; for other networks the largest is 256.
LARGEST_BATCHES: Final = {"AlexNet": 64, "VGG-16": 8}
#: Batches at which all precisions are combined with both layouts.  A CPU measures all but the last.
PRECISION_BATCHES: Final = (64, 256, 1024)
#: Network, image and batch of calls in tiles.  Tiles cost the same share of time at any batch.
TILED_CALL: Final[Factors] = {"network": "ResNet-20", "image": 224, "batch": 2}
#: Network → memory limits (MiB), into which a few to two hundred images fit.
LIMITS: Final = {
    "ResNet-20": (16, 48),
    "ResNet-110": (16, 48),
    "AlexNet": (256, 384),
    "VGG-16": (640, 800),
}

#: Bytes by which a call may exceed a limit, for page rounding and memory other than tensors.
SLACK_BYTES: Final = 131_072
#: Size (B) of the smallest block that glibc maps separately during a search under a limit.
_SMALLEST_MAPPED_BLOCK: Final = 16_384
#: Number of the parameter of mallopt(3) that sets this size.
_M_MMAP_THRESHOLD: Final = -3
#: Largest number of bytes to fill, so that filling the heap ends even if blocks are mapped.
_LARGEST_HEAP: Final = 2**30
#: Two small batches from whose peaks the largest batch is estimated.
_FIRST_BATCH, _SECOND_BATCH = 2, 4
#: A batch that never fits.
_IMPOSSIBLE_BATCH: Final = 2**20


def inference_case(
    network: Level,
    batch: Level,
    layout: Level = "contiguous",
    precision: Level = "float32",
    **other_factors: Level,
) -> Factors:
    """Return the factors of a call; the others may be ``image``, ``execution`` and ``tile``."""
    return {
        "subject": "inference",
        "network": network,
        "image": catalogue.INPUT_SHAPES[str(network)][1],
        "batch": batch,
        "layout": layout,
        "precision": precision,
        "execution": "eager",
        **other_factors,
    }


def _peak_cases(levels: study.Levels, gpu: bool) -> Iterator[Factors]:
    """Yield every network in both layouts in float32, and on a GPU in the other precisions."""
    for network, batch in product(levels["network"], levels["batch"]):
        if gpu or int(batch) <= LARGEST_BATCHES.get(str(network), 256):
            for layout in LAYOUTS:
                yield inference_case(network, batch, layout)
            for precision in PRECISIONS[1:] if gpu else ():
                yield inference_case(network, batch, precision=precision)


def _precision_cases(levels: study.Levels, gpu: bool) -> Iterator[Factors]:
    """Yield residual networks in every precision and layout."""
    for network, batch in product(RESNETS, PRECISION_BATCHES if gpu else PRECISION_BATCHES[:-1]):
        if network in levels["network"] and batch in levels["batch"]:
            for precision, layout in product(PRECISIONS, LAYOUTS):
                yield inference_case(network, batch, layout, precision)


def _tiling_cases(levels: study.Levels, gpu: bool) -> Iterator[Factors]:
    """Yield ``TILED_CALL`` without tiles, and with every execution in tiles and size of tiles."""
    if TILED_CALL["network"] in levels["network"]:
        yield inference_case(**TILED_CALL)
        for execution, tile in product(TILED_EXECUTIONS, levels["tile"]):
            yield inference_case(**TILED_CALL, execution=execution, tile=tile)


def _limit_cases(levels: study.Levels, gpu: bool, with_changes: bool = False) -> Iterator[Factors]:
    """Yield searches under limits of the address space, on a CPU only.

    The networks are unchanged.  With ``with_changes``, each change of a network makes a case.
    """
    for network, limits in LIMITS.items():
        if network in levels["network"] and not gpu:
            changes = catalogue.CHANGES[network] if with_changes else ("",)
            for limit, layout, change in product(limits, LAYOUTS, changes):
                case: Factors = {"subject": "limit", "network": network, "layout": layout}
                case |= {"image": catalogue.INPUT_SHAPES[network][1], "memory_limit": limit}
                yield {**case, "change": change} if with_changes else case


#: Set of cases (level of the factor ``sweep``) → function that yields the cases.
_SWEEPS: Final[dict[str, Callable[[study.Levels, bool], Iterator[Factors]]]] = {
    "peaks": _peak_cases,
    "precision": _precision_cases,
    "tiling": _tiling_cases,
    "limit": _limit_cases,
    "change": partial(_limit_cases, with_changes=True),
}


def cases(levels: study.Levels, gpu: bool = False) -> tuple[Factors, ...]:
    """List the distinct cases of the sets in ``levels["sweep"]``."""
    distinct: dict[frozenset[tuple[str, Level]], Factors] = {}
    for name in levels["sweep"]:
        for case in _SWEEPS[str(name)](levels, gpu):
            distinct[frozenset(case.items())] = case
    return tuple(distinct.values())


def subject(factors: Factors) -> study.Subject:
    """Build a network in evaluation mode and a batch of random images; for a limit, one image."""
    import torch

    name = str(factors["network"])
    module = catalogue.build_network(name, str(factors.get("change", ""))).eval()
    side = int(factors.get("image", 32))
    shape = (int(factors.get("batch", 1)), catalogue.INPUT_SHAPES[name][0], side, side)

    def tile(whole: nn.Module) -> nn.Module:
        from experiments.networks.tiled import tile_network

        return tile_network(whole, factors["execution"], int(factors["tile"]))  # type: ignore[arg-type]

    return study.Subject(
        module,
        torch.randn(shape),
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
        convert=tile if "tile" in factors else None,
    )


def memory(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Measure the bytes of a call after a warm-up call, or find the largest batch under a limit."""
    if factors["subject"] == "limit":
        return largest_batch(subject(factors), int(factors["memory_limit"]) * 2**20)
    with limit_memory() if session.device == "cpu" else nullcontext():
        build_workload(STUDY, factors, session.device).once()
        series = measure_memory(STUDY, factors, session, 2)
    if session.device == "cuda":
        return series  # the requests before the call show the workspace that cuBLAS keeps
    # On a CPU the peak is enough, and the list of all allocations would take megabytes.
    return {name: s for name, s in series.items() if name != "memory_events"}


def timed_under(factors: Factors) -> study.Policies:
    """Time calls in tiles, and the same call without tiles, under the main memory policy."""
    is_timed = factors["subject"] == "inference" and TILED_CALL.items() <= factors.items()
    return "main" if is_timed else "none"


def times(factors: Factors, session: study.Session) -> SeriesByQuantity:
    """Time a case in this process, with the address space limited to the available memory."""
    with limit_memory() if session.device == "cpu" else nullcontext():
        return measure_time(STUDY, factors, session)


# ------------------------------------------------------------------------------------ real limits
#
# Under a limit on the process's address space, an allocation fails at once.  The limit allows for
# the memory that the process already uses.  So that no request reuses freed memory, large blocks
# are mapped separately, and the heap is filled.


def largest_batch(subject: study.Subject, limit_bytes: int) -> SeriesByQuantity:
    """Find the largest batch that runs under a limit of memory, which includes the parameters.

    Returns the series ``batch_tried`` and ``batch_ran`` (1 or 0 for each).  Only for Linux with
    glibc.  The search starts from an estimate by the peaks of two small batches.  It ends when one
    image more than the largest successful batch does not fit.
    """
    import torch

    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, _SMALLEST_MAPPED_BLOCK)
    layout = torch.channels_last if subject.layout == "channels_last" else torch.contiguous_format
    module = subject.module.to(memory_format=layout)  # type: ignore[call-overload]
    tensors = (*module.parameters(), *module.buffers())
    limit_for_call = limit_bytes - sum(t.untyped_storage().nbytes() for t in tensors)
    shape = subject.inputs.shape[1:]
    del subject  # frees its inputs

    def call(batch: int) -> object:
        with torch.no_grad():
            return module(torch.empty((batch, *shape), memory_format=layout).normal_())

    def runs(batch: int) -> bool:
        call(batch)  # the first call with a batch size generates kernels
        gc.collect()
        _fill_heap()
        try:
            with limit_memory(limit_for_call + SLACK_BYTES):
                call(batch)
        except Exception as error:
            if is_out_of_memory(error):
                return False
            raise
        return True

    def peak(batch: int) -> int:
        series = measure_cpu(partial(Workload, partial(call, batch)), 1)
        return int(series["allocated_peak"][0])

    first_peak, second_peak = peak(_FIRST_BATCH), peak(_SECOND_BATCH)
    # The estimate assumes that peaks grow linearly with the batch.
    free_bytes = limit_for_call - first_peak
    images = free_bytes * (_SECOND_BATCH - _FIRST_BATCH) // (second_peak - first_peak)
    ran_by_batch = _search(runs, max(1, _FIRST_BATCH + images))
    return {"batch_tried": tuple(ran_by_batch), "batch_ran": tuple(map(int, ran_by_batch.values()))}


def _search(runs: Callable[[int], bool], batch: int) -> dict[int, bool]:
    """Try batches in growing steps and then by bisection; return batch → whether it ran.

    Ends when a batch ran and the next batch did not.
    """
    ran_by_batch: dict[int, bool] = {}
    largest_ran, smallest_failed, step = 0, _IMPOSSIBLE_BATCH, 1
    while smallest_failed - largest_ran > 1:
        ran_by_batch[batch] = runs(batch)
        if ran_by_batch[batch]:
            largest_ran, batch = batch, batch + step
        else:
            smallest_failed, batch = batch, batch - step
        step *= 2
        if not largest_ran < batch < smallest_failed:
            batch = (largest_ran + smallest_failed) // 2
    return ran_by_batch


def _fill_heap() -> None:
    """Allocate all free memory of the heap permanently, so that no later block fits into it."""
    library = ctypes.CDLL(None)
    library.malloc.restype = library.sbrk.restype = ctypes.c_void_p
    end = library.sbrk(0)
    for _ in range(_LARGEST_HEAP // _SMALLEST_MAPPED_BLOCK):
        if library.sbrk(0) != end:  # the heap was full and has grown
            break
        library.malloc(_SMALLEST_MAPPED_BLOCK - 64)  # too small to be mapped separately


def _factors(batches: tuple[int, ...]) -> tuple[study.Factor, ...]:
    return (
        study.Factor("sweep", levels=tuple(_SWEEPS)),
        study.Factor("network", levels=NETWORKS, quick=("LeNet-5", "ResNet-20")),
        study.Factor("batch", levels=batches, quick=(1, 8, 64), any_count=True),
        study.Factor("tile", levels=TILE_SIDES, quick=(32, 64)),
    )


STUDY: Final = study.Experiment(
    subject=subject,
    factors=_factors(BATCHES),
    cases=cases,
    name="inference_memory",
    question="Does a batch fit into memory, and what makes it fit?",
    plan=study.Plan(
        full=msgspec.structs.replace(
            study.FULL,
            warmup_calls=1,
            minimum_samples=2,
            maximum_samples=15,
            case_budget_s=0.2,
            processes={"retained": 8},
            budget_s=450.0,
        ),
        quick=msgspec.structs.replace(study.QUICK, minimum_samples=3, warmup_calls=1),
        timed_under=timed_under,
        counts_work=False,
        memory=memory,
        times=times,
    ),
).with_gpu(factors=_factors(BATCHES_ON_GPU), cases=partial(cases, gpu=True))
