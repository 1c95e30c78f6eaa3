"""The operators of any network, captured on tensors without memory; imports torch.

A network runs once on fake tensors, which have a device, shape and layout and no elements, under a
mode that sees every operator below automatic differentiation.  A fake tensor dies where a real one
would, since the same Python code holds it, so that the storages that are let go between two
operators are those of a real call.  Nothing is computed or allocated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import msgspec
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from experiments.harness.study import Device
from report.errors import MeasurementError, shorten
from report.records.operations import ITEM_BYTES, Network, Operator, Phase, Setting, Tensor

#: Gives the module; it is called where parameters take no memory.
Build: TypeAlias = Callable[[], nn.Module]

#: They ask for a device or mark a place in a profile, and compute nothing.
_SILENT: Final = frozenset({"prim", "profiler"})
_LEARNING_RATE: Final = 0.1
_MOMENTUM: Final = 0.9


@dataclass(frozen=True)
class Input:
    """The shape of one argument of a network, the batch first, and its element type."""

    shape: tuple[int, ...]
    dtype: str = "float32"


@dataclass(frozen=True)
class Captured:
    """A network's operators, and by their number the FLOPs that torch's own counter gives them."""

    network: Network
    flops: Mapping[int, int]


def capture(
    build: Build, inputs: Sequence[Input], *, train: bool = False, device: Device = "cpu"
) -> Captured:
    """The operators of one call in evaluation mode without gradients, or of a training step.

    The step is the second: forward, the loss, backward, and stochastic gradient descent with
    momentum, whose state is there from the first one.  The loss is the cross entropy of a matrix of
    scores, else the sum of the means of all results.  Raises ``MeasurementError`` with the operator
    for a network that needs the values of its tensors, or that cannot run on these inputs.
    """
    try:
        module = _built(build).train(train)
    except Exception as error:
        raise MeasurementError(f"The network cannot be built: {_why(error)}") from error
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    _fake(module, mode, device)
    with mode:
        given = tuple(_empty(each.shape, None, each.dtype, device) for each in inputs)
    call = _Step(module) if train else _Call(module)
    recorder = _Recorder(module)
    try:
        with mode:
            call.prepare(given)
            recorder.begin(given, call.state())
            with recorder, recorder.named():
                call.run(given, recorder)
    except MeasurementError:
        raise
    except Exception as error:
        at = f" after {recorder.operators[-1].name}" if recorder.operators else ""
        raise MeasurementError(f"The network cannot be captured{at}: {_why(error)}") from error
    return Captured(recorder.network(), recorder.flops)


def _why(error: Exception) -> str:
    return shorten(" ".join(str(error).split()), 200) or type(error).__name__


# ------------------------------------------------------------------------------------ the module


def _built(build: Build) -> nn.Module:
    """The module on the meta device, or in memory where its code needs values."""
    try:
        with torch.device("meta"):
            return build()
    except Exception:
        return build()


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

    def prepare(self, given: tuple[torch.Tensor, ...]) -> None:
        """Nothing has to be there before."""

    def state(self) -> tuple[torch.Tensor, ...]:
        """Nothing of an optimiser is there."""
        return ()

    def run(self, given: tuple[torch.Tensor, ...], recorder: _Recorder) -> None:
        """Make the call; its result is held to the end, as a caller does."""
        with torch.no_grad():
            result = self.module(*given)
        del result


@dataclass
class _Step:
    """A training step, the first of which is made before."""

    module: nn.Module
    optimizer: Any = None

    def prepare(self, given: tuple[torch.Tensor, ...]) -> None:
        """Make the step after which momentum and gradients are there."""
        trained = [each for each in self.module.parameters() if each.requires_grad]
        self.optimizer = torch.optim.SGD(trained, lr=_LEARNING_RATE, momentum=_MOMENTUM)
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

    def run(self, given: tuple[torch.Tensor, ...], recorder: _Recorder) -> None:
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
    parts = [each.mean() for each in _tensors(result) if each.is_floating_point()]
    if not parts:
        raise MeasurementError("The network gives no number that could be trained on.")
    return torch.stack(parts).sum()


def _tensors(value: object) -> Iterator[torch.Tensor]:
    """All tensors within lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(tuple(value.values()))


# -------------------------------------------------------------------------------------- recording


