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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import nn
from torch.nn import functional

from experiments.harness.measure import precisely
from experiments.harness.study import Device, Layout, Precision
from experiments.harness.timing import seconds
from report.errors import MeasurementError
from report.records.record import Series

LEARNING_RATE: Final = 0.1
MOMENTUM: Final = 0.9
WEIGHT_DECAY: Final = 1e-4

Direction: TypeAlias = Literal["forward", "backward"]
#: Stands around a phase of a step, or around one layer in one direction (``backward conv1``).
Mark: TypeAlias = Callable[[str], AbstractContextManager[object]]

DIRECTIONS: Final[tuple[Direction, Direction]] = ("forward", "backward")
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


# ---------------------------------------------------------------------------------------- layers


class LayerClock:
    """How long each layer takes, by the host's clock or by events of the device."""

    def __init__(self, device: Device) -> None:
        """Begin without any layer."""
        self._stamp: Callable[[], Any] = _event if device == "cuda" else time.perf_counter_ns
        self._stamps: dict[str, list[tuple[Any, Any]]] = {}

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        """Stand around what ``name`` says."""
        begin = self._stamp()
        yield
        self._stamps.setdefault(name, []).append((begin, self._stamp()))

    def series(self, names: Sequence[str]) -> tuple[Series, ...]:
        """``layer_forward_time`` and ``layer_backward_time``, all layers of a step, step by step.

        The device must have finished.  Raises ``MeasurementError`` if a layer did not run once a
        step in both directions.
        """
        steps = max(map(len, self._stamps.values()))
        for name in (f"{direction} {name}" for direction in DIRECTIONS for name in names):
            if (seen := len(self._stamps.get(name, ()))) != steps:
                raise MeasurementError(
                    f"Layer {name}: {seen} of {steps} steps were seen; "
                    "experiments/harness/training_step.py must learn how it is differentiated."
                )
        return tuple(
            seconds(
                f"layer_{direction}_time",
                [
                    _between(*self._stamps[f"{direction} {name}"][step])
                    for step in range(steps)
                    for name in names
                ],
            )
            for direction in DIRECTIONS
        )


def _event() -> Any:
    kind: Any = torch.cuda.Event
    event = kind(enable_timing=True)
    event.record()
    return event


def _between(begin: Any, end: Any) -> float:
    """Seconds from one stamp to another."""
    return (end - begin) / 1e9 if isinstance(begin, int) else begin.elapsed_time(end) / 1e3


@contextmanager
def watched(module: nn.Module, mark: Mark) -> Iterator[None]:
    """Let ``mark`` stand around every layer of ``module``, both ways, while this is open."""
    hooks = []
    for name, part in module.named_modules():
        if next(part.children(), None) is None and not isinstance(part, nn.Identity):
            watch = _Watch(name, mark)
            hooks.append(part.register_forward_pre_hook(lambda *_, w=watch: w.enter("forward")))
            hooks.append(part.register_forward_hook(watch.leave_forward))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Watch:
    """The marks of one layer; it runs once a step."""

    def __init__(self, name: str, mark: Mark) -> None:
        self._name = name
        self._mark = mark
        self._open: Any = None

    def enter(self, direction: Direction) -> None:
        self._open = self._mark(f"{direction} {self._name}")
        self._open.__enter__()

    def leave(self) -> None:
        self._open.__exit__(None, None, None)

    def leave_forward(self, module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        self.leave()
        node = output.grad_fn
        if node is not None:
            node.register_prehook(lambda gradients: self.enter("backward"))
            node.register_hook(lambda ins, outs: self.leave())
