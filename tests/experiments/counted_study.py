"""A study whose work is known to the unit: ``size`` calls of the C library's fused multiply-add.

A size below 0 makes the case fail: -1 raises, -9 is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import replace

from tiny_study import STUDY as TINY

from experiments.harness.study import Counting, Device, Factors
from experiments.harness.workload import Workload


def workload(factors: Factors, device: Device) -> Workload:
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

    return Workload(call, reset=lambda: None)


STUDY = replace(
    TINY,
    name="counted",
    counting=Counting(
        workload=workload,
        multiply_adds=lambda factors: abs(int(factors["size"])),
        calls=lambda factors, thorough: 2 if thorough or int(factors["size"]) < 6 else 0,
        warm_up={"size": 1},
    ),
)
