"""Fake tensors, and a recorder of every operator called on them with the storages that it moves.

A fake tensor has a device, a shape and a layout, dispatches as one of that device, and dies where a
real one would.

A mode below automatic differentiation sees each operator with its arguments and results.  Storages
are numbered as they appear; references that keep none of them alive tell when one was let go.

Where several gradients of one tensor meet, the engine of automatic differentiation adds the next to
the first in place, if nothing else holds the first (``torch/csrc/autograd/input_buffer.cpp``,
``can_accumulate_inplace``), but never for fake tensors, so that a capture shows a result of its
own.  An addition in the backward pass whose operand is let go right after it is taken for such a
sum, and its result from then on for that operand.
Imports torch.
"""

from __future__ import annotations

import logging
import sys
import weakref
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final

import msgspec
import torch
from torch import nn
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from report.core.errors import MeasurementError
from report.core.records import operations
from report.core.records.operations import (
    ITEM_BYTES,
    Network,
    Operator,
    OperatorSetting,
    Tensor,
)

if TYPE_CHECKING:
    from experiments.theory.operators import ReplayedStep

#: They ask for a device or mark a place in a profile, and compute nothing.
_SILENT: Final = frozenset({"prim", "profiler"})
_SUM: Final = "add.Tensor"
#: Remedy if a dimension other than the batch grows.
_MARK: Final = "write N where the batch stands, such as --input 128,N,512"
#: Attention whose scores a function changes; it takes queries, keys and values first.
_ATTENTION: Final = frozenset({"flex_attention", "flex_attention_backward"})
_aten: Final = torch.ops.aten


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Yield all tensors within lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(tuple(value.values()))


