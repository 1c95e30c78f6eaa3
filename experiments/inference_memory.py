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
from typing import Final

import msgspec

from experiments import inference_sweeps as sweeps
from experiments.harness import quantity_groups, runtime
from experiments.harness.limits import limited, refuse_beyond
from experiments.harness.measure import measure_memory, measure_time
from experiments.harness.memory import REPEATS, call_once
from experiments.harness.outcomes import UnavailableError
from experiments.harness.study import (
    FULL,
    QUICK,
    CaseFile,
    Counting,
    Device,
    Factor,
    Factors,
    Session,
    Study,
    replanned,
)
from experiments.harness.workload import Workload
from experiments.inference_calls import build, input_shape, layers
from experiments.inference_refusals import needed_bytes, refuse_float16
from experiments.inference_scores import (
    history_series,
    image_series,
    images_file,
    trained,
    weights_file,
)
from report.records.record import Series

#: Calls with more multiply-adds (thousands of millions) are warmed up once, and their bytes, which
#: are the same every time, are measured once.
_ONCE_FROM: Final = 8.0
_MIB: Final = 2**20
#: Networks and the batch of which a trace is kept, to see the time of each operator.
TRACED: Final = ("LeNet-5", "AlexNet", "ResNet-20", "ResNet-110")
TRACED_BATCH: Final = 64
#: What a GPU's counters see of each network.
_COUNTED_BATCHES: Final = frozenset({1, 64, 1024})


def measure_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """What the subject of a case asks for; raises what torch raises.

    Raises ``UnavailableError`` for what this machine cannot do and ``NotStartedError`` for what
    cannot fit into its memory.
    """
    refuse_float16(factors, session.device)
    match factors["subject"]:
        case "training":
            return history_series(trained(factors, session)[1])
        case "accuracy":
            return image_series(factors, session)
        case "matrix_product":
            return measure_memory(lambda: build(factors, session.device), session)
    if session.device == "cpu" and "memory_limit" not in factors:
        refuse_beyond(needed_bytes(layers(factors)))
    return _inference(factors, session)


def is_timed(factors: Factors) -> bool:
    """Whether processes of their own time a case."""
    if factors["subject"] == "inference":
        return "memory_limit" not in factors and sweeps.is_timed(factors)
    return factors["subject"] == "matrix_product"


def time_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Times of a case in this process; raises what torch raises."""
    if factors["subject"] == "matrix_product":
        return measure_time(lambda: build(factors, session.device), session)
    with limited() if session.device == "cpu" else nullcontext():
        return measure_time(lambda: build(factors, session.device), _patient(factors, session))


def _inference(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Bytes, and what else this process finds of a case."""

    def made() -> Workload:
        return build(factors, session.device)

    def warm() -> Workload:
        workload = made()
        if factors["execution"] == "compiled":
            call_once(workload)
        return workload

    if "memory_limit" in factors:
        return _under_limit(factors, session)
    repeats = 1 if factors["execution"] == "compiled" or _is_long(factors) else REPEATS
    with limited() if session.device == "cpu" else nullcontext():
        first = _first_call(_probe(made()))
        found = measure_memory(warm, session, repeats)
    compiling = (first,) if factors["execution"] == "compiled" else ()
    events = _keeps_events(factors, session.device)
    kept = (each for each in found if events or each.quantity != "memory_events")
    return (*compiling, *kept, *_transfers(factors, session))


def _keeps_events(factors: Factors, device: Device) -> bool:
    """Whether a record holds each event of the allocator during a call.

    Thousands of tiles would fill megabytes, and so would all casts of all batches in 16 bits.  A
    GPU's allocator is replayed from them.
    """
    return "tile" not in factors and (device == "cuda" or factors["precision"] == "float32")


def _patient(factors: Factors, session: Session) -> Session:
    """Of a long call one is enough to warm up."""
    if not _is_long(factors):
        return session
    calls = min(1, session.protocol.warmup_calls)
    return replace(session, protocol=msgspec.structs.replace(session.protocol, warmup_calls=calls))


def _is_long(factors: Factors) -> bool:
    return sweeps.gmacs(factors) > _ONCE_FROM


def _probe(workload: Workload) -> float:
    """Duration of one call (s); where memory runs out, it must not do so inside the profiler."""
    start = time.perf_counter()
    workload.call()
    return time.perf_counter() - start


