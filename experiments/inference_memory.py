"""What the inference of CNNs takes in time and memory, and what saves it.

Networks in evaluation mode with random weights and a random input from a fixed seed, under
``torch.no_grad()``.  ``sweep`` names sets of cases (``experiments.inference_sweeps``) and stands in
no case: a case that belongs to several sets is measured once.  Factors of a case:

- ``subject``: ``inference`` is one call of a network; ``accuracy`` is what the deepest residual
  network, once trained, makes of every test image; ``matrix_product`` is one product of square
  matrices of ``side``, for the peak of a precision.
- ``network``, ``image`` (pixels a side), ``batch``.
- ``layout``: of weights, input and so of all maps, ``contiguous`` (NCHW) or ``channels_last``.
- ``precision``: ``bfloat16`` and ``float16`` by ``torch.autocast`` around the call; the weights
  stay float32 and are cast in every call.
- ``execution``: ``eager``; ``folded``, normalisation in the convolutions and ReLU in place;
  ``compiled`` by torch.compile, from nothing in the run's own process, whose code the others take;
  ``tiled_layers``, ``tiled_blocks``, ``tiled_stages``, tile by tile
  with ``tile`` × ``tile`` pixels of the output (``experiments.networks.tiled``).
- ``memory_limit``: MiB by which the address space may grow in the call; else what is available.
- ``dataset``: ``digits`` of scikit-learn, scaled to 32 × 32.

Every ``inference`` case has series of durations, of what the system did in each call, and of bytes.
Of ZFNet and VGG-16 only the batches of the published comparison are timed, and of limited cases
only whether the call fits is asked.
"""

from __future__ import annotations

import gc
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Final, cast

from experiments import inference_sweeps as sweeps
from experiments.harness.limits import limited, refuse_beyond
from experiments.harness.measure import build, layers_of_case, measure_memory, measure_time
from experiments.harness.memory import call_once
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import (
    FULL,
    QUICK,
    Device,
    Factor,
    Factors,
    Process,
    Results,
    Session,
    Study,
    Subject,
    replanned,
)
from experiments.harness.timing import Build, Workload, seconds
from report.records.layers import ELEMENT_BYTES, Convolution, Layer
from report.records.record import Series

if TYPE_CHECKING:
    import torch
    from torch import nn

_MIB: Final = 2**20
#: Memory is measured twice, so that a paper can check that it is the same.
_MEMORY_REPEATS: Final = 2


def subject(factors: Factors) -> Subject:
    """A network in evaluation mode, or a product of matrices."""
    import torch

    from experiments.networks import catalogue
    from experiments.networks.variants import executed

    if factors["subject"] == "matrix_product":
        return _product(int(factors["side"]), getattr(torch, str(factors["precision"])))
    network = cast("nn.Sequential", catalogue.network(str(factors["network"])))
    tile = factors.get("tile")
    way = str(factors.get("execution", "eager"))
    return Subject(
        network.eval(),
        torch.randn(input_shape(factors)),
        layout=factors.get("layout", "contiguous"),  # type: ignore[arg-type]
        precision=factors.get("precision", "float32"),  # type: ignore[arg-type]
        executed=lambda _: executed(network, way, None if tile is None else int(tile)),  # type: ignore[arg-type]
    )


def _product(side: int, kind: torch.dtype) -> Subject:
    import torch

    left, right = torch.randn(side, side, dtype=kind), torch.randn(side, side, dtype=kind)
    layer = torch.nn.Linear(side, side, bias=False, device="meta")
    source = torch.empty(side, side, device="meta")
    return Subject(layer, source, mode=lambda: torch.mm(left, right), name="product")


def input_shape(factors: Factors) -> tuple[int, int, int, int]:
    """``(N, C, H, W)``; of an accuracy, one image."""
    from experiments.networks.catalogue import INPUT_SHAPES

    channels, height, width = INPUT_SHAPES[str(factors["network"])]
    height, width = (int(factors.get("image", extent)) for extent in (height, width))
    return int(factors.get("batch", 1)), channels, height, width


def memory(factors: Factors, session: Session) -> Results:
    """What the subject of a case asks for; raises what torch raises.

    Raises ``UnavailableError`` for what this machine cannot do and ``NotStartedError`` for what
    cannot fit into its memory.
    """
    from experiments.networks.variants import refuse_emulated

    refuse_emulated(factors.get("precision"), factors.get("batch"), session.device, most=1)
    make = partial(build, STUDY, factors, session.device)
    if factors["subject"] == "accuracy":
        from experiments.inference_scores import image_results

        return image_results(factors, session)
    if factors["subject"] == "matrix_product":
        return measure_memory(make, session)
    if "memory_limit" in factors:
        return (_under_limit(make, int(factors["memory_limit"]) * _MIB, session.device),)
    if session.device == "cpu":
        refuse_beyond(needed_bytes(layers_of_case(STUDY, factors)))
    return _bytes_of_call(make, factors, session)


