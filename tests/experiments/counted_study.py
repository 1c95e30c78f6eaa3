"""The tiny study with exactly known work, on a CPU and on a simulated GPU.

On the CPU, ``size`` is the number of calls of the C library's fused multiply-add; -1 raises an
error and -9 kills the process.  On the GPU, ``size`` is a kernel's work.  Sizes from 4 on are not
counted there; the environment variables NO_MEMORY and CRASHING name a size that fails.
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

UNUSED: Any = None


def subject(factors: Factors) -> Subject:
    size = int(factors["size"])
    fused = ctypes.CDLL("libm.so.6").fmaf
    number = ctypes.c_float(1.5)  # converted once, before the counted calls

    def call() -> None:
        if size == -1:
            raise ValueError("no such size in /home/somebody/file.py")
        if size == -9:
            os.kill(os.getpid(), signal.SIGKILL)
        for _ in range(size):
            fused(number, number, number)

    return Subject(UNUSED, UNUSED, mode=call)


def subject_on_gpu(factors: Factors) -> Subject:
    import torch  # the replacement in ``stand_in``

    size = int(factors["size"])
    if str(size) == os.environ.get("NO_MEMORY"):
        raise OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0")
    if str(size) == os.environ.get("CRASHING"):
        raise SystemExit(3)
    return Subject(UNUSED, UNUSED, mode=lambda: torch.launch(size))  # type: ignore[attr-defined]


def layers(factors: Factors) -> tuple[Linear]:
    shape = (1, int(factors["size"]))
    return (Linear(input_shape=shape, output_shape=(1, 1), dtype="float32", bias=False),)


PLAN = replace(TINY.plan, layers=layers)
ON_CPU = replace(TINY, subject=subject, plan=PLAN)
PLAN_ON_GPU = replace(PLAN, counts_work=lambda factors: int(factors["size"]) < 4)
STUDY = replace(ON_CPU, on_gpu=replace(ON_CPU, subject=subject_on_gpu, plan=PLAN_ON_GPU))
