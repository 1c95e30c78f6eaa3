"""Options of the CUDA allocator against PyTorch's own reading of them, which needs no GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch")

import torch

from report.errors import StudyError
from report.theory.allocator_options import MIB, options_of

_SYMBOL = "_ZN3c1016CachingAllocator26AcceleratorAllocatorConfig24roundup_power2_divisionsEm"
_POWERS = st.sampled_from([2**n for n in range(18)])


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


@st.composite
def lists(draw: st.DrawFn) -> str:
    """Lists of divisions by size, in any order, with and without a last one for all above."""
    items = draw(st.lists(st.tuples(_POWERS, st.sampled_from([0, 1, 2, 4, 8]))))
    parts = [f"{size}:{number}" for size, number in items]
    return f"[{','.join([*parts, '>:16'] if draw(st.booleans()) or not parts else parts)}]"


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.one_of(lists(), st.sampled_from(["1", "2", "16"])))
def test_divisions_are_read_as_pytorch_reads_them(value: str) -> None:
    text = f"max_split_size_mb:64,roundup_power2_divisions:{value}"
    assert list(options_of(text).divisions) == divisions_of_torch(text)


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:19",
        "max_non_split_rounding_mb:3",
        "garbage_collection_threshold:1",
        "expandable_segments:true",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:[3:1]",
    ],
)
def test_what_pytorch_refuses_is_refused(text: str) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        torch._C._accelerator_setAllocatorSettings(text)
    with pytest.raises(StudyError):
        options_of(text)