def needed_bytes(layers: tuple[Layer, ...]) -> int:
    """A lower bound of what must be held at once: a convolution's input and output.

    Folding, compiling and tiling cannot avoid the maps of the first convolution in these networks,
    and those of later ones only by tiling over several layers, which is done at one small batch.
    """
    return max(
        (prod(layer.input_shape) + prod(layer.output_shape)) * ELEMENT_BYTES[layer.dtype]
        for layer in layers
        if isinstance(layer, Convolution)
    )


def is_timed(factors: Factors) -> bool:
    """Whether processes of their own time a case."""
    if factors["subject"] == "inference":
        return "memory_limit" not in factors and sweeps.is_timed(factors)
    return factors["subject"] == "matrix_product"


def times(factors: Factors, session: Session) -> Results:
    """Times of a case in this process, as far as its memory reaches."""
    make = partial(build, STUDY, factors, session.device)
    with limited() if session.device == "cpu" else nullcontext():
        return measure_time(make, session)


def _bytes_of_call(make: Build, factors: Factors, session: Session) -> Results:
    """The bytes of a call, which is called before: where memory runs out, outside the profiler."""
    compiled = factors["execution"] == "compiled"

    def warm() -> Workload:
        workload = make()
        if compiled:
            call_once(workload)
        return workload

    with limited() if session.device == "cpu" else nullcontext():
        call_once(make())
        series = measure_memory(warm, session, 1 if compiled else _MEMORY_REPEATS)
    # A GPU's allocator is replayed from its events; those of thousands of tiles fill megabytes.
    events = session.device == "cuda" and "tile" not in factors
    return [each for each in series if events or not each.quantity.startswith("memory_")]


def _under_limit(make: Build, growth: int, device: Device) -> Series:
    """``first_call_time`` of a call that fits into the limit; only the call is limited."""
    if device != "cpu":
        raise UnavailableError(
            "The limit on memory is one on the address space of a CPU's process."
        )
    workload = make()
    gc.collect()
    with limited(growth):
        start = time.perf_counter()
        workload.call()
        return seconds("first_call_time", [time.perf_counter() - start])


_ON_CPU: Final = Study(
    name="inference_memory",
    question="What does the inference of CNNs take in time and memory, and what saves it?",
    factors=(
        Factor("sweep", levels=tuple(sweeps.SWEEPS), quick=tuple(sweeps.SWEEPS)),
        Factor("network", levels=sweeps.NETWORKS, quick=("LeNet-5", "ResNet-20")),
        Factor("batch", levels=sweeps.LEVELS_ON_CPU, quick=(1, 8, 64), any_count=True),
        Factor("layout", levels=sweeps.LAYOUTS, quick=sweeps.LAYOUTS),
        Factor("precision", levels=sweeps.PRECISIONS, quick=sweeps.PRECISIONS),
        Factor(
            "execution",
            levels=sweeps.EXECUTIONS,
            quick=("eager", "folded", "tiled_layers", "tiled_blocks"),
        ),
        Factor("tile", levels=sweeps.TILES, quick=(32, 64)),
        Factor("memory_limit", levels=(128,), quick=(128,), any_count=True),
        Factor("dataset", levels=("digits",), quick=("digits",)),
    ),
    subject=subject,
    cases=sweeps.cases,
    memory=memory,
    times=times,
    is_timed=lambda factors: (
        is_timed(factors) and ("batch" not in factors or sweeps.is_timed_on_cpu(factors))
    ),
    under_every_policy=sweeps.under_every_policy,
    is_counted=lambda factors: False,
    process=lambda factors, session: Process(("torch", "torch._dynamo", "torch._inductor")),
    full=replanned(
        FULL,
        warmup_calls=1,
        minimum_samples=2,
        maximum_samples=15,
        case_budget_s=0.2,
        processes={"retained": 6, "default": 3},
        budget_s=840.0,
    ),
    quick=replanned(QUICK, minimum_samples=3, warmup_calls=1),
)

_GPU_FACTORS: Final = (
    Factor("sweep", levels=tuple(sweeps.SWEEPS_ON_GPU), quick=tuple(sweeps.SWEEPS)[:-1]),
    Factor("batch", levels=sweeps.LEVELS, quick=(1, 8, 64), any_count=True),
)

#: A GPU computes in milliseconds what takes a CPU seconds.
_ON_GPU: Final = replace(
    _ON_CPU,
    cases=sweeps.cases_on_gpu,
    factors=tuple(
        next((other for other in _GPU_FACTORS if other.name == factor.name), factor)
        for factor in _ON_CPU.factors
    ),
    is_timed=lambda factors: (
        is_timed(factors)
        and int(factors.get("batch", 0)) <= sweeps.LARGEST.get(str(factors.get("network")), 1024)
    ),
)

STUDY: Final = replace(_ON_CPU, on_gpu=_ON_GPU)
