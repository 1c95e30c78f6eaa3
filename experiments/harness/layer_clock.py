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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias

import torch
from torch import nn

from report.errors import MeasurementError
from report.records.record import Measured

#: The durations (s) of each layer and direction, such as ``backward conv1``, step by step.
Durations: TypeAlias = Mapping[str, Sequence[float]]


@contextmanager
def watched(module: nn.Module) -> Iterator[Durations]:
    """Time every layer of ``module`` by the host's clock, each of which runs once a step."""
    began: dict[str, int] = {}
    found: dict[str, list[float]] = defaultdict(list)

    def enter(name: str, *given: object) -> None:
        began[name] = time.perf_counter_ns()

    def leave(name: str, *given: object) -> None:
        found[name].append((time.perf_counter_ns() - began[name]) / 1e9)

    def ended(name: str, module: nn.Module, inputs: object, output: torch.Tensor) -> None:
        leave(f"forward {name}")
        if output.grad_fn is not None:
            output.grad_fn.register_prehook(partial(enter, f"backward {name}"))
            output.grad_fn.register_hook(partial(leave, f"backward {name}"))

    hooks = []
    for name, part in module.named_modules():
        if next(part.children(), None) is None and not isinstance(part, nn.Identity):
            hooks.append(part.register_forward_pre_hook(partial(enter, f"forward {name}")))
            hooks.append(part.register_forward_hook(partial(ended, name)))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


def series(found: Durations, names: Sequence[str], steps: int) -> Measured:
    """``layer_forward_time`` and ``layer_backward_time``, all layers of a step, step by step.

    Raises ``MeasurementError`` if a layer did not run once a step in both directions.
    """
    samples = {}
    for way in ("forward", "backward"):
        columns = {name: found.get(f"{way} {name}", ()) for name in names}
        for name, column in columns.items():
            if len(column) != steps:
                raise MeasurementError(
                    f"Layer {way} {name}: {len(column)} of {steps} steps were seen; "
                    "experiments/harness/layer_clock.py must learn how it is differentiated."
                )
        every = zip(*columns.values(), strict=True)
        samples[f"layer_{way}_time"] = tuple(each for step in every for each in step)
    return samples
