"""One call of a module as a workload: forward, forward and backward, or through a loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.harness.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch import nn


def forward(module: nn.Module, source: torch.Tensor) -> Workload:
    """One call without gradients, under ``torch.no_grad()`` (not ``inference_mode``)."""
    import torch

    def call() -> object:
        with torch.no_grad():
            return module(source)

    return Workload(call, reset=lambda: None)


def forward_backward(module: nn.Module, source: torch.Tensor, gradient: torch.Tensor) -> Workload:
    """One call and ``output.backward(gradient)``; ``gradient`` has the shape of the output.

    ``source`` may require its gradient, as the input of a layer inside a network does.  Gradients
    are dropped before each call, so that none is accumulated.
    """

    def call() -> object:
        output = module(source)
        output.backward(gradient)
        return output

    return Workload(call, _dropping_gradients(module, source))


def loss_backward(
    module: nn.Module,
    source: torch.Tensor,
    labels: torch.Tensor,
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> Workload:
    """A training step without its update: one call, its loss against ``labels``, and backward."""

    def call() -> object:
        found = loss(module(source), labels)
        found.backward()  # type: ignore[no-untyped-call]
        return found

    return Workload(call, _dropping_gradients(module, source))


def _dropping_gradients(module: nn.Module, source: torch.Tensor) -> Callable[[], None]:
    def reset() -> None:
        module.zero_grad(set_to_none=True)
        source.grad = None

    return reset
