"""Tensors without elements, and what operators give for them; imports torch.

A fake tensor has a device, a shape and a layout, dispatches as one of that device, and dies where a
real one would.  PyTorch infers in Python what an operator gives for it, and imports its compiler
and an algebra of symbols for that, which takes longer than all else that is done for a network.
Views, and the operators that train common networks of convolutions (``RULES``; a test compares them
with PyTorch), are therefore inferred here; all others, and whatever is unusual, by PyTorch.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from itertools import pairwise
from threading import Thread, get_ident
from typing import Any, Final, TypeAlias

import torch
from torch import nn
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils._python_dispatch import TorchDispatchMode

_aten: Final = torch.ops.aten


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """All tensors within lists, tuples and dictionaries."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from tensors_in(each)
    elif isinstance(value, dict):
        yield from tensors_in(tuple(value.values()))


@cache
def is_in_place(func: Any) -> bool:
    """Whether an operator changes no more than the values of its first argument."""
    return func.__name__.partition(".")[0].endswith("_") and torch.Tag.inplace_view not in func.tags


class DispatchMode(TorchDispatchMode):
    """A mode that sees every operator, without the guard against compilers that all would pay."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class FakeMode(DispatchMode, FakeTensorMode):
    """PyTorch's own mode, which is set up with the first operator that needs it."""

    supports_higher_order_operators = True
    #: What fake tensors and the stack of modes ask before.
    _mode_key = torch._C._TorchDispatchModeKey.FAKE
    _allow_unsafe_data_ptr_access = False
    allow_meta = cache_enabled = False

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.enter_stack = []
        #: The order of a convolution's results, by the forms of its arguments.
        self.layouts: dict[object, torch.memory_format] = {}
        self._thread = get_ident()
        #: An operator of a thread of the network's own; nobody records it.
        self.unseen = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if get_ident() != self._thread and torch._C._current_autograd_node() is None:
            self.unseen = str(func)  # autograd's threads have a node and are seen
        if isinstance(func, HigherOrderOperator) and func not in registered_hop_fake_fns:
            return func.python_key_table[FakeTensorMode](self, *args, **(kwargs or {}))
        if func is _aten._nnpack_available.default:  # asked where convolutions are chosen
            with torch._C._DisableTorchDispatch():
                return func()
        found = self._inferred(func, args, kwargs or {})
        return self.dispatch(func, types, args, kwargs) if found is NotImplemented else found

    def _inferred(self, func: Any, args: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
        """What a view or an operator with a rule gives, else ``NotImplemented``."""
        tensors = list(tensors_in(args))
        types = {each.dtype for each in tensors}
        if func in _TAKES and not _TAKES[func](types):
            names = " with ".join(sorted(map(str, types)))
            raise RuntimeError(
                f"{func} takes no {names}; convert its tensors to one type of floats."
            )
        if not all(isinstance(each, FakeTensor) and each.constant is None for each in tensors):
            return NotImplemented
        rule = RULES.get(func)
        if rule is None:
            if not _is_view(func):
                return NotImplemented
            with in_kernel_invocation_manager(self):
                return self._faked(func(*args, **given), args[0].fake_device)
        device = given.get("device") or (tensors[0].fake_device if tensors else torch.device("cpu"))
        of_floats = types - {torch.int64} == {torch.float32}
        usual = rule in _OF_ANY_TYPE or (of_floats and not given)
        if not usual or any(each.fake_device != device for each in tensors):
            return NotImplemented
        made = rule(*args, **given)
        if made is None:
            return NotImplemented
        return self._faked(made if len(made) > 1 else made[0], device)

    def _dispatch_impl(self, *call: Any) -> Any:
        if "shape_env" not in vars(self):
            logging.getLogger(FakeTensorMode.__module__).disabled = True  # callers tell of errors
            # In a thread: a failure that an import keeps holds the frames below it, and tensors.
            imports = Thread(target=_import_compiler)
            imports.start()
            imports.join()
            begun = dict(vars(self))
            FakeTensorMode.__init__(self, allow_non_fake_inputs=True)
            vars(self).update(begun)
        return super()._dispatch_impl(*call)

    def _faked(self, made: Any, device: torch.device) -> Any:
        if isinstance(made, list | tuple):
            return type(made)(self._faked(each, device) for each in made)
        keep = made is None or isinstance(made, FakeTensor)
        return made if keep else FakeTensor(self, made, device)

    def like(self, tensor: torch.Tensor, device: torch.device) -> FakeTensor:
        """A tensor of the same form without elements."""
        return FakeTensor(self, _bare_like(tensor), device)


def _import_compiler() -> None:
    with suppress(Exception):  # it is imported, and fails, again where PyTorch needs it
        import_module("torch._dynamo")


@cache
def _is_view(func: Any) -> bool:
    """Whether all that an operator gives shows its first argument, by a kernel in C++."""
    if not isinstance(func, OpOverload) or func is _aten.lift_fresh.default:
        return False
    aliases = [argument.alias_info for argument in func._schema.arguments]
    return (
        func.namespace == "aten"
        and any(aliases[:1])
        and not any(each.is_write for each in aliases if each)
        and all(each.alias_info for each in func._schema.returns)
        and not func._can_decompose()
    )


def put_into(module: nn.Module, mode: FakeMode, device: torch.device) -> None:
    """Put fake tensors in the place of all tensors of a module; shared ones stay shared."""
    known: dict[int, torch.Tensor] = {}

    def faked(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in known:
            made = mode.like(tensor, device).requires_grad_(tensor.requires_grad)
            made._is_param = isinstance(tensor, nn.Parameter)  # which makes it an nn.Parameter
            known[id(tensor)] = made
        return known[id(tensor)]

    originals = []  # kept, so that no new tensor is taken for one that is gone
    for part in module.modules():
        for table in (part._parameters, part._buffers, vars(part)):
            for name, value in list(table.items()):
                if isinstance(value, torch.Tensor):
                    originals.append(value)
                    table[name] = faked(value)


# ----------------------------------------------------------------------------------------- rules
# Each gives tensors without device of the forms of the results, or None where anything is unusual:
# PyTorch then infers them, or refuses.  All tensors are of float32, or int64; those of a rule for
# gradients fit together, since autograd calls it after the operator itself.

_Made: TypeAlias = tuple[torch.Tensor | None, ...] | None


def _bare(
    shape: Sequence[int],
    layout: torch.memory_format = torch.contiguous_format,
    dtype: torch.dtype = torch.float32,
) -> torch.Tensor:
    with torch._C._DisableTorchDispatch():
        return torch.empty(shape, dtype=dtype, device="meta", memory_format=layout)


def _bare_like(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C._DisableTorchDispatch():
        shape, strides = tensor.shape, tensor.stride()
        return torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")


def _layout(tensor: torch.Tensor) -> torch.memory_format | None:
    """The order of a tensor without gaps, usual or channels last; None where it is another."""
    if tensor.is_contiguous():
        return torch.contiguous_format
    last = {4: torch.channels_last, 5: torch.channels_last_3d}.get(tensor.dim())
    return last if last and tensor.is_contiguous(memory_format=last) else None


def _are_alike(args: Sequence[Any]) -> bool:
    """Whether tensors have one form, and beside them stand numbers of their kind."""
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    numbers = [each for each in args if not isinstance(each, torch.Tensor)]
    forms = set(map(_form, tensors))
    kinds = {torch.float32: (int, float), torch.int64: (int,)}.get(tensors[0].dtype, ())
    return len(forms) == 1 and all(type(each) in kinds for each in numbers)


def _element_wise(*args: Any) -> _Made:
    first, layout = args[0], _layout(args[0])
    steps = pairwise(stride for stride in first.stride() if stride)
    if layout is None and all(outer > inner for outer, inner in steps):
        layout = torch.contiguous_format  # gaps and repeated elements are not kept
    known = first.numel() and _are_alike(args) and first.is_floating_point()
    return (_bare(first.shape, layout),) if layout and known else None


def _in_place(*args: Any, **given: Any) -> _Made:
    return (args[0],) if not given and _are_alike(args) and _layout(args[0]) else None


def _divided(*args: Any) -> _Made:
    return _in_place(*args)  # not of whole numbers, whose quotients they cannot hold


def _like(source: torch.Tensor, *, device: Any = None, **given: Any) -> _Made:
    usual = (None, False, torch.preserve_format, torch.strided, source.dtype)
    known = _layout(source) and all(each in usual for each in given.values())
    return (_bare_like(source),) if known else None


def _created(shape: Sequence[int], *, device: Any = None, **given: Any) -> _Made:
    usual = (None, False, torch.contiguous_format, torch.strided)
    dtype = given.pop("dtype", None) or torch.get_default_dtype()
    return (_bare(shape, dtype=dtype),) if all(each in usual for each in given.values()) else None


def _softmax(source: torch.Tensor, *args: Any) -> _Made:
    *others, axis, converted = args
    fits = _are_alike([source, *others]) and axis in range(-source.dim(), source.dim())
    known = source.is_contiguous() and converted in (False, source.dtype)
    return (_bare(source.shape),) if fits and known else None


def _likelihood(source: torch.Tensor, labels: Any, weight: Any, reduction: int, _: int) -> _Made:
    fits = source.dim() == 2 and labels.shape == source.shape[:1] and labels.dtype == torch.int64
    return (_bare(()), _bare(())) if fits and weight is None and reduction else None


def _of_input(gradient: torch.Tensor, source: torch.Tensor, *args: Any) -> _Made:
    """The gradient of the second argument."""
    layout = _layout(source)
    return (_bare(source.shape, layout),) if layout else None


def _normalised(source: FakeTensor, *args: Any) -> _Made:
    _, _, *statistics, training, _, _ = args
    layout, channels = _layout(source), source.shape[1:2]
    dense = _aten.is_non_overlapping_and_dense.default(source)
    if layout is None and dense and source.fake_device.type == "cpu":
        layout = torch.contiguous_format
    fits = all(each.shape == channels for each in tensors_in(args))
    if layout is None or not fits or not (training or all(each is not None for each in statistics)):
        return None
    saved = channels if training else (0,)
    return _bare(source.shape, layout), _bare(saved), _bare(saved)


def _normalised_backward(gradient: torch.Tensor, source: torch.Tensor, *args: Any) -> _Made:
    layout, channels = _layout(source), source.shape[1:2]
    if layout is None or not _are_alike((gradient, source)):
        return None
    return _asked((_bare(source.shape, layout), _bare(channels), _bare(channels)), args[-1])


def _asked(made: Sequence[torch.Tensor], mask: Sequence[bool]) -> _Made:
    return tuple(each if wanted else None for each, wanted in zip(made, mask, strict=True))


def _product(left: torch.Tensor, right: torch.Tensor) -> _Made:
    fits = left.dim() == right.dim() == 2 and left.shape[1] == right.shape[0]
    return (_bare((left.shape[0], right.shape[1])),) if fits else None


def _product_and_sum(bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> _Made:
    return _product(left, right) if bias.shape == right.shape[1:] else None


def _reduced(source: torch.Tensor, axes: Sequence[int] = (), keep: bool = False) -> _Made:
    count = source.dim()
    axes = axes or range(count)
    gone = {axis % count for axis in axes if axis in range(-count, count)}
    if len(gone) < len(axes) or not source.is_contiguous():
        return None
    extents = enumerate(source.shape)
    return (_bare([1 if axis in gone else n for axis, n in extents if keep or axis not in gone]),)


def _places(source: torch.Tensor, channels: int, *given: Sequence[int]) -> list[int] | None:
    """The shape that a kernel gives by its size, stride, padding and dilation, each usual."""
    kernel, stride, padding, dilation = given
    usual = source.dim() == 4 and {len(each) for each in given} == {2}
    if not usual or min(*kernel, *stride, *dilation) < 1 or min(padding) < 0:
        return None
    axes = zip(source.shape[2:], *given, strict=True)
    windows = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in axes]
    return [source.shape[0], channels, *windows] if source.numel() and min(windows) > 0 else None


def _pooled(
    source: torch.Tensor,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil: bool = False,
) -> _Made:
    layout = _layout(source)
    shape = _places(source, source.shape[1], kernel, stride or kernel, padding, dilation)
    if layout is None or ceil or not shape or 2 * max(padding) > min(kernel):
        return None
    return _bare(shape, layout), _bare(shape, layout, torch.int64)


def _convolved(source: torch.Tensor, weight: torch.Tensor, bias: Any, *way: Any) -> _Made:
    *windows, transposed, _, groups = way
    if source.dim() != weight.dim() or transposed:
        return None
    made, read = weight.shape[:2]
    shape = _places(source, made, weight.shape[2:], *windows)
    fits = made and source.shape[1] == read * groups and made % groups == 0
    if not shape or not fits or (bias is not None and bias.shape != (made,)):
        return None
    return (_bare(shape, _convolution_layout(source, weight, bias, *way)),)


def _convolved_backward(
    gradient: torch.Tensor, source: torch.Tensor, weight: torch.Tensor, sizes: Any, *args: Any
) -> _Made:
    *way, mask = args
    if source.dim() != 4:
        return None
    layout = _convolution_layout(source, weight, None, *way, sizes)
    channels = gradient.shape[1:2]
    made = (_bare(source.shape, layout), _bare(weight.shape, layout), _bare(channels))
    return _asked(made, mask)


def _convolution_layout(source: FakeTensor, *given: Any) -> torch.memory_format:
    """The order in which the implementation that PyTorch would choose writes its results."""
    known, key = source.fake_mode.layouts, tuple(map(_form, (source, *given)))
    if key not in known:
        with source.fake_mode:
            chosen = torch._C._select_conv_backend(source, *given)
            known[key] = torch._C._conv_determine_backend_memory_format(source, given[0], chosen)
    return known[key]


def _form(value: Any) -> object:
    if isinstance(value, FakeTensor):
        return value.shape, value.stride(), value.dtype, value.fake_device
    return tuple(value) if isinstance(value, list) else value


RULES: Final[dict[Any, Callable[..., _Made]]] = {
    _aten.empty.memory_format: _created,
    _aten.zeros.default: _created,
    **dict.fromkeys((
        _aten.empty_like.default, _aten.zeros_like.default, _aten.ones_like.default,
        _aten.clone.default,
    ), _like),
    **dict.fromkeys((
        _aten.add_.Tensor, _aten.relu_.default, _aten.hardtanh_.default, _aten.bernoulli_.float,
    ), _in_place),
    _aten.div_.Scalar: _divided,
    **dict.fromkeys((
        _aten.relu.default, _aten.sqrt.default, _aten.add.Tensor, _aten.mul.Tensor,
        _aten.div.Tensor, _aten.div.Scalar, _aten.threshold_backward.default,
        _aten.hardtanh.default, _aten.hardtanh_backward.default,
    ), _element_wise),
    _aten._log_softmax.default: _softmax,
    _aten._log_softmax_backward_data.default: _softmax,
    _aten.nll_loss_forward.default: _likelihood,
    _aten.nll_loss_backward.default: _of_input,
    _aten.native_batch_norm.default: _normalised,
    _aten.native_batch_norm_backward.default: _normalised_backward,
    _aten.mm.default: _product,
    _aten.addmm.default: _product_and_sum,
    _aten.mean.dim: _reduced,
    _aten.sum.dim_IntList: _reduced,
    _aten.max_pool2d_with_indices.default: _pooled,
    _aten.max_pool2d_with_indices_backward.default: _of_input,
    _aten.convolution.default: _convolved,
    _aten.convolution_backward.default: _convolved_backward,
}  # fmt: skip
_OF_ANY_TYPE: Final = (_created, _like, _in_place)


def _are_floating(types: set[torch.dtype]) -> bool:
    return all(each.is_floating_point for each in types)


#: Which types together an operator takes, where PyTorch infers results for others too.
_TAKES: Final[dict[Any, Callable[[set[torch.dtype]], bool]]] = {
    **dict.fromkeys((
        _aten.mm.default, _aten.addmm.default, _aten.convolution.default,
    ), lambda types: len(types) == 1),
    _aten.native_batch_norm.default: _are_floating,
    _aten._log_softmax.default: _are_floating,
    **dict.fromkeys((
        _aten.relu.default, _aten.relu_.default,
    ), lambda types: types.isdisjoint((torch.bool, torch.complex64, torch.complex128))),
}  # fmt: skip
