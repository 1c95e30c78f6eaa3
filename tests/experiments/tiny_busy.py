"""The tiny study as one that computes for a fifth of a second, so that others can disturb it."""

from __future__ import annotations

import time
from dataclasses import replace

from tiny_study import STUDY as PLAIN

from experiments.harness.study import Factors, Session
from report.records.record import Series


def timed(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Processor time that was asked for, and the time that it took."""
    began, spent = time.perf_counter(), time.process_time()
    while time.process_time() - spent < 0.2:
        pass
    return (Series(quantity="time", unit="s", samples=(time.perf_counter() - began,)),)


STUDY = replace(PLAIN, times=timed)
