"""The tiny study with work that is known to the unit, on a processor and on a GPU that is played.

There ``size`` is the calls of the C library's fused multiply-add, of which -1 raises and -9 is
killed; here it is the work of a kernel, of which those below 4 are counted.
"""

import ctypes
import os
import signal
from dataclasses import replace
from typing import Any

from tiny_failing import OutOfMemoryError
from tiny_study import STUDY as TINY

from experiments.harness.study import Subject
from report.core.records.layers import Linear
from report.core.records.record import Factors

NOTHING: Any = None


def subject(factors: Factors) -> Subject:
    size = int(factors["size"])
    fused = ctypes.CDLL("libm.so.6").fmaf
    number = ctypes.c_float(1.5)  # converted once, so that a call converts nothing

    def call() -> None:
        if size == -1:
            raise ValueError("no such size in /home/somebody/file.py")
        if size == -9:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(size):
            fused(number, number, number)

    return Subject(NOTHING, NOTHING, mode=call)


def subject_on_gpu(factors: Factors) -> Subject:
    import torch

    size = int(factors["size"])
    if str(size) == os.environ.get("NO_MEMORY"):
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0")
    if str(size) == os.environ.get("CRASHING"):
        raise SystemExit(3)
    return Subject(NOTHING, NOTHING, mode=lambda: torch.launch(size))  # type: ignore[attr-defined]


def layers(factors: Factors) -> tuple[Linear]:
    shape = (1, int(factors["size"]))
    return (Linear(input_shape=shape, output_shape=(1, 1), dtype="float32", bias=False),)


PLAN = replace(TINY.plan, layers=layers)
ON_CPU = replace(TINY, subject=subject, plan=PLAN)
PLAN_ON_GPU = replace(PLAN, is_counted=lambda factors: int(factors["size"]) < 4)
STUDY = replace(ON_CPU, on_gpu=replace(ON_CPU, subject=subject_on_gpu, plan=PLAN_ON_GPU))
