"""What numbers of the prose are made of: a quantity of a run, or why there is none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from report.missing import Missing
from report.quantity.expression import Quantity, absent, recorded
from report.studies.backend_speedup.measured import NUMPY, Run
from report.studies.backend_speedup.subject import Setting

Getter: TypeAlias = Callable[[Run], Quantity]
NO_RECORD: Final = Missing("no run of this experiment is in the data directory")
NO_CASE: Final = Missing("no such case was measured")


def nothing(unit: str, why: Missing = NO_CASE) -> Quantity:
    return absent("case", unit, why.reason)


def of_training(get: Callable[[Run, Setting], Quantity], unit: str = "1") -> Getter:
    """What ``get`` makes of a run's training."""

    def found(run: Run) -> Quantity:
        setting = run.training()
        return nothing(unit) if setting is None else get(run, setting)

    return found


def count_of(name: str, get: Callable[[Run], int | Missing]) -> Getter:
    return lambda run: recorded(name, "1", get(run), run.file)


def numpy_value(quantity: str) -> Getter:
    return of_training(lambda run, setting: run.measured(quantity, setting, NUMPY), "s")
