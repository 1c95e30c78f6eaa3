"""Requests for captures and their results, as data; needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from report.core.errors import UsageError
from report.core.records.operations import Network, Operator
from report.theory.conditions import Conditions

if TYPE_CHECKING:
    import torch
    from torch import nn

#: Returns the module; it is called where parameters take no memory.
Build: TypeAlias = "Callable[[], nn.Module]"
Optimizer: TypeAlias = Literal["sgd", "momentum", "adam", "adamw", "adafactor"]
Update: TypeAlias = Literal["single", "foreach", "fused"]


@dataclass(frozen=True)
class CapturePolicy:
    """Choices that decide about memory, in addition to network and inputs.

    ``autocast`` is the type in which a call computes where autocast finds that safe.  The others
    belong to a training step: ``update`` is how the optimizer updates parameters (one by one, in
    lists, or in one kernel; None is PyTorch's default), ``accumulate`` the number of batches before
    an update, and ``checkpoint`` names modules whose activations the backward pass computes again.
    With ``gradients_only`` a step begins backward at a gradient of the result, without a loss, has
    gradients of the inputs too, and updates nothing.
    Raises ``UsageError`` for an impossible choice.
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

    def updating(self, gpu: bool) -> Update:
        """Return how parameters are updated."""
        lists = gpu and self.optimizer != "adafactor"
        return self.update or ("foreach" if lists else "single")


DEFAULT: Final = CapturePolicy()


@dataclass(frozen=True)
class Input:
    """The shape of one argument of a network, its element type and its layout.

    ``grows`` are the axes on which the batch lies.
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    channels_last: bool = False
    grows: tuple[int, ...] = (0,)

    @property
    def batch(self) -> int:
        """Extent of the first axis that grows; 0 without one."""
        return self.shape[self.grows[0]] if self.grows else 0

    def tensor(self, device: torch.device) -> torch.Tensor:
        """Allocate such a tensor with undefined elements."""
        import torch

        tensor = torch.empty(self.shape, dtype=getattr(torch, self.dtype), device=device)
        if self.channels_last:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor


def at_batch(inputs: Sequence[Input], batch: int | None) -> Sequence[Input]:
    """Give the inputs another batch, on all axes that grow and are as large as the first one."""
    if batch is None:
        return inputs
    extents = [given.shape[axis] for given in inputs for axis in given.grows if given.shape]
    return [_with_extent(given, extents[0], batch) if extents else given for given in inputs]


def _with_extent(given: Input, old: int, new: int) -> Input:
    """Replace the extent ``old`` by ``new`` on all axes that grow."""
    shape = [
        new if axis in given.grows and extent == old else extent
        for axis, extent in enumerate(given.shape)
    ]
    return replace(given, shape=tuple(shape))


@dataclass(frozen=True)
class Capture:
    """A network's operators, and the FLOPs of torch's own counter by the operator's number.

    ``history`` are the operators of the call or step before; ``other_on_gpu`` names recurrent
    modules of a capture on a processor, since a GPU runs kernels of its own for them; ``compiled``
    names modules of ``torch.compile``, which were called without it.  ``probe`` is the forward pass
    at a second batch, if one was asked for; ``classes`` are the modules' classes by name;
    ``conditions`` are those of PyTorch on this processor.
    """

    network: Network
    flops: Mapping[int, int]
    history: tuple[Operator, ...] = ()
    other_on_gpu: tuple[str, ...] = ()
    compiled: tuple[str, ...] = ()
    probe: tuple[Operator, ...] = ()
    classes: Mapping[str, str] = field(default_factory=dict)
    conditions: Conditions = field(default_factory=Conditions)


#: Captures a network at a batch, and tries it at a second one; None stands for no other batch.
CaptureAt: TypeAlias = Callable[[int | None, int | None], Capture]
