"""A study of six cases without torch, for tests of the harness; its times are constants."""

import os
import time
from pathlib import Path

import msgspec

from experiments.harness.study import FULL, Experiment, Factor, Plan, Session
from report.core.records.record import Factors, SeriesByQuantity

#: Sizes of cases of ``tiny_timed`` that kill the process, or are disturbed.
CRASHING, DISTURBED = 66, 77


def measure(factors: Factors, session: Session) -> SeriesByQuantity:
    """Append the size to the file TINY_LOG; wait for a minute if the size equals TINY_HOLD."""
    size = str(factors["size"])
    if log := os.environ.get("TINY_LOG"):
        with Path(log).open("a") as stream:
            stream.write(f"{size}\n")
    if os.environ.get("TINY_HOLD") == size:
        for _ in range(1200):  # short sleeps, between which signals are handled
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
