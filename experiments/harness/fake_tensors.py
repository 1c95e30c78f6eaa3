"""Tensors without elements, and what operators give for them; imports torch.

A fake tensor has a device, a shape and a layout, dispatches as one of that device, and dies where a
real one would.  PyTorch infers in Python what an operator gives for it, and imports its compiler
and an algebra of symbols for that, which takes longer than all else that is done for a network.
The operators of convolutional networks, and views, are therefore inferred here (``RULES``; a test
compares them with PyTorch), and all others by PyTorch, which is set up with the first one.  What
form a result has is inferred once for arguments of each form.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import torch
from torch import nn
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator, OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, in_kernel_invocation_manager
from torch.utils._python_dispatch import TorchDispatchMode

_aten: Final = torch.ops.aten
#: Of operators whose results' shapes follow from values.
_BY_VALUES: Final = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}


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
    allow_meta = False
    cache_enabled = False

    def __init__(self) -> None:
        TorchDispatchMode.__init__(self)
        self.enter_stack = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator) and func not in registered_hop_fake_fns:
            return func.python_key_table[FakeTensorMode](self, *args, **(kwargs or {}))
        return self.dispatch(func, types, args, kwargs or {})

    def _dispatch_impl(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if _is_view(func) and isinstance(args[0], FakeTensor) and args[0].constant is None:
            with in_kernel_invocation_manager(self):
                result = func(*args, **kwargs)
            return self._faked(result, args[0].fake_device)
        if func is _aten._nnpack_available.default:  # asked where convolutions are chosen
            with torch._C._DisableTorchDispatch():
                return func()
        if "shape_env" not in vars(self):
            logging.getLogger(FakeTensorMode.__module__).disabled = True  # callers tell of errors
            begun = dict(vars(self))
            FakeTensorMode.__init__(self, allow_non_fake_inputs=True)
            vars(self).update(begun, cache_enabled=False)  # ``FakeResults`` knows each form
        return super()._dispatch_impl(func, types, args, kwargs)

    def _faked(self, result: Any, device: torch.device) -> Any:
        if isinstance(result, list | tuple):
            return [self._faked(each, device) for each in result]
        return result if isinstance(result, FakeTensor) else FakeTensor(self, result, device)


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


class Form(NamedTuple):
    """All of a fake tensor that decides about the results of operators that read it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    mode: FakeTensorMode

    def tensor(self) -> FakeTensor:
        """A new tensor of this form, as large as it needs to be."""
        with torch._C._DisableTorchDispatch():
            bare = torch.empty_strided(self.shape, self.strides, dtype=self.dtype, device="meta")
        return FakeTensor(self.mode, bare, self.device)


