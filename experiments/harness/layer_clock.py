"""How long each layer takes in a step of training, both ways; imports torch.

Hooks stand around the forward call of each layer, and around the node of automatic differentiation
that its result came from, so that nothing is guessed from the order or the shapes of operators.
Conversions of weights to another precision lie inside the layer forward, and outside of it
backward; the sum of two gradients where ways fork, and what autograd does between its nodes, belong
to no layer.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from torch import nn

from report.errors import MeasurementError
from report.records.record import Measured


class LayerClock:
    """The durations of each layer in each direction, by the host's clock."""

    def __init__(self) -> None:
        """Begin without any layer."""
        self._began = dict[str, int]()
        self._durations = defaultdict[str, list[float]](list)

    def _enter(self, name: str, *given: object) -> None:
        self._began[name] = time.perf_counter_ns()

    def _leave(self, name: str, *given: object) -> None:
        self._durations[name].append((time.perf_counter_ns() - self._began[name]) / 1e9)

    @contextmanager
    def watching(self, module: nn.Module) -> Iterator[None]:
        """Time every layer of ``module``, each of which runs once a step, while this is open."""
        hooks = []
        for name, part in module.named_modules():
            if next(part.children(), None) is None and not isinstance(part, nn.Identity):
                hooks += [
                    part.register_forward_pre_hook(partial(self._enter, f"forward {name}")),
                    part.register_forward_hook(partial(self._ended, name)),
                ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _ended(self, name: str, module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        self._leave(f"forward {name}")
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(partial(self._enter, f"backward {name}"))
            output.grad_fn.register_hook(partial(self._leave, f"backward {name}"))

    def series(self, names: Sequence[str]) -> Measured:
        """``layer_forward_time`` and ``layer_backward_time``, all layers of a step, step by step.

        Raises ``MeasurementError`` if a layer did not run once a step in both directions.
        """
        steps = max(map(len, self._durations.values()))
        found: Measured = {}
        for direction in ("forward", "backward"):
            columns = [self._durations[f"{direction} {name}"] for name in names]
            for name, column in zip(names, columns, strict=True):
                if len(column) != steps:
                    raise MeasurementError(
                        f"Layer {direction} {name}: {len(column)} of {steps} steps were seen; "
                        "experiments/harness/layer_clock.py must learn how it is differentiated."
                    )
            every = zip(*columns, strict=True)
            found[f"layer_{direction}_time"] = tuple(each for step in every for each in step)
        return found