def _under_limit(factors: Factors, session: Session) -> tuple[Series, ...]:
    """``first_call_time`` of a call that fits into the limit; only the call is limited."""
    if session.device != "cpu":
        raise UnavailableError(
            "The limit on memory is one on the address space of a CPU's process."
        )
    workload = build(factors, session.device)
    gc.collect()
    with limited(int(factors["memory_limit"]) * _MIB):
        return (_first_call(_probe(workload)),)


def _first_call(seconds: float) -> Series:
    return Series(quantity="first_call_time", unit="s", samples=(seconds,))


def _transfers(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Copies between the host and a GPU, of the plain cases in float32."""
    if session.device == "cpu" or factors["execution"] != "eager":
        return ()
    import torch

    from experiments.harness.transfers import transfers

    result = build(factors, session.device).call()
    assert isinstance(result, torch.Tensor)
    source = torch.empty(input_shape(factors), device=session.device)
    return transfers(source, result, session.protocol)


def prepare(session: Session) -> None:
    """Let the processes of a run share compiled code."""
    runtime.keep_compiled_code()


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """Traces; which images were trained on; which weights were scored."""
    match factors["subject"]:
        case "training":
            return (images_file(),)
        case "accuracy":
            return (weights_file(factors, session),)
        case "inference" if is_traced(factors):
            return (_trace_file(factors, session.device),)
    return ()


def is_traced(factors: Factors) -> bool:
    """Whether a trace of the case is kept."""
    return (
        factors["network"] in TRACED
        and factors["batch"] == TRACED_BATCH
        and factors["precision"] == "float32"
        and factors["execution"] == "eager"
        and "memory_limit" not in factors
    )


def _trace_file(factors: Factors, device: Device) -> CaseFile:
    from experiments.harness.profiling import trace_file

    network, batch, layout = (str(factors[name]) for name in ("network", "batch", "layout"))
    name = f"{network.lower()}-{batch}-{layout.replace('_', '-')}"
    of = f"{network} at batch {batch}, {layout}"
    return trace_file(name, of, lambda: build(factors, device), device)


def effort(factors: Factors) -> float:
    """Seconds, about, on a machine of 50 GMAC/s."""
    match factors["subject"]:
        case "matrix_product":
            return 4.0
        case "training":
            return 60.0
        case "accuracy":
            return 5.0
    seconds = sweeps.gmacs(factors) / 50
    if "memory_limit" in factors:
        return seconds
    compiling = 15.0 if factors["execution"] == "compiled" else 0.0
    return compiling + max(1.5, 13 * seconds if sweeps.is_timed(factors) else 4 * seconds)


def multiply_adds(factors: Factors) -> int:
    """Those expected of one call, about; they only tell how long counting takes."""
    return round(1e9 * sweeps.gmacs(factors)) if factors["subject"] == "inference" else 0


def calls_on_gpu(factors: Factors, thorough: bool) -> int:
    """Plain float32 networks at a few batches, or at all."""
    if factors["subject"] != "inference" or "memory_limit" in factors:
        return 0
    if factors["execution"] != "eager" or factors["precision"] != "float32":
        return 0
    return 1 if thorough or factors["batch"] in _COUNTED_BATCHES else 0


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
    measures=(
        *quantity_groups.TIME,
        "wait_time",
        "to_device_time",
        "from_device_time",
        "memory_events",
        "allocated",
        "resident",
        *quantity_groups.LEARNING,
        "image_loss",
        "image_correct",
    ),
    cases=sweeps.cases,
    layers=layers,
    measure=measure_case,
    timed=time_case,
    is_timed=lambda factors: (
        is_timed(factors) and ("batch" not in factors or sweeps.is_timed_on_cpu(factors))
    ),
    under_every_policy=sweeps.under_every_policy,
    effort=effort,
    files=files,
    counting=Counting(
        workload=build,
        multiply_adds=multiply_adds,
        calls=lambda factors, thorough: 0,  # under a program that takes a thousand times as long
        warm_up=sweeps.inference("LeNet-5", 1),
        calls_on_gpu=calls_on_gpu,
    ),
    imports=("torch._dynamo", "torch._inductor"),
    prepare=prepare,
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
