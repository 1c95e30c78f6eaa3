"""The tiny study with times, which processes of their own measure; it measures nothing either."""

from __future__ import annotations

import os
import signal
from dataclasses import replace

from tiny_study import CRASHING, LOUD
from tiny_study import STUDY as PLAIN

from experiments.harness import quiet
from experiments.harness.study import Factors, Session
from report.records.record import Measured


def timed(factors: Factors, session: Session) -> Measured:
    """The size as a time; the process and whether glibc was told to keep memory beside it."""
    size = int(factors["size"])
    if size == CRASHING:
        os.kill(os.getpid(), signal.SIGKILL)
    loud = "a test" if size == LOUD else None
    quiet.disturbance = lambda *readings: loud  # type: ignore[assignment]
    retained = float("mmap_threshold" in os.environ.get("GLIBC_TUNABLES", ""))
    return {
        "time": (float(size),),
        "step_loss": (float(os.getpid()),),
        "train_loss": (retained,),
    }


STUDY = replace(PLAIN, memory=lambda factors, session: {}, times=timed)
