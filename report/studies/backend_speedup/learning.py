"""Whether every library learns the same, and which libraries ran."""

from __future__ import annotations

from report.missing import Missing
from report.studies.backend_speedup.measured import NUMPY, Run, Variant
from report.studies.backend_speedup.subject import Setting


def learned(run: Run, setting: Setting | None) -> tuple[Variant, ...]:
    """The libraries whose course of losses was recorded."""
    return run.variants(setting, "train_loss")


def largest_difference(run: Run, setting: Setting, variant: Variant) -> float | Missing:
    """The largest difference of the loss from NumPy's at any iteration, as a share of NumPy's."""
    base, other = (run.curve("train_loss", setting, v) for v in (NUMPY, variant))
    if not base or not other:
        return Missing("no course of losses was recorded")
    return float(max(abs(b - a) / a for a, b in zip(base, other, strict=False)))


def largest_accuracy_difference(run: Run, setting: Setting) -> float | Missing:
    """The largest difference of the accuracy on held-out images of any two libraries."""
    curves = [run.curve("test_accuracy", setting, v) for v in learned(run, setting)]
    if len(curves) < 2:
        return Missing("fewer than two libraries recorded their accuracy")
    return float(max(max(at) - min(at) for at in zip(*curves, strict=False)))
