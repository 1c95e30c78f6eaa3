"""Options of the CUDA allocator against PyTorch's own reading of them, which needs no GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")

import torch

from report.errors import StudyError
from report.theory.allocator import MIB, options_of

_SYMBOL = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm"


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    torch._C._accelerator_setAllocatorSettings("roundup_power2_divisions:1")


def divisions_of_torch(text: str) -> list[int]:
    """What PyTorch reads from ``text`` for sizes from 1 MiB on, by powers of two."""
    torch._C._accelerator_setAllocatorSettings(text)
    library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libc10.so"))
    try:
        divisions = library[_SYMBOL]
    except AttributeError:
        pytest.skip(f"libc10 of torch {torch.__version__} does not export {_SYMBOL}")
    divisions.argtypes, divisions.restype = [ctypes.c_size_t], ctypes.c_size_t
    return [divisions(MIB << n) for n in range(16)]


@pytest.mark.parametrize("value", [1, 2, 16])
def test_divisions_are_read_as_pytorch_reads_them(value: int) -> None:
    text = f"max_split_size_mb:64,roundup_power2_divisions:{value}"
    assert set(divisions_of_torch(text)) == {options_of(text).divisions}


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:19",
        "garbage_collection_threshold:1",
        "expandable_segments:true",
        "roundup_power2_divisions:3",
    ],
)
def test_what_pytorch_refuses_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        torch._C._accelerator_setAllocatorSettings(text)
    with pytest.raises(StudyError):
        options_of(text)
