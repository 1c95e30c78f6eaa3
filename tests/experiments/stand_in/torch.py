"""Stands in for torch where only its switches are set, or a kernel is launched for ncu to count.

A launch while the profiler is on is written down with the NVTX range around it.
"""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

backends = SimpleNamespace(
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)),
    cudnn=SimpleNamespace(allow_tf32=True, benchmark=True),
)
device = nullcontext  # on which nothing is
_profiler = SimpleNamespace(on=False, range=None)


def nothing(*given, **named):
    """Stands for all that has no result."""


manual_seed = randn = nothing
bfloat16 = float16 = float32 = None  # which are only handed on


def mm(left, right):
    """A product tells whether it may use TF32."""
    launch(backends.cuda.matmul.allow_tf32)


def launch(work):
    """A kernel that does so much work."""
    if _profiler.on:
        with Path(os.environ["LAUNCHES"]).open("a") as stream:
            stream.write(f"{_profiler.range}\t{work}\n")


def range_start(name):
    """A number for the range, which begins now."""
    _profiler.range = name
    return 7


def range_end(number):
    """A range ends behind the profiler, so that it holds all that was profiled."""
    assert number == 7 and not _profiler.on
    _profiler.range = None


cuda = SimpleNamespace(
    is_available=lambda: True,
    synchronize=nothing,
    empty_cache=nothing,
    nvtx=SimpleNamespace(range_start=range_start, range_end=range_end),
    profiler=SimpleNamespace(
        start=lambda: setattr(_profiler, "on", True), stop=lambda: setattr(_profiler, "on", False)
    ),
)
