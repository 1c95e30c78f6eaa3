"""Fake tensors, and a recorder of the operators that are called on fake tensors; imports torch.

A fake tensor has a device, a shape and a layout, but no elements.  It dispatches like a tensor of
this device, and is freed when a real tensor would be freed.

The recorder is a dispatch mode below automatic differentiation, so that it sees every operator
with arguments and results.  It numbers storages in the order of their first use, and holds weak
references that notify it when a storage is freed.

Autograd sums several gradients of one tensor in place, if nothing else holds the first gradient
(``can_accumulate_inplace`` in ``torch/csrc/autograd/input_buffer.cpp``).  For fake tensors autograd
allocates a new result instead.  The recorder undoes this: if an operand of an addition in the
backward pass is freed right after the addition, the sum is recorded as written into this operand.
"""

from __future__ import annotations

import logging
import sys
import weakref
from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from threading import get_ident
from typing import Any, Final, Protocol

import msgspec
import torch
from torch import nn
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from report.core.errors import MeasurementError
from report.core.records import operations
from report.core.records.operations import (
    ITEM_BYTES,
    Network,
    Operator,
    OperatorSetting,
    Phase,
    Tensor,
)

#: Namespaces of operators that compute nothing: they return a device or mark a profile.
_NO_COMPUTATION: Final = frozenset({"prim", "profiler"})
#: End of messages if a dimension other than the batch grows.
_BATCH_ADVICE: Final = "write N where the batch stands, such as --input 128,N,512"
#: Attention operators that apply a user's function to the scores.
_FLEX_ATTENTION: Final = frozenset({"flex_attention", "flex_attention_backward"})
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
    """PyTorch's mode for fake tensors; also raises for dtypes that real kernels cannot compute.

    ``unseen_operator`` is the name of an operator that was called in another thread, where no
    recorder sees operators; empty if no such call was made.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        logging.getLogger(FakeTensorMode.__module__).disabled = True  # callers report errors
        self._thread = get_ident()
        self.unseen_operator = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        # The recorder also sees the operators of autograd's threads, which compute a graph's node.
        if get_ident() != self._thread and torch._C._current_autograd_node() is None:
            self.unseen_operator = str(func)
        # Most operators that call a function, such as cond, bring their own code for fake tensors.
        if isinstance(func, HigherOrderOperator) and func not in registered_hop_fake_fns:
            return func.python_key_table[FakeTensorMode](self, *args, **(kwargs or {}))
        if func is _aten._nnpack_available.default:  # called when PyTorch selects a convolution
            with torch._C._DisableTorchDispatch():
                return func()
        if func in _COMPUTED_TYPES:
            _check_types(func, {tensor.dtype for tensor in tensors_in(args)})
        result = self.dispatch(func, types, args, kwargs or {})
        if func is _aten.native_batch_norm.default and _is_permuted_on_cpu(args[0]):
            # PyTorch's fake result keeps the input's axis order; the CPU's result is contiguous.
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


def make_fake(module: nn.Module, mode: FakeMode, device: torch.device) -> None:
    """Replace all tensors of a module by fake tensors; a tensor used twice stays one tensor."""
    replacements: dict[torch.Tensor, torch.Tensor] = {}
    for member in module.modules():
        for table in (member._parameters, member._buffers, vars(member)):
            for name, value in list(table.items()):
                if not isinstance(value, torch.Tensor):
                    continue
                if value not in replacements:
                    fake = mode.like(value, device).requires_grad_(value.requires_grad)
                    # isinstance(fake, nn.Parameter) reads this attribute.
                    fake._is_param = isinstance(value, nn.Parameter)
                    replacements[value] = fake
                table[name] = replacements[value]


def _is_permuted_on_cpu(tensor: Any) -> bool:
    """Return whether a CPU tensor without gaps is neither contiguous nor channels last."""
    channels_last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return (
        isinstance(tensor, FakeTensor)
        and tensor.fake_device.type == "cpu"
        and not tensor.is_contiguous()
        and not (channels_last and tensor.is_contiguous(memory_format=channels_last))
        and bool(_aten.is_non_overlapping_and_dense.default(tensor))
    )


#: Operator → types that its kernel can compute: equal types, floating-point types, or real types.
_COMPUTED_TYPES: Final = {
    _aten.mm.default: "equal",
    _aten.addmm.default: "equal",
    _aten.convolution.default: "equal",
    _aten.native_batch_norm.default: "floating",
    _aten._log_softmax.default: "floating",
    _aten.relu.default: "real",
    _aten.relu_.default: "real",
}


def _check_types(operator: Any, types: set[torch.dtype]) -> None:
    """Raise ``RuntimeError`` for types that the kernel cannot compute.

    For fake tensors of such types, PyTorch would infer a result.
    """
    can_compute = {
        "equal": len(types) == 1,
        "floating": all(dtype.is_floating_point for dtype in types),
        "real": types.isdisjoint((torch.bool, torch.complex64, torch.complex128)),
    }
    if not can_compute[_COMPUTED_TYPES[operator]]:
        names = " with ".join(sorted(map(str, types)))
        raise RuntimeError(f"{operator} cannot compute {names}; convert them to one float dtype.")


@dataclass
class _StorageNumbers:
    """Numbers of storages, which are indices into ``sizes`` (B).

    ``numbers`` maps addresses of live storages to numbers.  ``freed`` lists the storages freed
    since the last ``take_freed``: the first number of each, and the number that ``merge`` last gave
    it.
    """

    sizes: list[int] = field(default_factory=list)
    numbers: dict[int, int] = field(default_factory=dict)
    freed: list[tuple[int, int]] = field(default_factory=list)
    references: list[weakref.ref[Any]] = field(default_factory=list)

    def number(self, tensor: torch.Tensor, *, watch: bool = True) -> int:
        """Return the number of a tensor's storage; with ``watch``, list the storage when freed."""
        storage = tensor.untyped_storage()
        address = storage._cdata
        if address not in self.numbers:
            number = self.numbers[address] = len(self.sizes)
            self.sizes.append(storage.nbytes())

            def note_freed(reference: object) -> None:
                present_number = self.numbers.pop(address)  # may have changed in ``merge``
                if watch:
                    self.freed.append((number, present_number))

            self.references.append(weakref.ref(storage, note_freed))
        return self.numbers[address]

    def take_freed(self) -> list[int]:
        """Return the storages freed since the last call, in the order of their first use."""
        freed, self.freed = sorted(self.freed), []
        return [present_number for _, present_number in freed]

    def merge(self, storage: int, target: int) -> None:
        """Renumber ``storage`` as ``target``, as if ``storage`` had never been allocated."""
        for address, number in self.numbers.items():
            if number == storage:
                self.numbers[address] = target
        self.sizes[storage] = 0


