"""Build the workloads of cases, and measure their memory and times in this process.

Functions import torch themselves, so that a process can measure another library without torch.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from experiments.harness import memory, timing
from experiments.harness.study import SEED, Device, Experiment, Session, Subject, UnavailableError
from experiments.harness.timing import Workload
from report.core.records.layers import Layer
from report.core.records.record import Case, Factors, SeriesByQuantity, Status

if TYPE_CHECKING:
    import torch
    from torch import nn

#: Settings of PyTorch's ImageNet example (github.com/pytorch/examples, imagenet/main.py).
LEARNING_RATE: Final = 0.1
MOMENTUM: Final = 0.9
WEIGHT_DECAY: Final = 1e-4


def build_subject(study: Experiment, factors: Factors, device: str) -> Subject:
    """Build the module and inputs of a case on ``device``, from the same seed every time."""
    import torch

    assert study.subject is not None
    torch.manual_seed(SEED)
    with torch.device(device):
        return study.subject(factors)


def layers_of_case(study: Experiment, factors: Factors) -> tuple[Layer, ...]:
    """List a case's layers by the plan or a run on the meta device; () if a kind is unknown."""
    if study.plan.layers is not None:
        return study.plan.layers(factors)
    if study.subject is None:
        return ()
    from experiments.networks.capture import UndescribedError, capture_layers

    subject = build_subject(study, factors, "meta")
    try:
        return capture_layers(subject.module.eval(), subject.inputs, root=subject.name)
    except UndescribedError:
        return ()


def unmeasured_case(study: Experiment, factors: Factors, status: Status, reason: str) -> Case:
    """Describe a case without measurements, with layers if the case can be built."""
    layers: tuple[Layer, ...] = ()
    with suppress(Exception):
        layers = layers_of_case(study, factors)
    return Case(factors=factors, status=status, reason=reason, layers=layers)


def build_workload(study: Experiment, factors: Factors, device: Device) -> Workload:
    """Build the workload of a case on ``device``; switch TF32 on or off for the whole process."""
    import torch

    subject = build_subject(study, factors, device)
    tf32 = subject.precision == "tfloat32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    if not isinstance(subject.mode, str):
        return Workload(subject.mode)
    if subject.mode == "step":
        _module, step = training_step(subject, device)
        step.call()  # allocates momentum and gradients, which stay in memory
        return step
    module, inputs = in_layout(subject)
    if subject.mode == "forward":

        def forward() -> object:
            with torch.no_grad(), autocast(subject, device):
                return module(inputs)

        return Workload(forward)
    # The meta device computes the shape, so that the measured device has not yet computed anything.
    meta_subject = build_subject(study, factors, "meta")
    with torch.no_grad():
        shape = meta_subject.module.eval()(meta_subject.inputs).shape
    torch.manual_seed(SEED)
    gradient = torch.randn(shape, device=device)
    inputs.requires_grad_()

    def forward_backward() -> object:
        output = module(inputs)
        output.backward(gradient)
        return output

    def drop_gradients() -> None:  # otherwise the next call would add to the gradients
        module.zero_grad(set_to_none=True)
        inputs.grad = None

    return Workload(forward_backward, drop_gradients)


def in_layout(subject: Subject) -> tuple[nn.Module, torch.Tensor]:
    """Return the converted module and its inputs, both in the subject's layout."""
    import torch

    module = subject.convert(subject.module) if subject.convert else subject.module
    if subject.layout == "contiguous":
        return module, subject.inputs
    layout: Any = torch.channels_last
    module.to(memory_format=layout)  # type: ignore[call-overload]
    return module, subject.inputs.contiguous(memory_format=layout)


def autocast(subject: Subject, device: Device) -> AbstractContextManager[object]:
    """Return ``torch.autocast`` for a 16-bit precision, a null context for other precisions."""
    import torch

    if subject.precision in ("float32", "tfloat32"):
        return nullcontext()
    return torch.autocast(device, dtype=getattr(torch, subject.precision))


#: Precision → function of ``torch.ops.mkldnn``: whether oneDNN has kernels for it on this
#: processor.
_KERNEL_TESTS: Final = {
    "bfloat16": "_is_mkldnn_bf16_supported",
    "float16": "_is_mkldnn_fp16_supported",
}


def refuse_emulated_precision(subject: Subject, device: Device) -> None:
    """Raise ``UnavailableError`` on a CPU without kernels of oneDNN for a 16-bit precision."""
    import torch

    precision = subject.precision
    if device != "cpu" or precision not in _KERNEL_TESTS:
        return
    has_onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not has_onednn or not getattr(torch.ops.mkldnn, _KERNEL_TESTS[precision])():
        raise UnavailableError(
            f"oneDNN has no {precision} kernels for this processor; without them it would take "
            "hundreds of times as long."
        )


def training_step(subject: Subject, device: Device) -> tuple[nn.Module, Workload]:
    """Build the module to train, and a step on images ``(N, 3, H, W)`` that returns the loss.

    The step is stochastic gradient descent with momentum and weight decay on the cross entropy.  It
    drops the old gradients first, which saves memory.  Before each step, the labels become new
    random numbers.  With constant labels, the network would learn the batch within a few steps, the
    gradients would vanish, and a device computes faster with zeros than with other numbers.
    Weights, gradients and momentum are float32 in every precision.
    """
    import torch

    module, images = in_layout(subject)
    module.train()
    optimizer = torch.optim.SGD(
        module.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    classifier = [part for part in module.modules() if isinstance(part, torch.nn.Linear)][-1]
    labels = torch.randint(classifier.out_features, images.shape[:1]).to(device)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with autocast(subject, device):
            loss = torch.nn.functional.cross_entropy(module(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    def change_labels() -> None:
        labels.random_(classifier.out_features)

    return module, Workload(step, change_labels)


def measure_memory(
    study: Experiment, factors: Factors, session: Session, repeats: int = memory.MEASUREMENTS
) -> SeriesByQuantity:
    """Measure the memory of a case (B) in ``repeats`` calls."""
    measure = memory.measure_cpu if session.device == "cpu" else memory.measure_cuda
    return measure(partial(build_workload, study, factors, session.device), repeats)


def measure_time(study: Experiment, factors: Factors, session: Session) -> SeriesByQuantity:
    """Measure the times of a case (s)."""
    workload = build_workload(study, factors, session.device)
    return timing.sample_times(workload, session.protocol, session.device)
