"""Requests for captures, their results, and the theory of these; needs no torch.

Theory is refused where torch's own counter of FLOPs says something else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias

from report.core.errors import MeasurementError, UsageError
from report.core.records.operations import Operator
from report.theory.allocator import Options
from report.theory.network import Theory
from report.theory.networks import scales
from report.theory.roofline import Roof

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
        return self.shape[self.grows[0]] if self.grows and self.shape else 0

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
    old = next((given.batch for given in inputs if given.batch), None)
    changed = []
    for given in inputs:
        shape = [
            batch if axis in given.grows and extent == old else extent
            for axis, extent in enumerate(given.shape)
        ]
        changed.append(replace(given, shape=tuple(shape)))
    return changed


class Capture(NamedTuple):
    """Theory of a captured network, and what torch's own counter says of it.

    ``flops`` are the FLOPs of operators by their numbers; ``probe`` is the forward pass at a second
    batch, if one was asked for.
    """

    theory: Theory
    flops: Mapping[int, int]
    probe: tuple[Operator, ...] = ()


# ---------------------------------------------------------------------------------------- theory


def capture_theory(
    build: Build,
    inputs: Sequence[Input],
    batch: int | None = None,
    probe: int | None = None,
    *,
    train: bool = False,
    allocator: Options | None = None,
    roof: Roof | None = None,
    policy: CapturePolicy = DEFAULT,
) -> Theory:
    """Capture a network and return its theory on this machine, or on a GPU with these options.

    ``batch`` replaces the batch of the inputs.  With a ``roof`` the theory has the least time too.
    The forward pass at the batch ``probe`` decides whether the operators grow with the batch.

    Raises ``MeasurementError`` with the operator that is in doubt.
    """
    from experiments.theory.operators import capture

    captured = capture(
        build,
        at_batch(inputs, batch),
        train=train,
        allocator=allocator,
        policy=policy,
        probe=() if probe is None else at_batch(inputs, probe),
    )
    theory = agreed_theory(captured)
    grows = probe is None or scales(theory.network, captured.probe, probe)
    options: Any = {"train": train, "allocator": allocator, "roof": roof, "policy": policy}
    again = partial(capture_theory, build, inputs, **options)
    return replace(theory, roof=roof, captured=again, scales=grows)


def agreed_theory(captured: Capture) -> Theory:
    """Return the theory of a capture.

    Raises ``MeasurementError`` for the first operator whose work torch counts otherwise.
    """
    theory = captured.theory
    _refuse_complex(theory)
    for number, flops in captured.flops.items():
        operator, work = theory.network.operators[number], theory.work[number]
        if work is not None and work.flops not in _counted(operator, flops):
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'}: theory has "
                f"{work.flops:,} FLOPs and torch's counter {flops:,}; one of them is wrong, so "
                "that nothing is printed."
            )
    return theory


def _refuse_complex(theory: Theory) -> None:
    """Raise ``MeasurementError`` for products of complex numbers, which have no agreed count.

    PyTorch computes a complex convolution as three real ones, and a complex product as one.
    """
    numbers: set[int] = set()
    for operator, work in zip(theory.network.operators, theory.work, strict=True):
        numbers |= {t.storage for t in operator.read if t.dtype.startswith("complex")}
        storages = {tensor.storage for tensor in operator.read}
        if work and work.multiply_adds and numbers & storages:
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'} multiplies "
                "complex numbers: PyTorch does so by one, three or four real products, so that "
                "there is no one count; give the network in real numbers."
            )


def _counted(operator: Operator, flops: int) -> tuple[int, ...]:
    """Return the FLOPs that torch's counter may mean.

    The counter takes the weight gradient of a grouped convolution for one without groups
    (torch 2.13, ``conv_backward_flop``), until that is fixed (pytorch#183405).
    """
    groups = operator.settings.get("groups", 1)
    if operator.base != "convolution_backward" or not isinstance(groups, int) or groups == 1:
        return (flops,)
    mask = operator.settings["output_mask"]
    assert isinstance(mask, tuple)
    parts = (1 if mask[0] else 0) + (groups if mask[1] else 0)
    return flops, flops * sum(map(bool, mask[:2])) // parts if parts else flops
