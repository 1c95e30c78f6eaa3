"""Capture a network's operators, and compute its theory.

A capture lists the operators that a network calls, with the shapes of their tensors, and runs
without data or memory for them.  A theory is the work, traffic, memory and least time that follow
from this list.  A theory is refused if torch's own FLOP counter disagrees.  Importing this module
imports no torch.
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
from report.theory.networks import scales_to
from report.theory.roofline import Roof

if TYPE_CHECKING:
    import torch
    from torch import nn

#: Function that builds a network; called on the meta device, so that parameters use no memory.
Build: TypeAlias = "Callable[[], nn.Module]"
Optimizer: TypeAlias = Literal["sgd", "momentum", "adam", "adamw", "adafactor"]
Update: TypeAlias = Literal["single", "foreach", "fused"]


@dataclass(frozen=True)
class CapturePolicy:
    """Choices that change the memory of a network; all but ``autocast`` are about training steps.

    - ``autocast``: dtype in which operators compute where ``torch.autocast`` considers it safe;
    - ``optimizer``: the optimiser that updates the parameters;
    - ``update``: how the optimiser updates them, ``single`` (parameters one by one), ``foreach``
      (as lists) or ``fused`` (one kernel); None is PyTorch's default;
    - ``accumulate``: number of batches before an update, 1 to 1000;
    - ``checkpoint``: names of modules whose activations the backward pass computes again;
    - ``gradients_only``: run only a forward and a backward pass, without loss and update; also
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
        in_lists = gpu and self.optimizer != "adafactor"
        return self.update or ("foreach" if in_lists else "single")


DEFAULT: Final = CapturePolicy()


@dataclass(frozen=True)
class Input:
    """Shape, element type, layout and batch axes of one argument of a network."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    channels_last: bool = False
    batch_axes: tuple[int, ...] = (0,)

    @property
    def batch(self) -> int:
        """Extent of the first batch axis; 0 without a batch axis."""
        return self.shape[self.batch_axes[0]] if self.batch_axes and self.shape else 0

    def tensor(self, device: torch.device) -> torch.Tensor:
        """Allocate a tensor of this shape, type and layout with undefined elements."""
        import torch

        tensor = torch.empty(self.shape, dtype=getattr(torch, self.dtype), device=device)
        if self.channels_last:
            return tensor.contiguous(memory_format=torch.channels_last)
        return tensor


def inputs_at_batch(inputs: Sequence[Input], batch: int | None) -> Sequence[Input]:
    """Return the inputs with another batch; None leaves them unchanged.

    A batch axis whose extent is not the batch of the first input with a batch stays unchanged.
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
    the operators of a forward pass at a second batch; empty if there was none.
    """

    theory: Theory
    flops: Mapping[int, int]
    probe: tuple[Operator, ...] = ()


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
    """Capture a network and return its theory on this CPU, or on a GPU with ``allocator`` options.

    ``batch`` replaces the batch of the inputs.  With a ``roof`` (peak rates of a device) the theory
    includes the least time.  If ``probe`` is a batch, a forward pass at this batch decides whether
    the operators scale with the batch.

    Raises ``MeasurementError`` for a network that cannot be captured, or whose work is in doubt.
    """
    from experiments.theory.operators import capture

    options: Any = {"train": train, "allocator": allocator, "policy": policy}
    probe_inputs = () if probe is None else inputs_at_batch(inputs, probe)
    captured = capture(build, inputs_at_batch(inputs, batch), probe=probe_inputs, **options)
    theory = agreed_theory(captured)
    is_scalable = probe is None or scales_to(theory.network, captured.probe, probe)
    capture_again = partial(capture_theory, build, inputs, roof=roof, **options)
    return replace(theory, roof=roof, captured=capture_again, scales=is_scalable)


def agreed_theory(captured: Capture) -> Theory:
    """Return the theory of a capture, checked by torch's own FLOP counter.

    Raises ``MeasurementError`` for the first operator whose FLOPs differ from torch's count, and
    for products of complex numbers.
    """
    theory = captured.theory
    _refuse_complex(theory)
    for number, flops in captured.flops.items():
        operator, work = theory.network.operators[number], theory.work[number]
        if work is not None and work.flops not in _possible_flops(operator, flops):
            counts = f"theory has {work.flops:,} FLOPs and torch's counter {flops:,}"
            place = f"Operator {operator.name} of {operator.module or 'the network'}"
            raise MeasurementError(f"{place}: {counts}; one is wrong, so nothing is printed.")
    return theory


def _refuse_complex(theory: Theory) -> None:
    """Raise ``MeasurementError`` for multiply-adds of complex numbers, which have no agreed count.

    PyTorch computes a complex convolution as three real convolutions, but a complex matrix product
    as one operation.
    """
    complex_storages: set[int] = set()
    for operator, work in zip(theory.network.operators, theory.work, strict=True):
        storages = set()
        for tensor in operator.read_tensors:
            storages.add(tensor.storage)
            if tensor.dtype.startswith("complex"):
                complex_storages.add(tensor.storage)
        if work and work.multiply_adds and complex_storages & storages:
            raise MeasurementError(
                f"Operator {operator.name} of {operator.module or 'the network'} multiplies "
                "complex numbers: PyTorch does so by one, three or four real products, so that "
                "there is no one count; give the network in real numbers."
            )


def _possible_flops(operator: Operator, flops: int) -> tuple[int, ...]:
    """Return the FLOPs that an operator may have if torch's counter returns ``flops``.

    Until pytorch#183405 is fixed, the counter (``conv_backward_flop`` of torch 2.13) ignores the
    groups of a convolution in the weight gradient: it counts ``groups`` times too many FLOPs.
    """
    groups = operator.settings.get("groups", 1)
    if operator.base_name != "convolution_backward" or not isinstance(groups, int) or groups == 1:
        return (flops,)
    mask = operator.settings["output_mask"]
    assert isinstance(mask, tuple)
    has_input_gradient, has_weight_gradient = map(bool, mask[:2])
    # In units of the true FLOPs of one gradient.
    counted = has_input_gradient + has_weight_gradient * groups
    computed = has_input_gradient + has_weight_gradient
    return flops, flops * computed // counted if counted else flops
