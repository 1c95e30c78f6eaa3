"""The operators of any network, captured on tensors without memory; imports torch.

A network runs once on fake tensors, which have a device, shape and layout and no elements, under a
mode that sees every operator below automatic differentiation.  A fake tensor dies where a real one
would, since the same Python code holds it, so that the storages that are let go between two
operators are those of a real call.  Nothing is computed or allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import torch
from torch import nn
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode

from experiments.harness.operator_recorder import Recorder, tensors_in
from experiments.harness.study import Device
from report.errors import MeasurementError, shorten
from report.records.operations import Network, Operator

#: Gives the module; it is called where parameters take no memory.
Build: TypeAlias = Callable[[], nn.Module]

_LEARNING_RATE: Final = 0.1
_MOMENTUM: Final = 0.9


@dataclass(frozen=True)
class Input:
    """The shape of one argument of a network, the batch first, its element type and its layout."""

    shape: tuple[int, ...]
    dtype: str = "float32"
    channels_last: bool = False


@dataclass(frozen=True)
class Captured:
    """A network's operators, and by their number the FLOPs that torch's own counter gives them.

    ``history`` are the operators of the call or the step before, where they were asked for;
    ``other_on_gpu`` names recurrent modules of a capture on a processor, since a GPU runs them by
    kernels of its own.
    """

    network: Network
    flops: Mapping[int, int]
    history: tuple[Operator, ...] = ()
    other_on_gpu: tuple[str, ...] = ()


def capture(
    build: Build,
    inputs: Sequence[Input],
    *,
    train: bool = False,
    device: Device = "cpu",
    history: bool = False,
    weight_decay: float = 0.0,
    autocast: str | None = None,
) -> Captured:
    """The operators of one call in evaluation mode without gradients, or of a training step.

    ``autocast`` is the type that the call computes in where autocast finds that safe.

    The step is the second: forward, the loss, backward, and stochastic gradient descent with
    ``weight_decay`` and momentum, whose state is there from the first one.  The loss is the cross
    entropy of a matrix of scores, else the sum of the means of all results.  With ``history`` the
    call too is the second.  Raises ``MeasurementError`` with the operator for a network that needs
    the values of its tensors, or that cannot run on these inputs, and for a training step on a GPU
    where PyTorch has none.
    """
    _check_device(device, train)
    module = built(build).train(train)
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    _fake(module, mode, device)
    with mode:
        given = tuple(_given(each, device) for each in inputs)
    call = _Step(module, weight_decay) if train else _Call(module, autocast)
    recorder = Recorder(module)
    try:
        with mode:
            recorder.begin(given)
            with recorder if history else nullcontext():
                call.prepare(given, called=history)
            recorder.restart(call.state())
            with recorder, recorder.named():
                call.run(given, recorder)
    except MeasurementError:
        raise
    except Exception as error:
        at = f" after {recorder.operators[-1].name}" if recorder.operators else ""
        raise MeasurementError(f"The network cannot be captured{at}: {_why(error)}") from error
    network, before = recorder.recorded()
    return Captured(network, recorder.flops, before, _recurrent(module) if device == "cpu" else ())


def _check_device(device: Device, train: bool) -> None:
    """Raise ``MeasurementError`` where automatic differentiation would fail or end the process."""
    if train and device == "cuda" and not torch.cuda.is_available():
        raise MeasurementError(
            "The network cannot be captured: a training step on a GPU needs a GPU that PyTorch can "
            "use; capture it on the processor, whose operators are the same."
        )


def _recurrent(module: nn.Module) -> tuple[str, ...]:
    kinds = (nn.RNNBase, nn.RNNCellBase)
    parts = module.named_modules()
    return tuple(name or type(part).__name__ for name, part in parts if isinstance(part, kinds))


def _why(error: Exception) -> str:
    if isinstance(error, DataDependentOutputException):
        return "it asks for the value of a tensor; leave out .item() and conditions on values."
    return shorten(" ".join(str(error).split()), 200) or type(error).__name__


# ------------------------------------------------------------------------------------ the module


def built(build: Build) -> nn.Module:
    """The module on the meta device, or in memory where its code needs values.

    Raises ``MeasurementError`` where it cannot be built.
    """
    try:
        with torch.device("meta"):
            return build()
    except Exception:
        pass
    try:
        return build()
    except Exception as error:
        raise MeasurementError(f"The network cannot be built: {_why(error)}") from error


def _fake(module: nn.Module, mode: FakeTensorMode, device: Device) -> None:
    """Put fake tensors in the place of all tensors of a module; shared ones stay shared."""
    known: dict[int, torch.Tensor] = {}

    def faked(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in known:
            with mode:
                dtype = str(tensor.dtype).removeprefix("torch.")
                new = _empty(tuple(tensor.shape), tuple(tensor.stride()), dtype, device)
                if isinstance(tensor, nn.Parameter):
                    new = nn.Parameter(new, requires_grad=tensor.requires_grad)
            known[id(tensor)] = new
        return known[id(tensor)]

    originals = []  # kept, so that no new tensor is taken for one that is gone
    for part in module.modules():
        for table in (part._parameters, part._buffers, vars(part)):
            for name, value in list(table.items()):
                if isinstance(value, torch.Tensor):
                    originals.append(value)
                    table[name] = faked(value)


def _given(each: Input, device: Device) -> torch.Tensor:
    made = _empty(each.shape, None, each.dtype, device)
    return made.contiguous(memory_format=torch.channels_last) if each.channels_last else made


def _empty(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: str, device: Device
) -> torch.Tensor:
    kind = getattr(torch, dtype)
    if strides is None:
        return torch.empty(shape, dtype=kind, device=device)
    return torch.empty_strided(shape, strides, dtype=kind, device=device)


# ----------------------------------------------------------------------------------------- calls


@dataclass
class _Call:
    """One call in evaluation mode."""

    module: nn.Module
    autocast: str | None

    def prepare(self, given: tuple[torch.Tensor, ...], *, called: bool) -> None:
        """Make a call before, if that is asked for; nothing else has to be there."""
        if called:
            with torch.no_grad(), self._cast(given):
                self.module(*given)

    def state(self) -> tuple[torch.Tensor, ...]:
        """Nothing of an optimiser is there."""
        return ()

    def run(self, given: tuple[torch.Tensor, ...], recorder: Recorder) -> None:
        """Make the call; its result is held to the end, as a caller does."""
        with torch.no_grad(), self._cast(given):
            result = self.module(*given)
        del result

    def _cast(self, given: tuple[torch.Tensor, ...]) -> AbstractContextManager[object]:
        if self.autocast is None:
            return nullcontext()
        return torch.autocast(given[0].device.type, getattr(torch, self.autocast))


@dataclass
class _Step:
    """A training step, the first of which is made before."""

    module: nn.Module
    weight_decay: float
    optimizer: Any = None

    def prepare(self, given: tuple[torch.Tensor, ...], *, called: bool) -> None:
        """Make the step after which momentum and gradients are there, asked for or not."""
        trained = [each for each in self.module.parameters() if each.requires_grad]
        self.optimizer = torch.optim.SGD(
            trained, lr=_LEARNING_RATE, momentum=_MOMENTUM, weight_decay=self.weight_decay
        )
        _loss(self.module(*given)).backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()

    def state(self) -> tuple[torch.Tensor, ...]:
        """The momentum and the gradients."""
        found = [
            value
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        return (*found, *(p.grad for p in self.module.parameters() if p.grad is not None))

    def run(self, given: tuple[torch.Tensor, ...], recorder: Recorder) -> None:
        """Drop the gradients, go forward and backward, and update."""
        self.optimizer.zero_grad()
        loss = _loss(self.module(*given))
        recorder.phase = "backward"
        loss.backward()  # type: ignore[no-untyped-call]
        recorder.phase = "update"
        self.optimizer.step()


def _loss(result: object) -> torch.Tensor:
    """A number to go backward from."""
    if isinstance(result, torch.Tensor) and result.dim() == 2:
        labels = torch.zeros(result.shape[0], dtype=torch.int64, device=result.device)
        return nn.functional.cross_entropy(result, labels)
    parts = [each.mean() for each in tensors_in(result) if each.is_floating_point()]
    if not parts:
        raise MeasurementError("The network gives no number that could be trained on.")
    return torch.stack(parts).sum()
