"""A case as something that can be called, and what is measured of it in the process that holds it.

Imports torch only when called, since an array library may have the process to itself.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
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

    from experiments.harness.training_step import Trainer


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
    """A case in memory, ready to be called."""
    import torch

    shape = _output_shape(subject_of(study, factors, "meta"))
    subject = subject_of(study, factors, device)
    with torch.device(device):
        return workload(subject, device, shape)


def _output_shape(subject: Subject) -> tuple[int, ...]:
    """That of what a gradient goes backward from, found without memory; () where none is needed."""
    import torch

    if subject.mode != "forward_backward" or subject.loss is not None:
        return ()
    with torch.no_grad():
        return tuple(subject.module(subject.inputs).shape)


def workload(subject: Subject, device: Device, output_shape: tuple[int, ...]) -> Workload:
    """One call of ``subject``; sets TF32 for this process until the next case."""
    import torch

    fast = subject.precision == "tfloat32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = fast
    if not isinstance(subject.mode, str):
        return Workload(subject.mode)
    if subject.mode == "step":
        return _step(subject, device)
    module, inputs = _laid_out(subject)
    if subject.mode == "forward":
        return forward(module, inputs, subject.precision, device)
    if subject.loss is not None:
        return _through_loss(module, inputs, subject.loss)
    return _forward_backward(module, inputs.requires_grad_(), torch.randn(output_shape))


def precisely(precision: str, device: str) -> AbstractContextManager[object]:
    """``torch.autocast`` to a precision of 16 bits; nothing for others."""
    import torch

    if precision in ("float32", "tfloat32"):
        return nullcontext()
    return torch.autocast(device, dtype=getattr(torch, precision))


def _laid_out(subject: Subject) -> tuple[nn.Module, torch.Tensor]:
    """The module that runs and its inputs, in the layout of the case."""
    import torch

    module = subject.executed(subject.module) if subject.executed else subject.module
    if subject.layout == "contiguous":
        return module, subject.inputs
    last = torch.channels_last
    return module.to(memory_format=last), subject.inputs.contiguous(memory_format=last)  # type: ignore[call-overload]


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

    return Workload(call, partial(_drop_gradients, module, inputs))


def _through_loss(
    module: nn.Module, inputs: torch.Tensor, loss: Callable[[torch.Tensor], torch.Tensor]
) -> Workload:
    def call() -> object:
        found = loss(module(inputs))
        found.backward()  # type: ignore[no-untyped-call]
        return found

    return Workload(call, partial(_drop_gradients, module, inputs))


def _drop_gradients(module: nn.Module, inputs: torch.Tensor) -> None:
    module.zero_grad(set_to_none=True)
    inputs.grad = None


def _step(subject: Subject, device: Device) -> Workload:
    """A step after the first, which has made the momentum and the gradients that then stay."""
    _, workload = training(subject, device)
    workload.call()
    return workload


def training(subject: Subject, device: Device) -> tuple[Trainer, Workload]:
    """What trains ``subject``, and a step of it on new random labels.

    A network learns one batch by heart within a few steps; its gradients vanish then, and a device
    computes with zeros faster than with numbers.
    """
    import torch

    from experiments.harness.training_step import trainer

    made = trainer(subject.module, device, subject.precision, subject.layout)
    (*_, last) = (m for m in subject.module.modules() if isinstance(m, torch.nn.Linear))
    labels = torch.randint(last.out_features, subject.inputs.shape[:1])
    batch = made.placed((subject.inputs, labels))

    def relabel() -> None:
        batch[1].random_(last.out_features)

    return made, Workload(lambda: made.step(batch), relabel)


# ------------------------------------------------------------------------------------- measuring


def times_of(study: Study, factors: Factors, session: Session) -> Results:
    """What one process measures of a case again and again."""
    if study.times is not None:
        return study.times(factors, session)
    return measure_time(lambda: build(study, factors, session.device), session)


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
    if session.device == "cpu":
        return memory.measure_cpu(make, repeats)
    return memory.measure_cuda(make, repeats)


def release(device: str) -> None:
    """Free what a case that failed may still hold."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
