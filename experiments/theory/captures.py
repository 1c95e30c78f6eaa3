"""The inputs, choices and result of a capture; importing this module imports no torch.

A capture lists the operators that a network calls, with the shapes of their tensors, and runs
without data or memory for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from report.core.errors import UsageError
from report.core.records.operations import Operator
from report.theory.network import Theory

if TYPE_CHECKING:
    import torch
    from torch import nn

#: Function that builds a network; called on the meta device, so that parameters use no memory.
Build: TypeAlias = "Callable[[], nn.Module]"
Optimizer: TypeAlias = Literal["sgd", "momentum", "adam", "adamw", "adafactor"]
Update: TypeAlias = Literal["single", "foreach", "fused"]


@dataclass(frozen=True)
class CapturePolicy:
    """Choices that change a network's memory; all but ``autocast`` apply to training steps only.

    - ``autocast``: dtype in which operators compute where ``torch.autocast`` considers it safe;
    - ``optimizer``: the optimiser that updates the parameters;
    - ``update``: how the optimiser updates the parameters: ``single`` (one by one), ``foreach`` (as
      lists) or ``fused`` (in one kernel); None is PyTorch's default;
    - ``accumulate``: number of batches before an update, 1 to 1000;
    - ``checkpoint``: names of modules whose activations the backward pass computes again;
    - ``gradients_only``: run only a forward and a backward pass, without loss and update, and also
      compute the gradients of the inputs.

    Raises ``UsageError`` if ``accumulate`` is out of range, and for ``fused`` with Adafactor, which
    has no such update.
    """

    autocast: str | None = None
    optimizer: Optimizer = "momentum"
    update: Update | None = None
    accumulate: int = 1
    checkpoint: Sequence[str] = ()
    gradients_only: bool = False

    def __post_init__(self) -> None:
        if not 1 <= self.accumulate <= 1000:
            raise UsageError("--accumulate is a whole number from 1 to 1000.")
        if (self.optimizer, self.update) == ("adafactor", "fused"):
            raise UsageError("PyTorch has no fused Adafactor; choose single or foreach.")

    def update_on(self, gpu: bool) -> Update:
        """Return ``update``, or PyTorch's default on a GPU or CPU if ``update`` is None."""
        is_foreach = gpu and self.optimizer != "adafactor"
        return self.update or ("foreach" if is_foreach else "single")


DEFAULT_POLICY: Final = CapturePolicy()


@dataclass(frozen=True)
class Input:
    """Shape, element type, layout and batch axes of one argument of a network."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    channels_last: bool = False
    batch_axes: tuple[int, ...] = (0,)

    @property
    def batch(self) -> int:
        """Extent of the first batch axis; 0 for an input without batch axes or without axes."""
        return self.shape[self.batch_axes[0]] if self.batch_axes and self.shape else 0

    def tensor(self, device: torch.device) -> torch.Tensor:
        """Allocate a tensor of this shape, type and layout with undefined elements."""
        import torch

        tensor = torch.empty(self.shape, dtype=getattr(torch, self.dtype), device=device)
        if self.channels_last:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor


def inputs_at_batch(inputs: Sequence[Input], batch: int | None) -> Sequence[Input]:
    """Return the inputs with ``batch`` as batch size; None leaves the inputs unchanged.

    The old batch size is the first input's that has a batch axis; axes of other extents stay.
    """
    if batch is None:
        return inputs
    old_batch = next((item.batch for item in inputs if item.batch), None)
    new_inputs = []
    for item in inputs:
        shape = list(item.shape)
        for axis, extent in enumerate(item.shape):
            if axis in item.batch_axes and extent == old_batch:
                shape[axis] = batch
        new_inputs.append(replace(item, shape=tuple(shape)))
    return new_inputs


class Capture(NamedTuple):
    """Theory of a captured network, with values that check the theory.

    ``flops`` maps the index of an operator to its FLOPs by torch's own counter.  ``probe`` contains
    the operators of a forward pass at a second batch size; empty if no such pass ran.
    """

    theory: Theory
    flops: Mapping[int, int]
    probe: tuple[Operator, ...] = ()
