"""What the inference of CNNs takes in time and memory, and what saves it.

Networks in evaluation mode with random weights and a random input from a fixed seed, under
``torch.no_grad()``.  ``sweep`` names sets of cases (``experiments.inference_sweeps``) and stands in
no case: a case that belongs to several sets is measured once.  Factors of a case:

- ``subject``: ``inference`` is one call of a network; ``training`` trains the deepest residual
  network; ``accuracy`` is what the trained one makes of every test image; ``matrix_product`` is one
  product of square matrices of ``side``, for the peak of a precision.
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
only whether the call fits is asked.  A call of more than 8 GMAC is warmed up once and has its bytes
measured once.  Of some calls a Chrome trace lies beside the record.
"""

from __future__ import annotations

import gc
import time
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import msgspec

from experiments import inference_sweeps as sweeps
from experiments.harness.limits import limited, refuse_beyond
from experiments.harness.measure import build, layers_of_case, measure_memory, measure_time
from experiments.harness.memory import REPEATS, call_once
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import (
    FULL,
    QUICK,
    CaseFile,
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
from experiments.harness.workload import Build, Workload
from experiments.inference_refusals import needed_bytes, refuse_float16
from experiments.inference_scores import course, image_results
from report.records.record import Series

if TYPE_CHECKING:
    import torch
    from torch import nn

#: Calls with more multiply-adds (thousands of millions) are warmed up once, and their bytes, which
#: are the same every time, are measured once.
_ONCE_FROM: Final = 8.0
_MIB: Final = 2**20
#: Networks and the batch of which a trace is kept, to see the time of each operator.
TRACED: Final = ("LeNet-5", "AlexNet", "ResNet-20", "ResNet-110")
TRACED_BATCH: Final = 64
#: What a GPU's counters see of each network.
_COUNTED_BATCHES: Final = frozenset({1, 64, 1024})


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
    """``(N, C, H, W)``; of a training, one image."""
    from experiments.networks.catalogue import INPUT_SHAPES

    channels, height, width = INPUT_SHAPES[str(factors["network"])]
    height, width = (int(factors.get("image", extent)) for extent in (height, width))
    return int(factors.get("batch", 1)), channels, height, width


def memory(factors: Factors, session: Session) -> Results:
    """What the subject of a case asks for; raises what torch raises.

    Raises ``UnavailableError`` for what this machine cannot do and ``NotStartedError`` for what
    cannot fit into its memory.
    """
    refuse_float16(factors, session.device)
    make = partial(build, STUDY, factors, session.device)
    match factors["subject"]:
        case "training":
            yield from course(factors, session)
        case "accuracy":
            yield from image_results(factors, session)
        case "matrix_product":
            yield from measure_memory(make, session)
        case _ if "memory_limit" in factors:
            yield _under_limit(make, int(factors["memory_limit"]) * _MIB, session.device)
        case _:
            if session.device == "cpu":
                refuse_beyond(needed_bytes(layers_of_case(STUDY, factors)))
            yield from _inference(make, factors, session)


def is_timed(factors: Factors) -> bool:
    """Whether processes of their own time a case."""
    if factors["subject"] == "inference":
        return "memory_limit" not in factors and sweeps.is_timed(factors)
    return factors["subject"] == "matrix_product"


def times(factors: Factors, session: Session) -> Results:
    """Times of a case in this process; of a long call one is enough to warm up."""
    make = partial(build, STUDY, factors, session.device)
    if factors["subject"] == "matrix_product":
        return measure_time(make, session)
    if _is_long(factors):
        calls = min(1, session.protocol.warmup_calls)
        protocol = msgspec.structs.replace(session.protocol, warmup_calls=calls)
        session = replace(session, protocol=protocol)
    with limited() if session.device == "cpu" else nullcontext():
        return measure_time(make, session)


def _inference(make: Build, factors: Factors, session: Session) -> Results:
    """Bytes, and what else is measured once of a call; a trace of some."""
    compiled = factors["execution"] == "compiled"

    def warm() -> Workload:
        workload = make()
        if compiled:
            call_once(workload)
        return workload

    with limited() if session.device == "cpu" else nullcontext():
        first = _first_call(make())
        found = measure_memory(warm, session, 1 if compiled or _is_long(factors) else REPEATS)
    if compiled:
        yield first
    events = _keeps_events(factors, session.device)
    yield from (each for each in found if events or each.quantity != "memory_events")
    if session.device == "cuda" and factors["execution"] == "eager":
        yield from _transfers(make, factors, session)
    if is_traced(factors):
        yield _trace_file(make, factors, session.device)


def _keeps_events(factors: Factors, device: Device) -> bool:
    """Whether a record holds each event of the allocator during a call.

    Thousands of tiles would fill megabytes, and so would all casts of all batches in 16 bits.  A
    GPU's allocator is replayed from them.
    """
    return "tile" not in factors and (device == "cuda" or factors["precision"] == "float32")


def _is_long(factors: Factors) -> bool:
    return sweeps.gmacs(factors) > _ONCE_FROM


def _under_limit(make: Build, growth: int, device: Device) -> Series:
    """``first_call_time`` of a call that fits into the limit; only the call is limited."""
    if device != "cpu":
        raise UnavailableError(
            "The limit on memory is one on the address space of a CPU's process."
        )
    workload = make()
    gc.collect()
    with limited(growth):
        return _first_call(workload)


def _first_call(workload: Workload) -> Series:
    """Where memory runs out, it must not do so inside the profiler: hence a call before that."""
    start = time.perf_counter()
    workload.call()
    seconds = time.perf_counter() - start
    return Series(quantity="first_call_time", unit="s", samples=(seconds,))


def _transfers(make: Build, factors: Factors, session: Session) -> tuple[Series, ...]:
    """Copies between the host and a GPU, of the plain cases in float32."""
    import torch

    from experiments.harness.timing import transfers

    result = make().call()
    assert isinstance(result, torch.Tensor)
    source = torch.empty(input_shape(factors), device=session.device)
    return transfers(source, result, session.protocol)


def is_traced(factors: Factors) -> bool:
    """Whether a trace of the case is kept."""
    return (
        factors["network"] in TRACED
        and factors["batch"] == TRACED_BATCH
        and factors["precision"] == "float32"
        and factors["execution"] == "eager"
        and "memory_limit" not in factors
    )


def _trace_file(make: Build, factors: Factors, device: Device) -> CaseFile:
    from experiments.harness.profiling import trace_file

    network, batch, layout = (str(factors[name]) for name in ("network", "batch", "layout"))
    name = f"{network.lower()}-{batch}-{layout.replace('_', '-')}"
    return trace_file(name, f"{network} at batch {batch}, {layout}", make, device)


def is_counted_on_gpu(factors: Factors, thorough: bool) -> bool:
    """Plain float32 networks at a few batches, or at all."""
    plain = factors["subject"] == "inference" and "memory_limit" not in factors
    return (
        plain
        and factors["execution"] == "eager"
        and factors["precision"] == "float32"
        and (thorough or factors["batch"] in _COUNTED_BATCHES)
    )


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
    # Under a program that makes a call a thousand times slower no network is called.
    is_counted=lambda factors, thorough: False,
    process=lambda factors, session: Process(("torch", "torch._dynamo", "torch._inductor")),
    full=replanned(
        FULL,
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
    is_counted=is_counted_on_gpu,
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
