"""One step of training as PyTorch's ImageNet example does it; imports torch.

The example (github.com/pytorch/examples, imagenet/main.py) trains by stochastic gradient descent
with a learning rate of 0.1, momentum 0.9 and weight decay 1e-4 on the cross entropy.  Here the
gradients are dropped at the beginning of a step, not behind its forward pass, so that they do not
stand beside the activations.

Layers are timed by themselves by hooks around the forward call of each, and around the node of
automatic differentiation that its result came from, so that nothing is guessed from the order or
the shapes of operators.  Conversions of weights to another precision lie inside the layer forward,
and outside of it backward; the sum of two gradients where ways fork, and what autograd does between
its nodes, belong to no layer.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import torch
from torch import nn
from torch.nn import functional
from torch.utils.hooks import RemovableHandle

from experiments.harness.measure import precisely
from experiments.harness.study import Device, Layout, Subject
from experiments.harness.timing import Workload, seconds
from report.errors import MeasurementError
from report.records.record import Series

LEARNING_RATE: Final = 0.1
MOMENTUM: Final = 0.9
WEIGHT_DECAY: Final = 1e-4

_LAYOUTS: Final[dict[Layout, torch.memory_format]] = {
    "contiguous": torch.contiguous_format,
    "channels_last": torch.channels_last,
}


def training(subject: Subject, device: Device) -> tuple[nn.Module, Workload]:
    """What is trained, and a step of it on images ``(N, 3, H, W)`` that gives the loss.

    Before each step new random labels are put into the same memory: a network learns one batch by
    heart within a few steps, its gradients vanish then, and a device computes with zeros faster
    than with numbers.  Weights, gradients and momentum are float32 in every precision.
    """
    layout = _LAYOUTS[subject.layout]
    module = subject.module.to(device).to(memory_format=layout).train()  # type: ignore[call-overload]
    optimizer = torch.optim.SGD(
        module.parameters(), lr=LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY
    )
    (*_, last) = (part for part in module.modules() if isinstance(part, nn.Linear))
    images = subject.inputs.to(device, memory_format=layout)
    labels = torch.randint(last.out_features, images.shape[:1]).to(device)

    def step() -> torch.Tensor:
        optimizer.zero_grad(set_to_none=True)
        with precisely(subject.precision, device):
            loss = functional.cross_entropy(module(images), labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.detach()

    def relabel() -> None:
        labels.random_(last.out_features)

    return module, Workload(step, relabel)


# ---------------------------------------------------------------------------------------- layers


class LayerClock:
    """How long each layer takes in each direction, by the host's clock."""

    def __init__(self) -> None:
        """Begin without any layer."""
        self._began = dict[str, int]()
        self._durations = defaultdict[str, list[float]](list)

    def enter(self, name: str) -> None:
        """What ``name`` says (``backward conv1``) begins."""
        self._began[name] = time.perf_counter_ns()

    def leave(self, name: str) -> None:
        """It has ended."""
        self._durations[name].append((time.perf_counter_ns() - self._began[name]) / 1e9)

    def series(self, names: Sequence[str]) -> tuple[Series, ...]:
        """``layer_forward_time`` and ``layer_backward_time``, all layers of a step, step by step.

        Raises ``MeasurementError`` if a layer did not run once a step in both directions.
        """
        steps = max(map(len, self._durations.values()))
        found = []
        for direction in ("forward", "backward"):
            columns = [self._durations[f"{direction} {name}"] for name in names]
            for name, column in zip(names, columns, strict=True):
                if len(column) != steps:
                    raise MeasurementError(
                        f"Layer {direction} {name}: {len(column)} of {steps} steps were seen; "
                        "experiments/harness/training_step.py must learn how it is differentiated."
                    )
            samples = [duration for step in zip(*columns, strict=True) for duration in step]
            found.append(seconds(f"layer_{direction}_time", samples))
        return tuple(found)


@contextmanager
def watched(module: nn.Module, clock: LayerClock) -> Iterator[None]:
    """Let ``clock`` time every layer of ``module``, both ways, while this is open."""
    hooks = []
    for name, part in module.named_modules():
        if next(part.children(), None) is None and not isinstance(part, nn.Identity):
            hooks += _watch(name, part, clock)
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _watch(name: str, part: nn.Module, clock: LayerClock) -> tuple[RemovableHandle, ...]:
    """Time one layer, which runs once a step."""
    forward, backward = f"forward {name}", f"backward {name}"

    def ended(module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        clock.leave(forward)
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(lambda gradients: clock.enter(backward))
            output.grad_fn.register_hook(lambda ins, outs: clock.leave(backward))

    return (
        part.register_forward_pre_hook(lambda *_: clock.enter(forward)),
        part.register_forward_hook(ended),
    )
