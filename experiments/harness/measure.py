"""A case as something that can be called, and what is measured of it in the process that holds it.

Imports torch only when called, since an array library may have the process to itself.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, Final

from experiments.harness import memory, timing
from experiments.harness.study import (
    SEED,
    Device,
    Factors,
    Precision,
    Session,
    Study,
    Subject,
    UnavailableError,
)
from experiments.harness.timing import Workload
from report.records.layers import Layer
from report.records.record import Case, Measured, Status

if TYPE_CHECKING:
    import torch
    from torch import nn

#: Training as PyTorch's ImageNet example does it (github.com/pytorch/examples, imagenet/main.py).
LEARNING_RATE: Final = 0.1
MOMENTUM: Final = 0.9
WEIGHT_DECAY: Final = 1e-4


def subject_of(study: Study, factors: Factors, device: str) -> Subject:
    """What a case computes, on ``device``, with the same values every time."""
    import torch

    assert study.subject is not None
    torch.manual_seed(SEED)
    with torch.device(device):
        return study.subject(factors)


def layers_of_case(study: Study, factors: Factors) -> tuple[Layer, ...]:
    """The layers of a case as they stand, found on the meta device: it needs no memory."""
    if study.layers is not None:
        return study.layers(factors)
    if study.subject is None:
        return ()
    from experiments.harness.capture import layers_of

    subject = subject_of(study, factors, "meta")
    return layers_of(subject.module.eval(), subject.inputs, root=subject.name)


def unmeasured(study: Study, factors: Factors, status: Status, reason: str) -> Case:
    """A case of which nothing was measured; its layers are there if it can be built."""
    layers: tuple[Layer, ...] = ()
    with suppress(Exception):
        layers = layers_of_case(study, factors)
    return Case(factors=factors, status=status, reason=reason, layers=layers)


# ------------------------------------------------------------------------------------- workloads


def build(study: Study, factors: Factors, device: Device) -> Workload:
    """A case in memory, ready to be called; sets TF32 for this process until the next case."""
    import torch

    subject = subject_of(study, factors, device)
    fast = subject.precision == "tfloat32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = fast
    if not isinstance(subject.mode, str):
        return Workload(subject.mode)
    if subject.mode == "step":
        step = training(subject, device)[1]
        step.call()  # makes the momentum and the gradients, which then stay
        return step
    module, inputs = laid_out(subject)
    if subject.mode == "forward":

        def forward() -> object:
            with torch.no_grad(), precisely(subject.precision, device):  # not inference_mode
                return module(inputs)

        return Workload(forward)
    # Of layers that are found without memory, so that nothing was computed before.
    shape = layers_of_case(study, factors)[-1].output_shape
    torch.manual_seed(SEED)
    gradient = torch.randn(shape, device=device)
    inputs.requires_grad_()

    def call() -> object:
        output = module(inputs)
        output.backward(gradient)
        return output

    def drop() -> None:  # so that no gradient is accumulated
        module.zero_grad(set_to_none=True)
        inputs.grad = None

    return Workload(call, drop)


def laid_out(subject: Subject) -> tuple[nn.Module, torch.Tensor]:
    """What is executed and its inputs, in the layout that the subject asks for."""
    import torch

    module = subject.executed(subject.module) if subject.executed else subject.module
    if subject.layout == "contiguous":
        return module, subject.inputs
    last: Any = torch.channels_last
    return module.to(memory_format=last), subject.inputs.contiguous(memory_format=last)


def precisely(precision: Precision, device: Device) -> AbstractContextManager[object]:
    """``torch.autocast`` to a precision of 16 bits; nothing for others."""
    import torch

    if precision in ("float32", "tfloat32"):
        return nullcontext()
    return torch.autocast(device, dtype=getattr(torch, precision))


#: What asks oneDNN, which computes torch's convolutions, for its kernels of 16 bits.
_KERNELS: Final = {
    "bfloat16": "_is_mkldnn_bf16_supported",
    "float16": "_is_mkldnn_fp16_supported",
}


def refuse_emulated(subject: Subject, device: Device) -> None:
    """Raise ``UnavailableError`` for 16 bits of which this processor has no kernels.

    torch then computes element by element, hundreds of times slower than in float32.
    """
    import torch

    precision = subject.precision
    if device != "cpu" or precision not in _KERNELS:
        return
    there = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not there or not getattr(torch.ops.mkldnn, _KERNELS[precision])():
        raise UnavailableError(
            f"oneDNN has no {precision} kernels for this processor; without them it would take "
            "hundreds of times as long."
        )


def training(subject: Subject, device: Device) -> tuple[nn.Module, Workload]:
    """What is trained, and a step of it on images ``(N, 3, H, W)`` that gives the loss.

    A step is one of stochastic gradient descent with momentum and weight decay on the cross
    entropy.  Gradients are dropped at its beginning, not behind its forward pass, so that they do
    not stand beside the activations.  Before each step new random labels are put into the same
    memory: a network learns one batch by heart within a few steps, its gradients vanish then, and a
    device computes with zeros faster than with numbers.  Weights, gradients and momentum are
    float32 in every precision.
    """
    import torch

    module, images = laid_out(subject)
    module.train()
    optimizer = torch.optim.SGD(
        module.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    (*_, last) = (part for part in module.modules() if isinstance(part, torch.nn.Linear))
    labels = torch.randint(last.out_features, images.shape[:1]).to(device)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with precisely(subject.precision, device):
            loss = torch.nn.functional.cross_entropy(module(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    def relabel() -> None:
        labels.random_(last.out_features)

    return module, Workload(step, relabel)


# ------------------------------------------------------------------------------------- measuring


def measure_memory(
    study: Study, factors: Factors, session: Session, repeats: int = memory.REPEATS
) -> Measured:
    """Bytes alone, with their raw samples."""
    measure = memory.measure_cpu if session.device == "cpu" else memory.measure_cuda
    return measure(lambda: build(study, factors, session.device), repeats)


def measure_time(study: Study, factors: Factors, session: Session) -> Measured:
    """Durations alone, with their raw samples; nothing is left of the workload."""
    workload = build(study, factors, session.device)
    return timing.warmed_and_repeated(workload, session.protocol, session.device)
