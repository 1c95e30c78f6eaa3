"""Replacement for torch with switches, and kernels that the replacement for ncu counts.

While the profiler is on, launches are written to the file LAUNCHES with their NVTX ranges.
"""

import os
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

backends = SimpleNamespace(
    cuda=SimpleNamespace(matmul=SimpleNamespace(allow_tf32=True)),
    cudnn=SimpleNamespace(allow_tf32=True, benchmark=True),
)
device = nullcontext
_profiler = SimpleNamespace(on=False, range=None)


def nothing(*args, **kwargs):
    """Replace any function whose result is not used."""


manual_seed = randn = nothing
bfloat16 = float16 = float32 = None  # only passed as arguments


def mm(left, right):
    """Launch a product; its work is True if the product may use TF32."""
    launch(backends.cuda.matmul.allow_tf32)


def launch(work):
    """Launch a kernel that does ``work`` units of work."""
    if _profiler.on:
        with Path(os.environ["LAUNCHES"]).open("a") as stream:
            stream.write(f"{_profiler.range}\t{work}\n")


def range_start(name):
    """Start a range and return its number."""
    _profiler.range = name
    return 7


def range_end(number):
    """End the range; the profiler must be off before, so that all profiled launches lie in it."""
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
