"""Arrays in shared memory, in the layout that they have."""

import sys
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec
import numpy as np

#: Arrays begin at multiples of this (B), as those of allocators do.
_ALIGNMENT: Final = 64
Bytes: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"


class Array(msgspec.Struct, frozen=True):
    """Array at ``offset`` in shared memory, of ``size`` bytes; ``strides`` are in bytes.

    ``dtype`` is NumPy's, or ``bfloat16``, which NumPy has not.
    """

    is_tensor: bool
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

    Raises ``TypeError`` for objects, and if the memory is too small.
    """
    written: list[ArgumentValue] = []
    for value in values:
        if type(value) in _PLAIN:  # NumPy's float64 is a float too
            written.append(value)
            continue
        torch: Any = sys.modules.get("torch")
        is_tensor = torch is not None and isinstance(value, torch.Tensor)
        is_half = is_tensor and value.dtype == torch.bfloat16
        tensor = value.view(torch.int16) if is_half else value
        source = tensor.detach().numpy() if is_tensor else np.asarray(value)
        if source.dtype.hasobject:
            raise TypeError(f"{type(value).__name__} is no array of numbers")
        dtype = "bfloat16" if is_half else source.dtype.str
        # NumPy's order "K" is that of the source, without gaps.
        strides = np.empty_like(source, order="K").strides
        array = Array(is_tensor, dtype, source.shape, strides, offset, source.nbytes)
        _in_memory(array, memory)[...] = source
        written.append(array)
        offset = end(written)
    return tuple(written)


def _in_memory(array: Array, memory: Bytes) -> Any:
    """Return an array's numbers without copying; those of bfloat16 as integers."""
    dtype = "int16" if array.dtype == "bfloat16" else array.dtype
    return np.ndarray(array.shape, dtype, memory, array.offset, array.strides)


def read(value: ArgumentValue, memory: Bytes) -> Any:
    """Return an array of the library that wrote it, without copying, or the plain value."""
    if not isinstance(value, Array):
        return value
    if not value.is_tensor:
        return _in_memory(value, memory)
    import torch

    tensor = torch.from_numpy(_in_memory(value, memory))
    return tensor.view(torch.bfloat16) if value.dtype == "bfloat16" else tensor


def numbers(value: ArgumentValue, memory: Bytes) -> Any:
    """Return an array of either library, or a plain value, as an array of NumPy."""
    if not isinstance(value, Array):
        return np.asarray(value)
    array = _in_memory(value, memory)
    # The bits of a bfloat16 are the upper half of a float32.
    return (array.astype(np.uint32) << 16).view("float32") if value.dtype == "bfloat16" else array


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
