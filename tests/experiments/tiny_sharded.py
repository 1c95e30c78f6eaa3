"""The timed tiny study with bytes that each case has once, in few processes."""

from __future__ import annotations

from dataclasses import replace

from tiny_study import measure as logged
from tiny_timed import STUDY as TIMED

from experiments.harness.study import Factors, Session, replanned
from report.records.record import Series


def measure(factors: Factors, session: Session) -> tuple[Series, ...]:
    """Write the case into the log; its bytes are its size."""
    logged(factors, session)
    return (Series(quantity="allocated_peak", unit="B", samples=(int(factors["size"]),)),)


PLAN = replanned(TIMED.full, processes={"retained": 4, "default": 2})
STUDY = replace(TIMED, measure=measure, full=PLAN)
