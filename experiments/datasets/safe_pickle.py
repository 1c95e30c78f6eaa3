"""Arrays out of a pickle, without running anything that the pickle names.

A pickle may call any function that it can import.  Here it can import nothing: the few names that
NumPy's arrays need lead to stand-ins of this module, which only keep what they are given, and every
other name is refused.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any, Final

import numpy as np

from experiments.datasets.images import Bytes
from experiments.datasets.refusal import refusal
from report.records.unpacking import UnpackingError, unpickled


class _Dtype:
    """Stands for ``numpy.dtype``: keeps the code of the element type, such as ``u1``."""

    def __init__(self, code: object = None, *_: object) -> None:
        self.code = code.decode("latin-1") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: object) -> None:
        """Byte order and fields; a type of one byte has neither."""


class _Array:
    """Stands for ``numpy.ndarray``: keeps the parts of its state."""

    shape: object = None
    dtype: object = None
    by_column: object = False
    content: object = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """The version, the shape, the type, whether columns come first, and the bytes."""
        _, self.shape, self.dtype, self.by_column, self.content = state


def _reconstruct(*_: object) -> _Array:
    return _Array()


def _frombuffer(content: object, dtype: object, shape: object, order: object, *_: object) -> _Array:
    """What NumPy writes from pickle protocol 5 on."""
    made = _Array()
    made.__setstate__((1, shape, dtype, order == "F", content))
    return made


def _latin1(text: str, encoding: str) -> bytes:
    """Python 3 writes bytes in this way in pickles of protocol 2."""
    if encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError(f"bytes encoded as {encoding!r}")
    return text.encode("latin-1")


_ADMITTED: Final[dict[tuple[str, str], Any]] = {
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy.core.numeric", "_frombuffer"): _frombuffer,
    ("numpy._core.numeric", "_frombuffer"): _frombuffer,
    ("_codecs", "encode"): _latin1,
}


def loads(content: bytes, path: Path) -> object:
    """What the pickle holds, arrays as stand-ins for ``array_of``.

    Raises ``DataSetError`` for what is no pickle, is cut, or asks for anything to be imported.
    """
    try:
        # The files were written by Python 2, whose strings are bytes.
        return unpickled(content, _ADMITTED, encoding="bytes")
    except UnpackingError as error:
        raise refusal(
            path, "", str(error).removeprefix("found "), "a whole pickle of NumPy arrays"
        ) from error


def array_of(value: object) -> Bytes | None:
    """The array of bytes that a stand-in keeps; None if it is no whole array of unsigned bytes."""
    if not (isinstance(value, _Array) and isinstance(value.dtype, _Dtype)):
        return None
    content, shape = value.content, value.shape
    if value.dtype.code not in ("u1", "|u1", "uint8") or not isinstance(content, bytes | bytearray):
        return None
    if not isinstance(shape, tuple) or not all(type(side) is int and side >= 0 for side in shape):
        return None
    flat = np.frombuffer(content, np.uint8)
    if flat.size != np.prod(shape, dtype=object):
        return None
    return flat.reshape(shape, order="F" if value.by_column else "C")
