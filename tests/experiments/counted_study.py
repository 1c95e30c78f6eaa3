"""A study whose work is known to the unit: ``size`` calls of the C library's fused multiply-add.

A size below 0 makes the case fail: -1 raises, -9 is killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
from dataclasses import replace
from typing import Any

from tiny_study import STUDY as TINY

from experiments.harness.study import Factors, Subject
from report.records.layers import Linear

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


def layers(factors: Factors) -> tuple[Linear]:
    shape = (1, int(factors["size"]))
    layer = Linear(name="l", input_shape=shape, output_shape=(1, 1), dtype="float32", bias=False)
    return (layer,)


STUDY = replace(TINY, name="counted", subject=subject, layers=layers)
