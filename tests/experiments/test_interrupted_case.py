"""A wish to stop is obeyed, also where a library fails on its way out of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn

import pytest

from experiments import conv_scaling
from experiments.harness.run import Terminated
from experiments.harness.study import Session
from experiments.harness.sweep import run_case


def clumsy(factors: Any, session: Any) -> NoReturn:
    """Interrupted, and an error of its own while it leaves."""
    try:
        raise Terminated
    finally:
        raise RuntimeError("trying to pop from empty mode stack")


def test_an_error_in_front_of_an_interrupt_does_not_hide_it() -> None:
    study = replace(conv_scaling.STUDY, measure=clumsy, layers=lambda factors: ())
    with pytest.raises(Terminated):
        run_case(study, {"subject": "layer"}, Session("cpu", None))  # type: ignore[arg-type]