def put_into(module: nn.Module, mode: FakeMode, device: torch.device) -> None:
    """Put fake tensors in the place of all tensors of a module; shared ones stay shared."""
    known: dict[int, torch.Tensor] = {}

    def faked(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in known:
            bare = torch.empty_strided(
                tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
            )
            made = FakeTensor(mode, bare, device).requires_grad_(tensor.requires_grad)
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


# --------------------------------------------------------------------------------------- results


class FakeResults:
    """Calls operators; on tensors of forms that one has met it makes the same results anew."""

    def __init__(self, mode: FakeMode) -> None:
        self._mode = mode
        self._known: dict[object, tuple[Form | None, ...]] = {}

    def of(self, func: Any, args: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
        """What an operator gives."""
        if func in _IN_PLACE and not given and _stays_the_same(args):
            return args[0]
        if not _makes_tensors(func):
            return func(*args, **given)
        key = func, _form(args), _form(tuple(given.items()))
        if key not in self._known:
            made = self.by_rule(func, args, given)
            if made is None:
                result = func(*args, **given)
                parts = result if isinstance(result, tuple) else (result,)
                if _are_new(parts, (args, given)):
                    self._known[key] = tuple(map(_form, parts))
                return result
            self._known[key] = made
        made = tuple(form and form.tensor() for form in self._known[key])
        return made if len(func._schema.returns) > 1 else made[0]

    def fake(self, tensor: torch.Tensor) -> FakeTensor:
        """A tensor of the same form without elements."""
        return self._on(tensor.device, tensor).tensor()

    def by_rule(
        self, func: Any, args: tuple[Any, ...], given: Mapping[str, Any]
    ) -> tuple[Form | None, ...] | None:
        """The forms that a rule gives; None without a rule for such arguments."""
        rule, settings = RULES.get(func), dict(given)
        named = settings.pop("device", None) if func in _CREATIONS else None
        if rule is None or (settings and func not in _CREATIONS) or not _are_plain(args):
            return None
        devices = {each.device for each in tensors_in(args)}
        dtypes = {each.dtype for each in tensors_in(args)} - {torch.int64}
        if func not in _CREATIONS and (len(dtypes) != 1 or not dtypes <= _FLOATS):
            return None
        device = torch.device(named or next(iter(devices), "cpu"))
        made = rule(*args, **settings) if devices <= {device} else None
        if made is None:
            return None
        return tuple(None if each is None else self._on(device, each) for each in made)

    def _on(self, device: torch.device, tensor: torch.Tensor) -> Form:
        return Form(tuple(tensor.shape), tensor.stride(), tensor.dtype, device, self._mode)


@cache
def _makes_tensors(func: Any) -> bool:
    """Whether results lie beside the arguments, whose forms and settings give theirs."""
    return (
        isinstance(func, OpOverload)
        and _BY_VALUES.isdisjoint(func.tags)
        and not any(argument.alias_info for argument in func._schema.arguments)
    )


def _form(value: object) -> Any:
    """What decides about results: the form of a tensor, else its type and value."""
    if isinstance(value, FakeTensor) and value.constant is None:
        shape, strides = tuple(value.shape), value.stride()
        return Form(shape, strides, value.dtype, value.fake_device, value.fake_mode)
    if isinstance(value, torch.Tensor):
        return object()  # its values may be asked for
    if isinstance(value, list | tuple):
        return tuple(map(_form, value))
    return None if value is None else (type(value), value)


def _are_plain(args: object) -> bool:
    """Whether all tensors are fake ones, whose values nobody knows."""
    return all(isinstance(t, FakeTensor) and t.constant is None for t in tensors_in(args))


def _are_new(results: Sequence[object], read: object) -> bool:
    """Whether each result is None, or a tensor that fills a storage of its own."""
    made = [each for each in results if each is not None]
    if not all(isinstance(each, FakeTensor) and each.constant is None for each in made):
        return False
    storages = {each.untyped_storage()._cdata for each in tensors_in(made)}
    others = {each.untyped_storage()._cdata for each in tensors_in(read)}
    sizes = [each.untyped_storage().nbytes() for each in tensors_in(made)]
    needed = [_form(each).tensor().untyped_storage().nbytes() for each in made]
    return len(storages) == len(made) and storages.isdisjoint(others) and sizes == needed


# ----------------------------------------------------------------------------------------- rules
# Each gives tensors without device of the forms of the results, or None where anything is unusual:
# PyTorch then infers them, or refuses.  All tensors are of one floating type, or int64; those of a
# rule for gradients fit together, since autograd calls it after the operator itself.

_Made: TypeAlias = tuple[Any, ...] | None
_FLOATS: Final = {torch.float16, torch.bfloat16, torch.float32, torch.float64}
_CHANNELS_LAST: Final = {4: torch.channels_last, 5: torch.channels_last_3d}
#: What decides about a convolution beside its tensors, as ATen names it, in order.
_WAY: Final = ("stride", "padding", "dilation", "transposed", "output_padding", "groups")


def bare(
    shape: Sequence[int],
    dtype: torch.dtype,
    layout: torch.memory_format = torch.contiguous_format,
) -> torch.Tensor:
    """A tensor without elements and device."""
    with torch._C._DisableTorchDispatch():
        return torch.empty(shape, dtype=dtype, device="meta", memory_format=layout)


def _bare_like(tensor: torch.Tensor) -> torch.Tensor:
    with torch._C._DisableTorchDispatch():
        shape, strides = tensor.shape, tensor.stride()
        return torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")


def _layout(tensor: torch.Tensor) -> torch.memory_format | None:
    """The order of a tensor without gaps, usual or channels last; None where it is another."""
    orders = (torch.contiguous_format, _CHANNELS_LAST.get(tensor.dim()))
    return next((o for o in orders if o and tensor.is_contiguous(memory_format=o)), None)


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether there are elements, and no gaps between them in any order."""
    size = 1
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent != 1 and stride != size:
            return False
        size *= extent
    return size > 0


def _are_alike(args: Sequence[Any]) -> bool:
    """Whether tensors have one form, and beside them stand numbers of their kind."""
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    numbers = [each for each in args if not isinstance(each, torch.Tensor)]
    kinds = (int, float) if tensors[0].is_floating_point() else (int,)
    return len(set(map(_form, tensors))) == 1 and all(type(each) in kinds for each in numbers)


def _stays_the_same(args: tuple[Any, ...]) -> bool:
    """Whether a result that is written in place of the first argument fits there."""
    known = _are_plain(args) and args[0].dtype in {*_FLOATS, torch.int64}
    return known and _are_alike(args) and _is_dense(args[0])


def _element_wise(*args: Any) -> _Made:
    first = args[0]
    if not _are_alike(args) or not first.numel():
        return None
    if _is_dense(first) and not first.is_contiguous():
        return (_bare_like(first),)
    steps = pairwise(stride for stride in first.stride() if stride)
    known = first.is_contiguous() or all(outer > inner for outer, inner in steps)
    return (bare(first.shape, first.dtype),) if known else None


def _like(source: torch.Tensor, **given: Any) -> _Made:
    usual = (None, False, torch.preserve_format, torch.strided, source.dtype)
    known = _is_dense(source) and all(each in usual for each in given.values())
    return (_bare_like(source),) if known else None


def _softmax(source: torch.Tensor, *args: Any) -> _Made:
    *others, axis, converted = args
    fits = _are_alike([source, *others]) and axis in range(-source.dim(), source.dim())
    known = source.is_contiguous() and source.dtype == torch.float32
    return (_bare_like(source),) if fits and known and converted in (False, source.dtype) else None


def _likelihood(source: torch.Tensor, labels: Any, weight: Any, reduction: int, _: int) -> _Made:
    fits = source.dim() == 2 and labels.shape == source.shape[:1] and labels.dtype == torch.int64
    if not fits or source.dtype != torch.float32 or weight is not None or reduction == 0:
        return None
    return bare((), source.dtype), bare((), source.dtype)


def _likelihood_backward(gradient: torch.Tensor, source: torch.Tensor, *args: Any) -> _Made:
    return (_bare_like(source),) if source.is_contiguous() else None


def _normalised(source: torch.Tensor, *args: Any) -> _Made:
    _, _, *statistics, training, _, _ = args
    layout, channels = _layout(source), source.shape[1:2]
    if layout is None and source.device.type == "cpu":
        layout = torch.contiguous_format
    known = layout and _is_dense(source) and source.dtype == torch.float32
    fits = all(each.shape == channels for each in tensors_in(args))
    if not known or not fits or not (training or all(each is not None for each in statistics)):
        return None
    saved = bare(channels if training else (0,), source.dtype)
    return bare(source.shape, source.dtype, layout), saved, saved


def _normalised_backward(gradient: torch.Tensor, source: torch.Tensor, *args: Any) -> _Made:
    *_, mask = args
    known = _are_alike((gradient, source))
    made = _normalised(source, *args[:3], None, True, None, None) if known else None
    return made and tuple(each if wanted else None for each, wanted in zip(made, mask, strict=True))


def _product(left: torch.Tensor, right: torch.Tensor) -> _Made:
    fits = left.dim() == right.dim() == 2 and left.shape[1] == right.shape[0]
    return (bare((left.shape[0], right.shape[1]), left.dtype),) if fits else None


def _product_and_sum(bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> _Made:
    return _product(left, right) if bias.shape == right.shape[1:] else None


def _reduced(source: torch.Tensor, axes: Sequence[int] = (), keep: bool = False) -> _Made:
    count = source.dim()
    axes = axes or range(count)
    gone = {axis % count for axis in axes if axis in range(-count, count)}
    if len(gone) < len(axes) or not source.is_contiguous():
        return None
    extents = enumerate(source.shape)
    shape = [1 if axis in gone else n for axis, n in extents if keep or axis not in gone]
    return (bare(shape, source.dtype),)


def _places(source: torch.Tensor, channels: int, *given: Sequence[int]) -> list[int] | None:
    """The shape that a kernel gives by its size, stride, padding and dilation, each usual."""
    kernel, stride, padding, dilation = given
    usual = {len(each) for each in given} == {source.dim() - 2}
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
    if source.dim() != 4 or ceil or layout is None:
        return None
    shape = _places(source, source.shape[1], kernel, stride or kernel, padding, dilation)
    if not shape or 2 * max(padding) > min(kernel):
        return None
    return bare(shape, source.dtype, layout), bare(shape, torch.int64, layout)


def _pooled_backward(gradient: torch.Tensor, source: torch.Tensor, *args: Any) -> _Made:
    layout = _layout(source) if source.dim() == 4 else None
    return (bare(source.shape, source.dtype, layout),) if layout else None


def _convolved(source: torch.Tensor, weight: torch.Tensor, bias: Any, *way: Any) -> _Made:
    *windows, transposed, _, groups = way
    if source.dim() not in _CHANNELS_LAST or source.dim() != weight.dim() or transposed:
        return None
    made, read = weight.shape[:2]
    shape = _places(source, made, weight.shape[2:], *windows)
    fits = made and source.shape[1] == read * groups and made % groups == 0
    if not shape or not fits or (bias is not None and bias.shape != (made,)):
        return None
    layout = _convolution_layout(source, weight, way, bias=bias)
    return (bare(shape, source.dtype, layout),)


def _convolved_backward(
    gradient: torch.Tensor, source: torch.Tensor, weight: torch.Tensor, sizes: Any, *args: Any
) -> _Made:
    *way, mask = args
    if source.dim() not in _CHANNELS_LAST:
        return None
    layout = _convolution_layout(source, weight, way, bias=None, bias_sizes=sizes)
    made = (
        bare(source.shape, gradient.dtype, layout),
        bare(weight.shape, gradient.dtype, layout),
        bare(gradient.shape[1:2], gradient.dtype),
    )
    return tuple(each if wanted else None for each, wanted in zip(made, mask, strict=True))


def _convolution_layout(
    source: torch.Tensor, weight: torch.Tensor, way: Sequence[Any], **bias: Any
) -> torch.memory_format:
    """The order in which the implementation that PyTorch would choose writes its results."""
    chosen = torch._C._select_conv_backend(
        source, weight, **dict(zip(_WAY, way, strict=True)), **bias
    )
    return torch._C._conv_determine_backend_memory_format(source, weight, chosen)


def _created(shape: Sequence[int], **given: Any) -> _Made:
    usual = (None, False, torch.contiguous_format, torch.strided)
    dtype = given.pop("dtype", None) or torch.get_default_dtype()
    return (bare(shape, dtype),) if all(each in usual for each in given.values()) else None


_CREATIONS: Final[dict[Any, Callable[..., _Made]]] = {
    _aten.empty.memory_format: _created, _aten.zeros.default: _created,
    _aten.ones.default: _created, _aten.empty_like.default: _like,
    _aten.zeros_like.default: _like, _aten.ones_like.default: _like,
}  # fmt: skip
RULES: Final[dict[Any, Callable[..., _Made]]] = {
    **_CREATIONS,
    **dict.fromkeys((
        _aten.relu.default, _aten.sqrt.default, _aten.add.Tensor, _aten.mul.Tensor,
        _aten.div.Tensor, _aten.div.Scalar, _aten.threshold_backward.default,
        _aten.hardtanh.default, _aten.hardtanh_backward.default, _aten.sigmoid.default,
        _aten.sigmoid_backward.default, _aten.tanh.default, _aten.tanh_backward.default,
    ), _element_wise),
    _aten._log_softmax.default: _softmax,
    _aten._log_softmax_backward_data.default: _softmax,
    _aten.nll_loss_forward.default: _likelihood,
    _aten.nll_loss_backward.default: _likelihood_backward,
    _aten.native_batch_norm.default: _normalised,
    _aten.native_batch_norm_backward.default: _normalised_backward,
    _aten.mm.default: _product,
    _aten.addmm.default: _product_and_sum,
    _aten.mean.dim: _reduced,
    _aten.sum.dim_IntList: _reduced,
    _aten.mean.default: _reduced,
    _aten.sum.default: _reduced,
    _aten.max_pool2d_with_indices.default: _pooled,
    _aten.max_pool2d_with_indices_backward.default: _pooled_backward,
    _aten.convolution.default: _convolved,
    _aten.convolution_backward.default: _convolved_backward,
}  # fmt: skip
#: Of these the result is the first argument.
_IN_PLACE: Final = frozenset({
    _aten.add_.Tensor, _aten.mul_.Tensor, _aten.relu_.default, _aten.hardtanh_.default,
})  # fmt: skip