class Step(Protocol):
    """One call of ``module``, or one training step; it runs several times.

    ``phase`` is the pass that runs now, or the update.
    """

    module: nn.Module
    phase: Phase


class Recorder(TorchDispatchMode):
    """Dispatch mode that records every operator that ``step`` calls while the mode is active."""

    supports_higher_order_operators = True

    def __init__(self, step: Step) -> None:
        super().__init__()
        #: Whether operators are recorded; otherwise they are only called.
        self.records = True
        self.operators: list[Operator] = []
        #: Operators recorded before ``restart``.
        self.history: tuple[Operator, ...] = ()
        #: Index of an operator → FLOPs by torch's own counter.
        self.flops: dict[int, int] = {}
        #: Number of operators in the forward pass, and its limit.
        self.forward_count, self.forward_limit = 0, sys.maxsize
        #: Batch size, which no sequence axis of a module may have (0: no check).
        self.batch = 0
        self._step = step
        self._names = {id(member): name for member, name in module_names(step.module).items()}
        #: Names of the modules that are being called, outermost first.
        self._module_stack: list[str] = []
        #: Pairs of a sequence number of autograd and a module, by ascending number.  Nodes from
        #: this number to the next pair's number are created in a call of the module.
        self._modules_by_node: list[tuple[int, str]] = []
        self._storages = _StorageNumbers()
        #: Storages that the backward pass allocated.
        self._gradients: set[int] = set()
        self._inputs: tuple[Tensor, ...] = ()

    def begin(self, inputs: Sequence[torch.Tensor], *, records: bool = True) -> None:
        """Assign numbers to storages: parameters and buffers in ``Module.to``'s order, then inputs.

        Buffers are watched, since a call that replaces a buffer frees the old buffer.
        """
        for tensor in _tensors_in_apply_order(self._step.module):
            self._storages.number(tensor, watch=not isinstance(tensor, nn.Parameter))
        self._inputs = tuple(self._describe(tensor, watch=False) for tensor in inputs)
        self.restart(())
        self.records = records

    def restart(self, state: Iterable[torch.Tensor]) -> None:
        """Move all operators to the history, and record from here on.

        ``state`` are the tensors that remain from the first step, such as gradients, and that the
        next step may free.
        """
        self._storages.take_freed()  # forget what the first step freed
        self.history, self.operators = tuple(self.operators), []
        self.flops.clear()
        self.records, self.forward_count = True, 0
        self._state = tuple(self._describe(tensor) for tensor in state)
        parameters = self._step.module.named_parameters(remove_duplicate=False)
        self._parameters = {name: self._describe(p, watch=False) for name, p in parameters}
        buffers = self._step.module.named_buffers(remove_duplicate=False)
        self._buffers = {name: self._describe(buffer) for name, buffer in buffers}
        #: Identity of a parameter → name of the first module that has it.
        self._owners: dict[int, str] = {}
        for member in self._step.module.modules():
            for parameter in member._parameters.values():
                self._owners.setdefault(id(parameter), self._names[id(member)])

    @contextmanager
    def tracking_modules(self) -> Iterator[None]:
        """Track which module is being called.

        Operators of a module that is not part of the network are attributed to its caller.
        """

        def enter(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            name = self._names.get(id(module))
            self._module_stack.append(self._current_module() if name is None else name)
            note_module()
            if self.batch and getattr(module, "batch_first", None) is False:  # such as an LSTM
                self._refuse_growing_sequence(module, arguments)

        def leave(module: nn.Module, arguments: object, result: object) -> None:
            self._module_stack.pop()
            note_module()

        def note_module() -> None:
            """Remember the module in whose call autograd will create its next nodes."""
            number = torch._C._autograd._get_sequence_nr()
            # Outside all modules, the loss is being computed.
            module = self._module_stack[-1] if self._module_stack else operations.LOSS
            self._modules_by_node.append((number, module))

        with (
            register_module_forward_pre_hook(enter),
            register_module_forward_hook(leave, always_call=True),
        ):
            yield

    def _refuse_growing_sequence(self, module: nn.Module, arguments: tuple[Any, ...]) -> None:
        """Raise ``MeasurementError`` if a module's sequence axis grows with the batch instead."""
        for tensor in tensors_in(arguments[:1]):
            if tensor.dim() != 3:
                continue
            length, batch, _ = tensor.shape
            if length % self.batch == 0 and batch % self.batch != 0:
                raise MeasurementError(
                    f"{self._module_stack[-1] or type(module).__name__} takes the sequence first, "
                    f"so that its length would grow instead of the batch; {_BATCH_ADVICE}."
                )

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call an operator and record the call.

        Raises ``MeasurementError`` for an operator that calls a user's function, and for more
        forward operators than the limit.
        """
        keywords, phase = kwargs or {}, self._step.phase
        if isinstance(func, HigherOrderOperator) and func.name() not in _FLEX_ATTENTION:
            raise MeasurementError(
                f"{func.name()} calls a function that cannot be recorded; call the function itself."
            )
        if func is torch.ops.prim.device.default and isinstance(args[0], FakeTensor):
            return args[0].fake_device  # a shortcut, since it is called thousands of times
        if func.namespace in _NO_COMPUTATION:
            return func(*args, **keywords)
        if func is _aten._local_scalar_dense.default and phase == "update":
            return 1.0  # a norm or a count that scales an optimiser's step
        freed = self._take_freed() if self.records else ()
        result = func(*args, **keywords)
        if phase == "forward":
            self.forward_count += 1
        if self.forward_count > self.forward_limit:
            raise MeasurementError(
                "The network calls more operators for a larger batch, the last of them "
                f"{_operator_name(func)}: it loops over the batch, or a sequence grows instead; "
                f"{_BATCH_ADVICE}."
            )
        if self.records:
            self._record(func, args, keywords, result, freed)
        return result

    def _take_freed(self) -> tuple[int, ...]:
        """Return the storages freed after the last operator.

        If the last operator added to a gradient that was freed right after, change the recorded
        operator: it wrote the sum into this gradient (see the module's docstring).
        """
        freed = self._storages.take_freed()
        last = self.operators[-1] if self.operators else None
        is_sum = last is not None and (last.phase, last.name) == ("backward", "add.Tensor")
        if last is None or not is_sum or len(last.allocated) != 1:
            return tuple(freed)
        (storage,), (result,) = last.allocated, last.writes
        for operand in (last.tensor("self"), last.tensor("other")):
            if (
                operand is not None
                and operand.storage in self._gradients.intersection(freed)
                and (operand.shape, operand.dtype) == (result.shape, result.dtype)
                and operand.distinct_elements == operand.elements
            ):
                target = operand.storage
                self._storages.merge(storage, target)
                written = msgspec.structs.replace(result, storage=target)
                self.operators[-1] = msgspec.structs.replace(last, allocated=(), writes=(written,))
                return tuple(target if n == storage else n for n in freed if n != target)
        return tuple(freed)

    def _record(
        self,
        func: Any,
        args: tuple[Any, ...],
        keywords: Mapping[str, Any],
        result: Any,
        freed: tuple[int, ...],
    ) -> None:
        """Record a call with its arguments and result, and the storages freed before the call."""
        phase = self._step.phase
        schema = () if isinstance(func, HigherOrderOperator) else func._schema.arguments
        # An operator without a schema is attention, whose first arguments have these names.
        names = [argument.name for argument in schema] or ["query", "key", "value"]
        reads: dict[str, tuple[Tensor, ...]] = {}
        settings = {}
        for name, value in {**dict(zip(names, args, strict=False)), **keywords}.items():
            tensors = tuple(self._describe(tensor) for tensor in tensors_in(value))
            if not tensors:
                settings[name] = _convert_setting(value)
                continue
            reads[name] = tensors
            # A list of tensors may contain None; then also record which items are None.
            if isinstance(value, list) and any(item is None for item in value):
                settings[name] = tuple(None if item is None else True for item in value)
        first_new = len(self._storages.sizes)
        writes = tuple(self._describe(tensor) for tensor in tensors_in(result))
        allocated = tuple(range(first_new, len(self._storages.sizes)))
        if counter := flop_registry.get(getattr(func, "_overloadpacket", func)):
            self.flops[len(self.operators)] = counter(*args, **keywords, out_val=result)
        if phase == "backward":
            self._gradients |= set(allocated)
        updates = []  # names of arguments that the operator writes in place
        for argument in schema:
            if argument.name in reads and argument.is_write:
                updates.append(argument.name)
        self.operators.append(
            Operator(
                name=_operator_name(func),
                module=self._current_module(),
                phase=phase,
                reads=reads,
                settings=settings,
                writes=writes,
                updates=tuple(updates),
                allocated=allocated,
                freed=freed,
            )
        )

    def _current_module(self) -> str:
        """Return the name of the module to which the current operator belongs.

        In the backward pass, this is the module during whose call autograd recorded the current
        node, or the module of the parameter to whose gradient the node adds.
        """
        if self._step.phase == "update":
            return operations.OPTIMISER
        if self._module_stack:
            return self._module_stack[-1]
        node = torch._C._current_autograd_node() if self._step.phase == "backward" else None
        if node is None:
            return operations.LOSS
        parameter = getattr(node, "variable", None)
        if parameter is not None:
            return self._owners.get(id(parameter), operations.LOSS)
        earlier = bisect(self._modules_by_node, node._sequence_nr(), key=itemgetter(0))
        return self._modules_by_node[earlier - 1][1] if earlier else operations.LOSS

    def _describe(self, tensor: torch.Tensor, *, watch: bool = True) -> Tensor:
        """Describe a tensor for the record; with ``watch``, also note when its storage is freed.

        Raises ``MeasurementError`` for an unknown dtype and for sparse tensors.
        """
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in ITEM_BYTES or tensor.layout != torch.strided:
            kind = f"{dtype} ({tensor.layout})"
            raise MeasurementError(f"The network cannot be captured: bytes of {kind} are unknown.")
        number = self._storages.number(tensor, watch=watch)
        offset = tensor.storage_offset()
        return Tensor(number, tuple(tensor.shape), tuple(tensor.stride()), dtype, offset)

    def network(self) -> Network:
        """Return the network with all operators recorded since ``restart``."""
        return Network(
            storages=tuple(self._storages.sizes),
            parameters=self._parameters,
            buffers=self._buffers,
            inputs=self._inputs,
            state=self._state,
            operators=tuple(self.operators),
        )


def _operator_name(func: Any) -> str:
    return str(func).removeprefix("aten.")


def module_names(module: nn.Module) -> dict[nn.Module, str]:
    """Map every module to its name; a shared module's name joins up to three of its names."""
    names: dict[nn.Module, list[str]] = {}
    for name, member in module.named_modules(remove_duplicate=False):
        names.setdefault(member, []).append(name)
    joined = {}
    for member, member_names in names.items():
        joined[member] = ", ".join(member_names[:3])
        if len(member_names) > 3:
            joined[member] += f" and {len(member_names) - 3} more"
    return joined


def _tensors_in_apply_order(module: nn.Module) -> Iterator[torch.Tensor]:
    """Yield parameters and buffers in the order of ``Module._apply``, children first."""
    for child in module.children():
        yield from _tensors_in_apply_order(child)
    for tensor in (*module._parameters.values(), *module._buffers.values()):
        if tensor is not None:
            yield tensor


def _convert_setting(value: object) -> OperatorSetting:
    """Convert an argument without tensors; a dtype, a device or a layout becomes its name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return tuple(_convert_setting(item) for item in value)
    return str(value).removeprefix("torch.")
