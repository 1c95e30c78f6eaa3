"""One step of training as PyTorch's ImageNet example does it; imports torch.

The example (github.com/pytorch/examples, imagenet/main.py) trains by stochastic gradient descent
with a learning rate of 0.1, momentum 0.9 and weight decay 1e-4 on the cross entropy.  Here the
gradients are dropped at the beginning of a step, not behind its forward pass, so that they do not
stand beside the activations.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from experiments.harness.study import Device
from experiments.harness.workload import Workload

LEARNING_RATE: Final = 0.1
MOMENTUM: Final = 0.9
WEIGHT_DECAY: Final = 1e-4

Precision: TypeAlias = Literal["float32", "tfloat32", "bfloat16"]
Layout: TypeAlias = Literal["contiguous", "channels_last"]
Batch: TypeAlias = tuple[torch.Tensor, torch.Tensor]
#: Stands around a phase of a step: ``forward``, ``backward`` and ``update``.
Mark: TypeAlias = Callable[[str], AbstractContextManager[object]]

_LAYOUTS: Final[dict[Layout, torch.memory_format]] = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
}


def unmarked(phase: str) -> AbstractContextManager[object]:
    """Around a phase that nobody looks at."""
    return nullcontext()


def marked(phase: str) -> AbstractContextManager[object]:
    """Around a phase that a profile shall show as ``ridgepoint.<phase>``."""
    return torch.profiler.record_function(f"ridgepoint.{phase}")


@dataclass(frozen=True)
class Trainer:
    """A network in training mode with its optimiser, on one device."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    device: Device
    precision: Precision
    layout: Layout

    def step(self, batch: Batch, mark: Mark = unmarked) -> torch.Tensor:
        """One step on images ``(N, 3, H, W)`` and labels ``(N,)``; the loss, without its graph."""
        images, labels = batch
        with mark("forward"):
            self.optimizer.zero_grad(set_to_none=True)
            with self._arithmetic():
                loss = functional.cross_entropy(self.module(images), labels)
        with mark("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        with mark("update"):
            self.optimizer.step()
        return loss.detach()

    def placed(self, batch: Batch) -> Batch:
        """The batch on the device, in the layout of the network, and there when this returns."""
        images, labels = batch
        images = images.to(self.device, non_blocking=True, memory_format=_LAYOUTS[self.layout])
        labels = labels.to(self.device, non_blocking=True)
        if self.device == "cuda":
            torch.cuda.synchronize()
        return images, labels

    def _arithmetic(self) -> AbstractContextManager[object]:
        if self.precision == "bfloat16":
            return torch.autocast(self.device, torch.bfloat16)
        return nullcontext()


def trainer(
    module: nn.Module,
    device: Device,
    precision: Precision = "float32",
    layout: Layout = "contiguous",
    *,
    fused: bool = False,
) -> Trainer:
    """``module`` moved to ``device`` and ``layout``, in training mode, with its optimiser.

    Weights, gradients and momentum are float32 in every precision.  tfloat32 is a switch of the
    process, so that it holds for all that follows; ``fused`` updates all parameters in one kernel.
    """
    if precision == "tfloat32":
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cudnn.allow_tf32 = True
    module = module.to(device).to(memory_format=_LAYOUTS[layout]).train()  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(
        module.parameters(),
        lr=LEARNING_RATE,
        momentum=MOMENTUM,
        weight_decay=WEIGHT_DECAY,
        fused=True if fused else None,
    )
    return Trainer(module, optimizer, device, precision, layout)


def synthetic(batch: int, size: int, classes: int) -> Batch:
    """Random images ``(batch, 3, size, size)``, as normalised ones are, and random labels."""
    return torch.randn(batch, 3, size, size), torch.randint(classes, (batch,))


def relabelled(batch: Batch, classes: int) -> Batch:
    """The same batch with new random labels, in the same memory.

    A network learns one batch by heart within a few steps; its gradients vanish then, and a device
    computes with zeros faster than with numbers.
    """
    batch[1].random_(classes)
    return batch


def captured(trainer: Trainer, batch: Batch, warmup: int) -> Workload:
    """The step as a CUDA graph, which one call launches whole; ``warmup`` steps come before.

    As torch's manual asks, these run on a stream of their own, and the gradients are dropped before
    the capture, so that they lie in the graph's memory.  What a replay returns is the loss.
    """
    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warmup):
            trainer.step(batch)
    torch.cuda.current_stream().wait_stream(side)
    trainer.optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = trainer.step(batch)

    def replay() -> object:
        graph.replay()
        return loss

    return Workload(replay, reset=lambda: None)
