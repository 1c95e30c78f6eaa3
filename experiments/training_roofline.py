"""How near the training of a network comes to what the machine can do.

Networks for images of the ImageNet shape are trained by stochastic gradient descent with momentum,
as in PyTorch's ImageNet example: on random images, or on photographs of the user's own.  A set of
cases (``sweep``) answers one question; a case that belongs to several is measured once.  Factors:

- ``subject``: ``training`` are steps of training; ``profile`` is a step watched layer by layer;
  ``matrix_product`` is the ceiling of a precision other than float32, whose ceiling stands beside
  every record; ``sensor`` is what the device tells of its own state.
- ``network``, ``image`` (pixels a side), ``batch`` (images a step).
- ``precision``: of the arithmetic; weights, gradients and momentum are float32 in all.
  ``tfloat32`` is a mode of NVIDIA's tensor cores, ``bfloat16`` is torch's autocast around the
  forward pass and the loss.
- ``layout``: how images, maps and weights lie in memory (NCHW or NHWC).
- ``execution``: ``eager``; ``compiled`` by torch.compile, the first process with an empty cache and
  the others with its code; ``compiled_cuda_graph`` is the compiled step replayed as one graph.
- ``optimizer``: ``default`` is what torch chooses; ``fused`` updates all parameters in one kernel.
- ``dataset``: ``synthetic`` is one random batch in memory; ``folder`` are photographs, decoded by
  as many processes as ``workers`` says.
- ``moment``, ``side``, ``sensor``: of ceilings (before and after all else) and of sensors.

A step drops the gradients, then goes forward through network and cross entropy, backward, and
updates the parameters; ReLUs overwrite their input, as torchvision's do.  Its images are in memory,
on the device and in the layout of the case before it is timed; the wait for them is timed apart.
What each subject leaves behind, series and files, stands in ``experiments.training_processes``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, TypeVar, cast

from experiments.harness import isolated, machine, quantity_groups, runtime, sensors
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
from experiments.training_cases import CPU, GPU, NETWORKS, PLAIN, SWEEPS, cases
from experiments.training_layers import layers
from report.records.record import Factor as Level
from report.records.record import Policy, Series

if TYPE_CHECKING:
    from experiments.datasets.image_folder import Photographs

Result = TypeVar("Result")

# ------------------------------------------------------------------------------------- measuring


def measure_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """What is measured once of a case, all but a sensor's by a process of its own."""
    _refuse_bfloat16(factors, session.device)
    match factors["subject"]:
        case "sensor":
            return (_reading(str(factors["sensor"]), session),)
        case "profile":
            return ()
    if session.device == "cuda" and factors["subject"] == "training":
        # The allocator of a GPU is emptied before each case, and processes take seconds to begin.
        return measure_here(factors, session)
    return _isolated_call(measure_here, factors, session)


def _refuse_bfloat16(factors: Factors, device: Device) -> None:
    """Processors of x86 without AVX-512 emulate bfloat16, 20 times as slow as float32."""
    if factors.get("precision") != "bfloat16" or device != "cpu":
        return
    processor = machine.cpu()[0]
    emulated = processor.architecture == "x86_64" and "avx512f" not in processor.vector_extensions
    if emulated and int(factors.get("batch", _EMULATED + 1)) > _EMULATED:
        raise UnavailableError(
            "this processor has no AVX-512 and emulates bfloat16 some 20 times as slow as float32; "
            f"what it does is measured on {_EMULATED} images at most."
        )


def measure_here(factors: Factors, session: Session) -> tuple[Series, ...]:
    """The same in this process."""
    processes = _processes(session)
    multiplies = factors["subject"] == "matrix_product"
    measure = processes.multiply if multiplies else processes.needed
    return cast(tuple[Series, ...], measure(factors, session))


