"""Each layer of a training step by itself, forward and backward; imports torch.

Hooks stand around the forward call of every layer, and around the node of automatic
differentiation that its result came from, so that nothing is guessed from the order or the shapes
of operators.  Conversions of weights to another precision lie inside the layer forward, and outside
of it backward; the sum of two gradients where ways fork, and what autograd does between its nodes,
belong to no layer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import nn

from experiments.harness.study import Device
from experiments.harness.timing import seconds
from report.errors import MeasurementError
from report.records.record import Series

Direction: TypeAlias = Literal["forward", "backward"]
#: Stands around one layer in one direction, which it names, such as ``backward conv1``.
Mark: TypeAlias = Callable[[str], AbstractContextManager[object]]

DIRECTIONS: Final[tuple[Direction, Direction]] = ("forward", "backward")


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
                    "experiments/harness/layer_times.py must learn how it is differentiated."
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