class FakeMode(FakeTensorMode):
    """PyTorch's mode for fake tensors; refuses mixed types that kernels refuse.

    ``unseen`` is the name of an operator that the network called in a thread of its own, where no
    recorder sees it.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        logging.getLogger(FakeTensorMode.__module__).disabled = True  # callers report errors
        self._thread = get_ident()
        self.unseen = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if get_ident() != self._thread and torch._C._current_autograd_node() is None:
            self.unseen = str(func)  # autograd's threads have a node and are seen
        if isinstance(func, HigherOrderOperator) and func not in registered_hop_fake_fns:
            return func.python_key_table[FakeTensorMode](self, *args, **(kwargs or {}))
        if func is _aten._nnpack_available.default:  # asked where convolutions are chosen
            with torch._C._DisableTorchDispatch():
                return func()
        if func in _ACCEPTS:
            types_read = {tensor.dtype for tensor in tensors_in(args)}
            if not _ACCEPTS[func](types_read):
                names = " with ".join(sorted(map(str, types_read)))
                raise RuntimeError(
                    f"{func} takes no {names}; convert its tensors to one type of floats."
                )
        result = self.dispatch(func, types, args, kwargs or {})
        if func is _aten.native_batch_norm.default and _is_permuted_on_cpu(args[0]):
            # PyTorch infers the order of the input; the kernel writes the usual order.
            normalised, *statistics = result
            with torch._C._DisableTorchDispatch():
                bare = torch.empty(normalised.shape, dtype=normalised.dtype, device="meta")
            return FakeTensor(self, bare, args[0].fake_device), *statistics
        return result

    def like(self, tensor: torch.Tensor, device: torch.device) -> FakeTensor:
        """Return a fake tensor of the same shape, strides and type."""
        with torch._C._DisableTorchDispatch():
            shape, strides = tensor.shape, tensor.stride()
            bare = torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")
        return FakeTensor(self, bare, device)


def put_into(module: nn.Module, mode: FakeMode, device: torch.device) -> None:
    """Replace all tensors of a module by fake ones; shared tensors stay shared."""
    replacements: dict[int, torch.Tensor] = {}

    def faked(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in replacements:
            fake = mode.like(tensor, device).requires_grad_(tensor.requires_grad)
            fake._is_param = isinstance(tensor, nn.Parameter)  # lets it count as an nn.Parameter
            replacements[id(tensor)] = fake
        return replacements[id(tensor)]

    originals = []  # held, so that no new tensor gets the id of an old one
    for part in module.modules():
        for table in (part._parameters, part._buffers, vars(part)):
            for name, value in list(table.items()):
                if isinstance(value, torch.Tensor):
                    originals.append(value)
                    table[name] = faked(value)


def _is_permuted_on_cpu(tensor: Any) -> bool:
    """Return whether a tensor without gaps is neither contiguous nor channels last."""
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return (
        isinstance(tensor, FakeTensor)
        and tensor.fake_device.type == "cpu"
        and not tensor.is_contiguous()
        and not (last and tensor.is_contiguous(memory_format=last))
        and bool(_aten.is_non_overlapping_and_dense.default(tensor))
    )


def _are_one(types: set[torch.dtype]) -> bool:
    return len(types) == 1


def _are_floating(types: set[torch.dtype]) -> bool:
    return all(dtype.is_floating_point for dtype in types)


def _are_ordered(types: set[torch.dtype]) -> bool:
    return types.isdisjoint((torch.bool, torch.complex64, torch.complex128))


#: Types that a kernel computes, where PyTorch infers results for others too.
_ACCEPTS: Final[dict[Any, Callable[[set[torch.dtype]], bool]]] = {
    _aten.mm.default: _are_one,
    _aten.addmm.default: _are_one,
    _aten.convolution.default: _are_one,
    _aten.native_batch_norm.default: _are_floating,
    _aten._log_softmax.default: _are_floating,
    _aten.relu.default: _are_ordered,
    _aten.relu_.default: _are_ordered,
}


# -------------------------------------------------------------------------------------- recorder


@dataclass
class _Storages:
    """Storages by number, and those that were freed since the last call of ``let_go``."""

    sizes: list[int] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    gone: list[tuple[int, int]] = field(default_factory=list)
    references: list[weakref.ref[Any]] = field(default_factory=list)

    def number(self, tensor: torch.Tensor, *, watch: bool = True) -> int:
        """Return the number of a tensor's storage; ``watch`` notes when it is freed."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self.numbers:
            number = self.numbers[address] = len(self.sizes)
            self.sizes.append(storage.nbytes())

            def died(reference: object) -> None:
                now = self.numbers.pop(address)
                if watch:
                    self.gone.append((number, now))

            self.references.append(weakref.ref(storage, died))
        return self.numbers[address]

    def let_go(self) -> list[int]:
        """Return storages freed since the last call, in the order in which they appeared."""
        gone, self.gone = sorted(self.gone), []
        return [now for _, now in gone]

    def merge(self, storage: int, target: int) -> None:
        """Give everything in ``storage`` the number ``target``, as if it had never existed."""
        self.numbers = {at: target if n == storage else n for at, n in self.numbers.items()}
        self.sizes[storage] = 0