@dataclass
class _Storages:
    """The storages seen so far, by number; those that may be let go are watched."""

    sizes: list[int] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    watched: dict[int, StorageWeakRef] = field(default_factory=dict)
    #: A reference to each keeps its address from being taken by another one.
    held: list[StorageWeakRef] = field(default_factory=list)

    def number(self, tensor: torch.Tensor, *, watch: bool = True) -> tuple[int, bool]:
        """The number of a tensor's storage, and whether it is new."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address in self.numbers:
            return self.numbers[address], False
        number = len(self.sizes)
        reference = StorageWeakRef(storage)
        self.numbers[address] = number
        self.sizes.append(storage.nbytes())
        (self.watched.__setitem__(number, reference) if watch else self.held.append(reference))
        return number, True

    def let_go(self) -> tuple[int, ...]:
        """Those that died since the last time."""
        gone = tuple(n for n, reference in self.watched.items() if reference.expired())
        for number in gone:
            del self.numbers[self.watched.pop(number).cdata]
        return gone


class _Recorder(TorchDispatchMode):
    """Writes down every operator that is called while it is active."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.phase: Phase = "forward"
        self.operators: list[Operator] = []
        self.flops: dict[int, int] = {}
        self._storages = _Storages()
        self._module = module
        self._names = {id(part): name for name, part in module.named_modules()}
        self._calling: list[str] = []
        self._inputs: tuple[Tensor, ...] = ()
        self._state: tuple[Tensor, ...] = ()

    def begin(self, inputs: Sequence[torch.Tensor], state: Sequence[torch.Tensor]) -> None:
        """Number what is there before the call; gradients may be let go, all else stays."""
        named = (*self._module.named_parameters(), *self._module.named_buffers())
        for _, tensor in named:
            self._storages.number(tensor, watch=False)
        self._inputs = tuple(self._tensor(each, watch=False) for each in inputs)
        self._state = tuple(self._tensor(each) for each in state)

    @contextmanager
    def named(self) -> Iterator[None]:
        """Follow which module is being called."""

        def enter(module: nn.Module, arguments: object) -> None:
            self._calling.append(self._names.get(id(module), ""))

        def leave(module: nn.Module, arguments: object, result: object) -> None:
            self._calling.pop()

        hooks = (
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        )
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call an operator and write it down."""
        given = kwargs or {}
        if func.namespace in _SILENT:
            return func(*args, **given)
        freed = self._storages.let_go()
        result = func(*args, **given)
        self._write(func, args, given, result, freed)
        return result

    def _write(
        self,
        func: Any,
        args: tuple[Any, ...],
        given: Mapping[str, Any],
        result: Any,
        freed: tuple[int, ...],
    ) -> None:
        names = [argument.name for argument in func._schema.arguments]
        arguments = dict(zip(names, args, strict=False)) | dict(given)
        reads, settings = {}, {}
        for name, value in arguments.items():
            if found := tuple(_tensors(value)):
                reads[name] = tuple(map(self._tensor, found))
            else:
                settings[name] = _setting(value)
        known = len(self._storages.sizes)
        updates = tuple(
            argument.name
            for argument in func._schema.arguments
            if argument.alias_info is not None
            and argument.alias_info.is_write
            and argument.name in reads
        )
        writes = tuple(map(self._tensor, _tensors(result)))
        made = tuple(range(known, len(self._storages.sizes)))
        name = str(func).removeprefix("aten.")
        counter = flop_registry.get(func._overloadpacket)
        if counter is not None:
            self.flops[len(self.operators)] = counter(*args, **given, out_val=result)
        self.operators.append(
            Operator(
                name=name,
                module=self._calling[-1] if self._calling else "",
                phase=self.phase,
                reads=reads,
                settings=settings,
                writes=writes,
                updates=updates,
                made=made,
                freed=freed,
            )
        )

    def _tensor(self, tensor: torch.Tensor, *, watch: bool = True) -> Tensor:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in ITEM_BYTES or tensor.layout != torch.strided:
            raise MeasurementError(
                f"The network cannot be captured: it has a tensor of {dtype} ({tensor.layout}), "
                "whose bytes ridgepoint does not know."
            )
        number, _ = self._storages.number(tensor, watch=watch)
        return Tensor(number, tuple(tensor.shape), tuple(tensor.stride()), dtype)

    def network(self) -> Network:
        """All that was written down."""
        parameters = {n: self._tensor(p) for n, p in self._named(nn.Module.named_parameters)}
        return Network(
            storages=tuple(self._storages.sizes),
            parameters=parameters,
            buffers={n: self._tensor(b) for n, b in self._named(nn.Module.named_buffers)},
            inputs=self._inputs,
            state=self._state,
            operators=tuple(_attributed(self.operators, parameters)),
        )

    def _named(self, of: Callable[..., Any]) -> Iterator[tuple[str, torch.Tensor]]:
        """Under all of its names, where one tensor has several."""
        yield from of(self._module, remove_duplicate=False)


def _setting(value: object) -> Setting:
    """An argument without tensors as a record can hold it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(map(_setting, value))
    return str(value).removeprefix("torch.")


def _attributed(
    operators: Sequence[Operator], parameters: Mapping[str, Tensor]
) -> Iterator[Operator]:
    """The operators, those of the backward pass with the module whose tensors they read.

    Parameters tell it first, then what a forward operator made.
    """
    owners = {t.storage: name.rpartition(".")[0] for name, t in parameters.items()}
    made: dict[int, str] = {}
    for operator in operators:
        if operator.phase == "forward":
            made |= dict.fromkeys(operator.made, operator.module)
            yield operator
            continue
        read = [t.storage for found in operator.reads.values() for t in found]
        names = [owners[n] for n in read if n in owners] or [made[n] for n in read if n in made]
        yield msgspec.structs.replace(operator, module=names[0]) if names else operator
