"""What operators give on fake tensors, inferred once for tensors of each form; imports torch.

PyTorch infers the form of every result anew, which takes longer than all else of a capture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

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


class _Form(NamedTuple):
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


class FakeResults:
    """Calls operators; on tensors of forms that one has met it makes the same results anew."""

    def __init__(self) -> None:
        self._known: dict[object, tuple[_Form | None, ...]] = {}

    def of(self, func: Any, args: tuple[Any, ...], given: Mapping[str, Any]) -> Any:
        """What an operator gives."""
        if not _makes_tensors(func):
            return func(*args, **given)
        key = func, _form(args), _form(tuple(given.items()))
        if key not in self._known:
            result = _normalised(func, args) or func(*args, **given)
            parts = result if isinstance(result, tuple) else (result,)
            if _are_new(parts, (args, given)):
                self._known[key] = tuple(None if each is None else _form(each) for each in parts)
            return result
        made = tuple(form and form.tensor() for form in self._known[key])
        return made if len(func._schema.returns) > 1 else made[0]


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
        return _Form(shape, strides, value.dtype, value.fake_device, value.fake_mode)
    if isinstance(value, torch.Tensor):
        return object()  # its values may be asked for
    if isinstance(value, list | tuple):
        return tuple(map(_form, value))
    return type(value), value


def _are_new(results: tuple[object, ...], read: object) -> bool:
    """Whether each result is None, or a tensor that fills a storage of its own."""
    made = [each for each in results if each is not None]
    if not all(isinstance(each, FakeTensor) and each.constant is None for each in made):
        return False
    storages = {each.untyped_storage()._cdata for each in tensors_in(made)}
    others = {each.untyped_storage()._cdata for each in tensors_in(read)}
    sizes = [each.untyped_storage().nbytes() for each in tensors_in(made)]
    needed = [_form(each).tensor().untyped_storage().nbytes() for each in made]
    return len(storages) == len(made) and storages.isdisjoint(others) and sizes == needed


def _normalised(func: Any, args: tuple[Any, ...]) -> tuple[torch.Tensor | None, ...] | None:
    """Results of a batch norm in float32, whose slow decomposition is a fifth of a capture."""
    backward = func is torch.ops.aten.native_batch_norm_backward.default
    if not backward and func is not torch.ops.aten.native_batch_norm.default:
        return None
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    source, mask = tensors[0], args[9] if backward else (True,) * 3
    if any(each.dtype != torch.float32 for each in tensors) or (
        backward and args[0].stride() != args[1].stride()
    ):
        return None
    channels = source.shape[1] if backward or args[5] else 0
    made = (torch.empty_like(source), source.new_empty(channels), source.new_empty(channels))
    return tuple(each if wanted else None for each, wanted in zip(made, mask, strict=True))