class Recorder(TorchDispatchMode):
    """Writes down every operator that is called while it is active."""

    supports_higher_order_operators = True

    def __init__(self, step: ReplayedStep) -> None:
        super().__init__()
        #: Else operators are called and not written down.
        self.writes = True
        self.operators: list[Operator] = []
        #: The operators before ``restart``.
        self.history: tuple[Operator, ...] = ()
        #: FLOPs of an operator by torch's own counter, by the operator's number.
        self.flops: dict[int, int] = {}
        #: Operators of the forward pass, and how many it may have.
        self.forward, self.most = 0, sys.maxsize
        #: The extent in which the batch lies; 0 where nobody asks for another one.
        self.batch = 0
        self._step = step
        self._names = {id(part): name for part, name in places(step.module).items()}
        self._calling: list[str] = []
        #: From which number of autograd's nodes on a module was being called, in order.
        self._callers: list[tuple[int, str]] = []
        self._storages = _Storages()
        #: Storages that the backward pass allocated.
        self._gradients: set[int] = set()
        self._inputs: tuple[Tensor, ...] = ()

    def begin(self, inputs: Sequence[torch.Tensor], *, writes: bool = True) -> None:
        """Number parameters and buffers, as ``Module.to`` moves them, and inputs.

        A device allocates them in this order.  A buffer may be freed where the call replaces it.
        """
        for tensor in _moved(self._step.module):
            self._storages.number(tensor, watch=not isinstance(tensor, nn.Parameter))
        self._inputs = tuple(self._tensor(tensor, watch=False) for tensor in inputs)
        self.restart(())
        self.writes = writes

    def restart(self, state: Iterable[torch.Tensor]) -> None:
        """Move all operators to the history; ``state`` is what remains of that call.

        Gradients in the state may be freed.
        """
        self._storages.let_go()
        self.history, self.operators = tuple(self.operators), []
        self.flops.clear()
        self.writes, self.forward = True, 0
        self._state = tuple(map(self._tensor, state))
        parameters = self._step.module.named_parameters(remove_duplicate=False)
        self._parameters = {name: self._tensor(p, watch=False) for name, p in parameters}
        buffers = self._step.module.named_buffers(remove_duplicate=False)
        self._buffers = {name: self._tensor(buffer) for name, buffer in buffers}
        self._owners: dict[int, str] = {}
        for part in self._step.module.modules():
            for parameter in part._parameters.values():
                self._owners.setdefault(id(parameter), self._names[id(part)])

    @contextmanager
    def named(self) -> Iterator[None]:
        """Follow which module is being called."""

        def enter(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            name = self._names.get(id(module))
            self._calling.append(self._module() if name is None else name)
            note_caller()
            if self.batch and getattr(module, "batch_first", None) is False:
                self._refuse_growing_sequence(module, arguments)

        def leave(module: nn.Module, arguments: object, result: object) -> None:
            self._calling.pop()
            note_caller()

        def note_caller() -> None:
            number = torch._C._autograd._get_sequence_nr()
            self._callers.append((number, self._calling[-1] if self._calling else operations.LOSS))

        with (
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        ):
            yield

    def _refuse_growing_sequence(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Raise ``MeasurementError`` where not the batch grows in what a module is given."""
        for tensor in tensors_in(arguments[:1]):
            length, batch, *_ = (*tensor.shape, 1, 1)
            if tensor.dim() == 3 and length % self.batch == 0 != batch % self.batch:
                raise MeasurementError(
                    f"{self._calling[-1] or type(module).__name__} takes the sequence first, so "
                    f"that its length would grow in place of the batch; {_MARK}."
                )

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call an operator and write it down."""
        given, phase = kwargs or {}, self._step.phase
        if isinstance(func, HigherOrderOperator) and func.name() not in _ATTENTION:
            raise MeasurementError(
                f"The network cannot be captured: {func.name()} takes a function, in which no "
                "operator is seen; call the function itself."
            )
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # asked for thousands of times
        if func.namespace in _SILENT:
            return func(*args, **given)
        if func is torch.ops.aten._local_scalar_dense.default and phase == "update":
            return 1.0  # a norm or a count that scales an optimiser's step
        freed = self._freed() if self.writes else ()
        result = func(*args, **given)
        if phase == "forward":
            self._count_forward(_name(func))
        if self.writes:
            self._write(func, args, given, result, freed)
        return result

    def _freed(self) -> tuple[int, ...]:
        """Return storages freed after the last operator, except one that it added to in place."""
        freed = self._storages.let_go()
        last = self.operators[-1] if self.operators else None
        if last is None or (last.phase, last.name, len(last.allocated)) != ("backward", _SUM, 1):
            return tuple(freed)
        (storage,), (result,) = last.allocated, last.writes
        for operand in (last.tensor("self"), last.tensor("other")):
            if (
                operand is not None
                and operand.storage in self._gradients.intersection(freed)
                and (operand.shape, operand.dtype) == (result.shape, result.dtype)
                and operand.distinct == operand.elements
            ):
                target = operand.storage
                self._storages.merge(storage, target)
                written = msgspec.structs.replace(result, storage=target)
                self.operators[-1] = msgspec.structs.replace(last, allocated=(), writes=(written,))
                return tuple(target if n == storage else n for n in freed if n != target)
        return tuple(freed)

    def _write(
        self,
        func: Any,
        args: tuple[Any, ...],
        given: Mapping[str, Any],
        result: Any,
        freed: tuple[int, ...],
    ) -> None:
        phase = self._step.phase
        schema = () if isinstance(func, HigherOrderOperator) else func._schema.arguments
        names = [argument.name for argument in schema] or ["query", "key", "value"]
        reads: dict[str, tuple[Tensor, ...]] = {}
        settings = {}
        for name, value in (dict(zip(names, args, strict=False)) | dict(given)).items():
            if tensors := tuple(tensors_in(value)):
                reads[name] = tuple(map(self._tensor, tensors))
                if isinstance(value, list) and any(item is None for item in value):
                    settings[name] = tuple(None if item is None else True for item in value)
            else:
                settings[name] = _setting(value)
        known = len(self._storages.sizes)
        writes = tuple(map(self._tensor, tensors_in(result)))
        allocated = tuple(range(known, len(self._storages.sizes)))
        if counter := flop_registry.get(getattr(func, "_overloadpacket", func)):
            self.flops[len(self.operators)] = counter(*args, **given, out_val=result)
        if phase == "backward":
            self._gradients |= set(allocated)
        written = (a for a in schema if a.alias_info is not None and a.alias_info.is_write)
        self.operators.append(
            Operator(
                name=_name(func),
                module=self._module(),
                phase=phase,
                reads=reads,
                settings=settings,
                writes=writes,
                updates=tuple(a.name for a in written if a.name in reads),
                allocated=allocated,
                freed=freed,
            )
        )

    def _count_forward(self, name: str) -> None:
        """Raise ``MeasurementError`` for more operators of the forward pass than it may have."""
        self.forward += 1
        if self.forward > self.most:
            raise MeasurementError(
                f"The network calls ever more operators in a larger batch ({name} was one too "
                f"many): it loops over it, or what grows is a sequence; {_MARK}."
            )

    def _module(self) -> str:
        """Return the module that an operator belongs to.

        In the backward pass it is the one that was being called when autograd recorded the node
        that runs now, which adds to the gradient of a parameter for the module of the parameter.
        """
        if self._step.phase == "update":
            return operations.OPTIMISER
        if self._calling:
            return self._calling[-1]
        node = torch._C._current_autograd_node() if self._step.phase == "backward" else None
        if node is None:
            return operations.LOSS
        if (parameter := getattr(node, "variable", None)) is not None:
            return self._owners.get(id(parameter), operations.LOSS)
        place = bisect(self._callers, node._sequence_nr(), key=itemgetter(0))
        return self._callers[place - 1][1] if place else operations.LOSS

    def _tensor(self, tensor: torch.Tensor, *, watch: bool = True) -> Tensor:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in ITEM_BYTES or tensor.layout != torch.strided:
            raise MeasurementError(
                f"The network cannot be captured: it has a tensor of {dtype} ({tensor.layout}), "
                "whose bytes ridgepoint does not know."
            )
        number = self._storages.number(tensor, watch=watch)
        place = tensor.storage_offset()
        return Tensor(number, tuple(tensor.shape), tuple(tensor.stride()), dtype, place)

    def network(self) -> Network:
        """Return the network with all operators written down since ``restart``."""
        return Network(
            storages=tuple(self._storages.sizes),
            parameters=self._parameters,
            buffers=self._buffers,
            inputs=self._inputs,
            state=self._state,
            operators=tuple(self.operators),
        )


def _name(func: Any) -> str:
    return str(func).removeprefix("aten.")


def places(module: nn.Module) -> dict[nn.Module, str]:
    """Return every module with its name; with up to three where it stands in several places."""
    names: dict[nn.Module, list[str]] = {}
    for name, part in module.named_modules(remove_duplicate=False):
        names.setdefault(part, []).append(name)
    return {part: _listed(own) for part, own in names.items()}


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _moved(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield parameters and buffers in the order of ``Module._apply``, children first."""
    for child in module.children():
        yield from _moved(child)
    for table in (module._parameters, module._buffers):
        yield from (tensor for tensor in table.values() if tensor is not None)


def _setting(value: object) -> OperatorSetting:
    """Convert an argument without tensors to a type of records."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(map(_setting, value))
    return str(value).removeprefix("torch.")