def time_case(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Steps of training, timed in this process, whole or layer by layer."""
    processes = _processes(session)
    time = processes.profile if factors["subject"] == "profile" else processes.train
    return cast(tuple[Series, ...], time(factors, session))


def _reading(sensor: str, session: Session) -> Series:
    found = sensors.read(sensor, session.device)
    return sensors.as_series(sensors.SENSORS[sensor], (found,))


def files(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """The trace of a profiled step; which photographs were trained on."""
    if factors["subject"] == "profile" and factors["precision"] == "float32":
        return _isolated_call(trace_here, factors, session)
    if factors.get("dataset") == "folder":
        return (_photographs_file(session),)
    return ()


def trace_here(factors: Factors, session: Session) -> tuple[CaseFile, ...]:
    """The trace of a step, made in this process."""
    return cast(tuple[CaseFile, ...], _processes(session).trace(factors, session))


def _processes(session: Session) -> ModuleType:
    """What processes of their own do, which needs torch."""
    runtime.start_torch(session.device, session.threads)
    from experiments import training_processes

    return training_processes


def _isolated_call(
    function: Callable[[Factors, Session], Result], factors: Factors, session: Session
) -> Result:
    return isolated.run(partial(function, factors, session))


def prepare(session: Session) -> None:
    """Look through the user's photographs before anything is measured; raises ``DataSetError``.

    What torch.compile makes is kept for the other processes of the run.
    """
    runtime.keep_compiled_code()
    if session.images is not None:
        from experiments.datasets.image_folder import require_pillow

        require_pillow()
        _photographs(session.images)


def _photographs_file(session: Session) -> CaseFile:
    from experiments.datasets.image_folder import identity

    assert session.images is not None
    content = identity(_photographs(session.images))
    return CaseFile("images.json", "which photographs were trained on", content)


@lru_cache(maxsize=1)
def _photographs(folder: Path) -> Photographs:
    from experiments.datasets.image_folder import photographs

    return photographs(folder)


def effort(factors: Factors) -> float:
    """Seconds, about: a process has to start, then it is work, or the time that a case has."""
    if factors["subject"] == "sensor":
        return 0.01
    if factors["subject"] == "matrix_product":
        return 5.0
    compiling = 30.0 if factors.get("execution", "eager") != "eager" else 0.0
    return 5.0 + compiling + max(2.0, 15 * _full_sized(factors) * _SECONDS[factors["network"]])


def _full_sized(factors: Factors) -> float:
    """The images of a step, as if all had 224 pixels a side."""
    return int(factors["batch"]) * int(factors["image"]) ** 2 / 224**2


def build(factors: Factors, device: Device) -> Workload:
    """The step whose work is counted."""
    from experiments.training_processes import second_step

    return second_step(factors, device)


def multiply_adds(factors: Factors) -> int:
    """Those expected of a step, about; they only tell how long counting takes."""
    return round(3 * _full_sized(factors) * _FORWARD[factors["network"]])


def calls(factors: Factors, thorough: bool) -> int:
    """A step of one small image, only if all is asked: a thousand times slower it takes minutes."""
    one = factors.get("batch") == 1 and int(factors["image"]) <= _COUNTED_IMAGE
    return int(thorough and _is_counted(factors) and one)


def calls_on_gpu(factors: Factors, thorough: bool) -> int:
    """One size of batch, unless all is asked: a step has some thousand kernels to replay."""
    return int(_is_counted(factors) and (thorough or factors["batch"] == _COUNTED_BATCH))


def _is_counted(factors: Factors) -> bool:
    """Whether a case is an eager step in float32; one of its processes is enough."""
    return factors["subject"] == "training" and factors.items() >= _COUNTED.items()


#: Seconds, and multiply-adds forward, of one image of full size, about.
_SECONDS: Final[Mapping[Level, float]] = {"ResNet-18": 0.08, "ResNet-50": 0.2, "MobileNetV2": 0.05}
_FORWARD: Final[Mapping[Level, float]] = {
    "ResNet-18": 1.8e9,
    "ResNet-50": 4.1e9,
    "MobileNetV2": 3e8,
}
#: What a case has whose work is counted.
_COUNTED: Final[Factors] = {**PLAIN, "dataset": "synthetic"}
_COUNTED_IMAGE: Final = 64
#: The largest batch that is trained on in an emulated precision.
_EMULATED: Final = 2
_COUNTED_BATCH: Final = 32


# ------------------------------------------------------------------------------------------ plan


#: A step with memory returned stands beside the others; six processes bound a median at 96.9 %.
_PROCESSES: Final[dict[Policy, int]] = {"retained": 6, "default": 1}

_ON_CPU: Final = Study(
    name="training_roofline",
    question="How near does the training of a network come to what the machine can do?",
    factors=(
        Factor("sweep", levels=SWEEPS, quick=SWEEPS),
        Factor("network", levels=NETWORKS, quick=("ResNet-18", "MobileNetV2")),
        Factor("image", levels=(64, 224), quick=(64,), any_count=True),
        Factor("batch", levels=(1, 8, 32), quick=(2, 8), any_count=True),
        Factor("precision", levels=("float32", "bfloat16"), quick=("float32", "bfloat16")),
        Factor(
            "layout",
            levels=("contiguous", "channels_last"),
            quick=("contiguous", "channels_last"),
        ),
        Factor("execution", levels=("eager", "compiled"), quick=("eager",)),
        Factor("optimizer", levels=("default", "fused"), quick=("default", "fused")),
        Factor("dataset", levels=("synthetic",), quick=("synthetic",)),
        Factor("workers", levels=(1,), quick=(1,), any_count=True),
        Factor("side", levels=(2048,), quick=(1024,), any_count=True),
    ),
    measures=(
        "first_call_time",
        "warmup_time",
        "time",
        "forward_time",
        "backward_time",
        "update_time",
        "cpu_time",
        "page_faults",
        "context_switches",
        "wait_time",
        "step_loss",
        "loader_wait_time",
        "layer_forward_time",
        "layer_backward_time",
        "memory_events",
        "allocated",
        *quantity_groups.COUNTED_WORK,
        *sensors.SENSORS.values(),
    ),
    cases=partial(cases, scale=CPU),
    layers=layers,
    measure=measure_case,
    timed=time_case,
    is_timed=lambda factors: factors["subject"] in {"training", "profile"},
    # An optimizer imports the compiler, whether it is used or not.
    imports=("torch._dynamo", "torch._inductor", "experiments.training_processes"),
    effort=effort,
    files=files,
    counting=Counting(
        workload=build,
        multiply_adds=multiply_adds,
        calls=calls,
        warm_up={
            "network": "MobileNetV2",
            "image": 64,
            "batch": 1,
            "precision": "float32",
            "layout": "contiguous",
        },
        calls_on_gpu=calls_on_gpu,
    ),
    prepare=prepare,
    images="folder",
    # A step takes up to seconds: fewer of them in a process leave time for more processes.
    full=replanned(
        FULL,
        warmup_calls=1,
        minimum_samples=2,
        maximum_samples=20,
        case_budget_s=1.0,
        processes=_PROCESSES,
        budget_s=1080.0,
    ),
    quick=replanned(QUICK, minimum_samples=3, maximum_samples=10, case_budget_s=0.5),
)

#: The factors that have other levels on a GPU.
_GPU_FACTORS: Final = (
    Factor("image", levels=(64, 224), quick=(224,), any_count=True),
    Factor("batch", levels=(8, 32, 64, 128, 256), quick=(8, 32), any_count=True),
    Factor(
        "precision",
        levels=("float32", "tfloat32", "bfloat16"),
        quick=("float32", "tfloat32", "bfloat16"),
    ),
    Factor("execution", levels=("eager", "compiled", "compiled_cuda_graph"), quick=("eager",)),
    Factor("workers", levels=(8,), quick=(8,), any_count=True),
    Factor("side", levels=(8192,), quick=(4096,), any_count=True),
)

_ON_GPU: Final = replace(
    _ON_CPU,
    factors=tuple(
        next((other for other in _GPU_FACTORS if other.name == factor.name), factor)
        for factor in _ON_CPU.factors
    ),
    cases=partial(cases, scale=GPU),
    full=replanned(FULL, maximum_samples=50, case_budget_s=1.5, processes=_PROCESSES),
)

STUDY = replace(_ON_CPU, on_gpu=_ON_GPU)
