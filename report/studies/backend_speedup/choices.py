"""Which library of a run the prose speaks of."""

from __future__ import annotations

from collections.abc import Mapping

from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.studies.backend_speedup.measured import Run, Variant
from report.studies.backend_speedup.subject import Setting


def speedups(run: Run, setting: Setting | None, quantity: str = "time") -> dict[Variant, Quantity]:
    """The speed-ups over NumPy of all libraries of which a quantity was measured."""
    if setting is None:
        return {}
    found = {v: run.speedup(setting, v) for v in run.others(setting, quantity)}
    return {v: ratio for v, ratio in found.items() if not ratio.missing}


def _largest(ratios: Mapping[Variant, Quantity]) -> Variant | None:
    points = {v: at for v, ratio in ratios.items() if isinstance(at := point(ratio), float)}
    return max(points, key=lambda v: points[v], default=None)


def best_at(run: Run, setting: Setting | None) -> Variant | None:
    """The library with the largest speed-up at a setting, faster than NumPy or not."""
    return _largest(speedups(run, setting))
