"""Tensors without elements, in which PyTorch infers the results of operators; imports torch.

A fake tensor has a device, a shape and a layout, dispatches as one of that device, and dies where a
real one would.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cache
from threading import get_ident
from typing import Any, Final

import torch
from torch import nn
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

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


@cache
def is_in_place(func: Any) -> bool:
    """Return whether an operator changes only the values of its first argument."""
    return func.__name__.partition(".")[0].endswith("_") and torch.Tag.inplace_view not in func.tags


class DispatchMode(TorchDispatchMode):
    """Mode that sees every operator, without the guard against compilers that costs time."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class FakeMode(DispatchMode, FakeTensorMode):
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
            _refuse_types(func, args)
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


# ----------------------------------------------------------------------------------------- types


def _refuse_types(func: Any, args: tuple[Any, ...]) -> None:
    """Raise ``RuntimeError`` for tensors of types that the operator's kernel does not compute."""
    types = {tensor.dtype for tensor in tensors_in(args)}
    if not _ACCEPTS[func](types):
        names = " with ".join(sorted(map(str, types)))
        raise RuntimeError(f"{func} takes no {names}; convert its tensors to one type of floats.")


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
