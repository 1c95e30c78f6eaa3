"""Each layer of a training step by itself, forward and backward; imports torch.

Hooks stand around the forward call of every layer, and around the node of automatic
differentiation that its result came from, so that nothing is guessed from the order or the shapes
of operators.  Conversions of weights to another precision lie inside the layer forward, and outside
of it backward; the sum of two gradients where ways fork, and what autograd does between its nodes,
belong to no layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal, TypeAlias

import torch
from torch import nn

from experiments.harness.steps import PhaseClock
from report.errors import MeasurementError
from report.records.record import Series

Direction: TypeAlias = Literal["forward", "backward"]
#: Stands around one layer in one direction.
LayerMark: TypeAlias = Callable[[Direction, str], Any]

DIRECTIONS: Final[tuple[Direction, Direction]] = ("forward", "backward")


@contextmanager
def watched(module: nn.Module, mark: LayerMark) -> Iterator[None]:
    """Let ``mark`` stand around every layer of ``module``, both ways, while this is open."""
    hooks = []
    for name, part in module.named_modules():
        if next(part.children(), None) is None and not isinstance(part, nn.Identity):
            watch = _Watch(name, mark)
            hooks.append(part.register_forward_pre_hook(watch.enter_forward))
            hooks.append(part.register_forward_hook(watch.leave_forward))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class _Watch:
    """The marks of one layer; it runs once a step."""

    def __init__(self, name: str, mark: LayerMark) -> None:
        self._name = name
        self._mark = mark
        self._open: Any = None

    def enter_forward(self, *arguments: object) -> None:
        self._enter("forward")

    def leave_forward(self, module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        self._leave()
        node = output.grad_fn
        if node is not None:
            node.register_prehook(lambda gradients: self._enter("backward"))
            node.register_hook(lambda ins, outs: self._leave())

    def _enter(self, direction: Direction) -> None:
        self._open = self._mark(direction, self._name)
        self._open.__enter__()

    def _leave(self) -> None:
        self._open.__exit__(None, None, None)
        self._open = None


def profile_mark(direction: Direction, name: str) -> Any:
    """A mark that a profile shows, such as ``backward conv1``."""
    return torch.profiler.record_function(f"{direction} {name}")


def clock_mark(clock: PhaseClock) -> LayerMark:
    """A mark that measures."""
    return lambda direction, name: clock.mark(f"{direction} {name}")


def series_of(clock: PhaseClock, names: Sequence[str]) -> tuple[Series, ...]:
    """``layer_forward_time`` and ``layer_backward_time`` of the layers ``names``, step after step.

    Raises ``MeasurementError`` if a layer did not run once a step in both directions.
    """
    found = clock.seconds()
    return tuple(
        Series(
            quantity=f"layer_{direction}_time",
            unit="s",
            samples=_interleaved([found.get(f"{direction} {name}", ()) for name in names], names),
        )
        for direction in DIRECTIONS
    )


def _interleaved(columns: Sequence[tuple[float, ...]], names: Sequence[str]) -> tuple[float, ...]:
    """Row by row: all layers of the first step, then of the second."""
    steps = max(map(len, columns))
    for name, column in zip(names, columns, strict=True):
        if len(column) != steps:
            raise MeasurementError(
                f"Layer {name}: {len(column)} of {steps} steps were seen; "
                "experiments/harness/layer_times.py must learn how this layer is differentiated."
            )
    return tuple(column[step] for step in range(steps) for column in columns)
