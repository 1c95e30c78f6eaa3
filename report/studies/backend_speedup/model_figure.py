"""What the model predicts beside what was measured, and the errors of all rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Curve, Points, Scaling
from report.studies.backend_speedup.conditions import FAULTS, page_faults
from report.studies.backend_speedup.measured import VARIANTS, Run
from report.studies.backend_speedup.model import (
    GOOD,
    Prediction,
    Rule,
    errors,
    predictions,
)

_MILLI: Final = 1e3
#: The rules of predictions, as their lines are named.
_RULES: Final[dict[Rule, str]] = {
    "measured": "Calls and products",
    "least": "Least time",
    "numpy": "NumPy's time",
}


def model_figure(run: Run) -> Drawing | None:
    """Measured against predicted time, by library and network, and the errors of three rules."""
    found = predictions(run)
    if not found:
        return None
    plain = [each for each in found if each.setting.network == "perceptron"]
    drawn = [
        _cloud(v.name, [each for each in plain if each.variant == v], VARIANTS.index(v))
        for v in dict.fromkeys(each.variant for each in found)
    ]
    if others := [each for each in found if each not in plain]:
        drawn.append(_cloud("Convolutional network", others, len(VARIANTS) - 1))
    faults = [each for each in found if page_faults(run, each.setting, each.variant) >= FAULTS]
    if faults:
        drawn.append(replace(_cloud("Maps pages anew", faults, 3), hollow=True))
    ends = _square([x for each in drawn for x in (*each.x, *each.y)])
    factors = (("", 1.0), ("", GOOD), ("", 1 / GOOD))
    curves = tuple(
        Curve(
            label, ends, (factor * ends[0], factor * ends[1]), "theory" if factor == 1 else "part"
        )
        for label, factor in factors
    )
    ticks = tuple(10.0**n for n in range(-2, 6) if ends[0] <= 10.0**n <= ends[1])
    left = Scaling(
        "Predicted time of an iteration (ms)", "Measured (ms)", tuple(drawn), curves, x_ticks=ticks
    )
    return Drawing((left, _distribution(found)), wide=True, height=2.5)


def _square(every: Sequence[float]) -> tuple[float, float]:
    return min(every), max(every)


def _cloud(title: str, found: Sequence[Prediction], series: int) -> Points:
    x = tuple(_MILLI * each.predicted["measured"] for each in found)
    y = tuple(_MILLI * each.measured for each in found)
    return Points(title, x, y, series=series)


def _distribution(found: Sequence[Prediction]) -> Scaling:
    """The share of cases that each rule meets within a factor."""
    drawn, found = [], [each for each in found if "numpy" in each.predicted]
    for index, (rule, title) in enumerate(_RULES.items()):
        every = errors(found, rule)
        share = tuple(100 * (place + 1) / len(every) for place in range(len(every)))
        if every:
            drawn.append(Points(title, tuple(every), share, series=index, joined=True))
    return Scaling(
        "Off by at most this factor",
        "Cases (%)",
        tuple(drawn),
        x_ticks=(1.0, GOOD, 2.0, 4.0, 8.0),
        y_scale="linear",
        y_from_zero=True,
    )
