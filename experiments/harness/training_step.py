"""One step of training as PyTorch's ImageNet example does it; imports torch.

The example (github.com/pytorch/examples, imagenet/main.py) trains by stochastic gradient descent
with a learning rate of 0.1, momentum 0.9 and weight decay 1e-4 on the cross entropy.  Here the
gradients are dropped at the beginning of a step, not behind its forward pass, so that they do not
stand beside the activations.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from experiments.harness.layer_times import Mark
from experiments.harness.measure import precisely
from experiments.harness.study import Device, Layout, Precision

LEARNING_RATE: Final = 0.1
MOMENTUM: Final = 0.9
WEIGHT_DECAY: Final = 1e-4

Batch: TypeAlias = tuple[torch.Tensor, torch.Tensor]

_LAYOUTS: Final[dict[Layout, torch.memory_format]] = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
}


def unmarked(phase: str) -> AbstractContextManager[object]:
    """Around a phase that nobody looks at."""
    return nullcontext()


@dataclass(frozen=True)
class Trainer:
    """A network in training mode with its optimiser, on one device."""

    module: nn.Module
    optimizer: torch.optim.Optimizer
    device: Device
    precision: Precision
    layout: Layout

    def step(self, batch: Batch, mark: Mark = unmarked) -> torch.Tensor:
        """One step on images ``(N, 3, H, W)`` and labels ``(N,)``; the loss, without its graph.

        ``mark`` stands around the phases ``forward``, ``backward`` and ``update``.
        """
        images, labels = batch
        with mark("forward"):
            self.optimizer.zero_grad(set_to_none=True)
            with precisely(self.precision, self.device):
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
