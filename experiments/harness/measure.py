"""A case as something that can be called, and what is measured of it in the process that holds it.

Imports torch only when called, since an array library may have the process to itself.
"""

from __future__ import annotations

import gc
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from experiments.harness import memory, timing
from experiments.harness.memory import REPEATS
from experiments.harness.study import (
    SEED,
    Device,
    Factors,
    Precision,
    Results,
    Session,
    Study,
    Subject,
)
from experiments.harness.timing import Build, Workload
from report.records.layers import Layer
from report.records.record import Series

if TYPE_CHECKING:
    import torch
    from torch import nn


def subject_of(study: Study, factors: Factors, device: str) -> Subject:
    """What a case computes, on ``device``, with the same values every time."""
    import torch

    assert study.subject is not None
    torch.manual_seed(SEED)
    with torch.device(device):
        return study.subject(factors)


def layers_of_case(study: Study, factors: Factors) -> tuple[Layer, ...]:
    """The layers of a case as they stand, found on the meta device: it needs no memory."""
    found = study.layers(factors)
    if found is not None or study.subject is None:
        return found or ()
    from experiments.harness.capture import layers_of

    subject = subject_of(study, factors, "meta")
    return layers_of(subject.module.eval(), subject.inputs, root=subject.name)


def build(study: Study, factors: Factors, device: Device) -> Workload:
    """A case in memory, ready to be called; sets TF32 for this process until the next case."""
    import torch

    subject = subject_of(study, factors, device)
    fast = subject.precision == "tfloat32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = fast
    if not isinstance(subject.mode, str):
        return Workload(subject.mode)
    if subject.mode == "step":
        from experiments.harness.training_step import training

        step = training(subject, device)[1]
        step.call()  # makes the momentum and the gradients, which then stay
        return step
    module = subject.executed(subject.module) if subject.executed else subject.module
    inputs = subject.inputs
    if subject.layout == "channels_last":
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        inputs = inputs.contiguous(memory_format=torch.channels_last)
    if subject.mode == "forward":
        return forward(module, inputs, subject.precision, device)
    # The shape of the output is found without memory, so that nothing was computed before.
    unreal = subject_of(study, factors, "meta")
    with torch.no_grad():
        shape = unreal.module(unreal.inputs).shape
    torch.manual_seed(SEED)
    gradient = torch.randn(shape, device=device)
    return _forward_backward(module, inputs.requires_grad_(), gradient)


def precisely(precision: str, device: str) -> AbstractContextManager[object]:
    """``torch.autocast`` to a precision of 16 bits; nothing for others."""
    import torch

    if precision in ("float32", "tfloat32"):
        return nullcontext()
    return torch.autocast(device, dtype=getattr(torch, precision))


def forward(
    module: nn.Module,
    inputs: torch.Tensor,
    precision: Precision = "float32",
    device: Device = "cpu",
) -> Workload:
    """One call without gradients, under ``torch.no_grad()`` (not ``inference_mode``)."""
    import torch

    def call() -> object:
        with torch.no_grad(), precisely(precision, device):
            return module(inputs)

    return Workload(call)


def _forward_backward(module: nn.Module, inputs: torch.Tensor, gradient: torch.Tensor) -> Workload:
    """One call and its gradients, which are dropped before each so that none is accumulated."""

    def call() -> object:
        output = module(inputs)
        output.backward(gradient)
        return output

    def drop() -> None:
        module.zero_grad(set_to_none=True)
        inputs.grad = None

    return Workload(call, drop)


# ------------------------------------------------------------------------------------- measuring


def memory_of(study: Study, factors: Factors, session: Session) -> Results:
    """What is measured of a case once, and the files that it leaves."""
    if study.memory is not None:
        return study.memory(factors, session)
    if study.subject is None:
        return ()
    return measure_memory(lambda: build(study, factors, session.device), session)


def measure_time(make: Build, session: Session) -> tuple[Series, ...]:
    """Durations alone, with their raw samples; nothing is left of the workload."""
    times = timing.warmed_and_repeated(make(), session.protocol, session.device)
    gc.collect()
    return times


def measure_memory(make: Build, session: Session, repeats: int = REPEATS) -> tuple[Series, ...]:
    """Bytes alone, with their raw samples."""
    measure = memory.measure_cpu if session.device == "cpu" else memory.measure_cuda
    return measure(make, repeats)


def release(device: str) -> None:
    """Free what a case that failed may still hold."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
