"""Arrays in shared memory, by their bytes in memory order, so that layouts stay as they are."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, Final, Literal, TypeAlias

import msgspec
import numpy as np

#: Arrays begin at multiples of this (B), as those of allocators do.
_ALIGNMENT: Final = 64
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


class Array(msgspec.Struct, frozen=True):
    """Array at ``offset`` in shared memory, of ``size`` bytes; ``strides`` count elements."""

    library: Literal["numpy", "torch"]
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    size: int


#: An argument or a result: an array, or a plain value that needs no memory.
ArgumentValue: TypeAlias = Array | bool | int | float | str | None
_PLAIN: Final = (bool, int, float, str, type(None))


def end(values: Iterable[ArgumentValue]) -> int:
    """Return the first aligned byte behind all arrays."""
    ends = [value.offset + value.size for value in values if isinstance(value, Array)]
    return -(-max(ends, default=0) // _ALIGNMENT) * _ALIGNMENT


def write(values: Iterable[Any], memory: Bytes, offset: int) -> tuple[ArgumentValue, ...]:
    """Copy arrays into ``memory`` from ``offset`` on; plain values remain what they are.

    Raises ``ValueError`` if the memory is too small, and ``TypeError`` for objects.
    """
    written: list[ArgumentValue] = []
    for value in values:
        if type(value) in _PLAIN:  # NumPy's float64 is a float too
            written.append(value)
            continue
        array, content = _described(value, offset)
        memory[offset : offset + array.size] = content
        written.append(array)
        offset = end(written)
    return tuple(written)


def _described(value: Any, offset: int) -> tuple[Array, Bytes]:
    """Describe an array and return its bytes in memory order."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        tensor = value.detach()
        last = tensor.ndim == 4 and tensor.is_contiguous(memory_format=torch.channels_last)
        tensor = tensor if last else tensor.contiguous()
        flat = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy()
        name, strides = str(tensor.dtype).removeprefix("torch."), tuple(tensor.stride())
        return Array("torch", name, tuple(tensor.shape), strides, offset, flat.size), flat
    array = np.asarray(value)
    if array.dtype.hasobject:
        raise TypeError(f"{type(value).__name__} is no array of numbers")
    array = array if array.flags.f_contiguous else np.ascontiguousarray(array)
    flat = array.ravel(order="K").view(np.uint8)
    strides = tuple(stride // array.itemsize for stride in array.strides)
    return Array("numpy", array.dtype.str, array.shape, strides, offset, flat.size), flat


def read(value: ArgumentValue, memory: Bytes) -> Any:
    """Return an array of the library that wrote it, without copying, or the plain value."""
    if not isinstance(value, Array):
        return value
    if value.library == "numpy":
        return numbers(value, memory)
    import torch

    content = torch.from_numpy(memory[value.offset : value.offset + value.size])
    return content.view(getattr(torch, value.dtype)).as_strided(value.shape, value.strides)


def numbers(value: ArgumentValue, memory: Bytes) -> Any:
    """Return an array of either library, or a plain value, as an array of NumPy."""
    if not isinstance(value, Array):
        return np.asarray(value)
    is_half = value.dtype == "bfloat16"  # NumPy has no such type: the upper half of a float32
    content = memory[value.offset : value.offset + value.size]
    content = content.view("uint16" if is_half else value.dtype)
    strides = [stride * content.itemsize for stride in value.strides]
    array = np.lib.stride_tricks.as_strided(content, value.shape, strides)
    return (array.astype(np.uint32) << 16).view(np.float32) if is_half else array


def worst_error(output: Any, expected: Any) -> tuple[float, tuple[int, ...]]:
    """Return the largest relative error of an output and its index.

    The error of an element is relative to its expected magnitude, or to the root mean square of all
    expected elements where that is larger.  Elements that are no floating-point numbers are right
    or wrong, with an infinite error.
    """
    if not expected.size:
        return 0.0, ()
    same, error = output == expected, np.asarray(np.inf)
    if expected.dtype.kind in "fc":
        magnitude = np.abs(expected)
        finite = magnitude[np.isfinite(magnitude)].astype(np.float64)
        typical = np.sqrt(np.mean(finite**2)) if finite.size else 0.0
        with np.errstate(all="ignore"):
            difference = np.abs(output - expected.astype(np.result_type(expected, np.float64)))
            error = difference / np.maximum(magnitude, typical)
        same = same | (np.isnan(output) & np.isnan(expected))
    error = np.where(same, 0.0, np.where(np.isnan(error), np.inf, error))
    index = np.unravel_index(int(np.argmax(error)), error.shape)
    return float(error[index]), tuple(map(int, index))
