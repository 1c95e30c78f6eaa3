"""A study of six cases that measures nothing and can be made to wait, for tests of the harness."""

import os
import time
from pathlib import Path

import msgspec

from experiments.harness.study import FULL, Experiment, Factor, Plan, Session
from report.core.records.record import Factors, SeriesByQuantity

#: Sizes at which the timed study kills its process, or reports a disturbance.
CRASHING, LOUD = 66, 77


def measure(factors: Factors, session: Session) -> SeriesByQuantity:
    size = str(factors["size"])
    if log := os.environ.get("TINY_LOG"):
        with Path(log).open("a") as stream:
            stream.write(f"{size}\n")
    if os.environ.get("TINY_HOLD") == size:
        for _ in range(1200):  # a signal just before a long sleep would be handled after the sleep
            time.sleep(0.05)
    return {"time": (0.00025, 0.0005, 0.00075)}


STUDY = Experiment(
    subject=None,
    factors=(Factor("size", levels=(1, 2, 3, 4, 5, 6), quick=(1, 2), any_count=True),),
    name="tiny",
    question="Does the harness work?",
    plan=Plan(
        quick=msgspec.structs.replace(FULL, plan="quick"),
        ceilings="none",
        memory=measure,
        imports=(),
    ),
)
