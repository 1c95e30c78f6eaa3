"""Amdahl's decomposition of a speed-up into those of the operations, and where two lines cross.

The decomposition (Amdahl 1967): if operation i takes the share fᵢ of the base's time and becomes
sᵢ times as fast, the whole becomes 1 / Σ (fᵢ / sᵢ) times as fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from report.evidence.runs import known
from report.missing import Missing
from report.quantity.evaluation import point
from report.quantity.expression import Quantity
from report.records.layers import ELEMENT_BYTES
from report.statistics.estimates import Estimate
from report.studies.backend_speedup.measured import (
    NUMPY,
    Run,
    Variant,
)
from report.studies.backend_speedup.subject import Kind, Setting, Step, iteration, kinds, total


@dataclass(frozen=True)
class Decomposition:
    """Of a library against NumPy: operation → (share of NumPy's time, speed-up); the total."""

    variant: Variant
    parts: dict[Kind, tuple[float, float]]
    measured: Quantity

    @property
    def predicted(self) -> float:
        """The total speed-up that the operations give."""
        return 1 / sum(share / speedup for share, speedup in self.parts.values())

    @property
    def limit(self) -> float:
        """The total speed-up if matrix products took no time and all else stayed as it is."""
        rest = sum(s / up for kind, (s, up) in self.parts.items() if kind != "matrix_product")
        return 1 / rest if rest else math.inf

    @property
    def most(self) -> Kind:
        """The operation that gains most."""
        return max(self.parts, key=lambda kind: self.parts[kind][1])


def decompose(run: Run, setting: Setting, variant: Variant) -> Decomposition | Missing:
    """The decomposition at one setting, or what is missing for it."""
    operations = {k: [run.operation(k, setting, v) for v in (NUMPY, variant)]
                  for k in kinds(setting.network)}  # fmt: skip
    lost = next((t.missing for pair in operations.values() for t in pair if t.missing), None)
    if lost is not None:
        return lost
    times = {k: (known(point(base)), known(point(new))) for k, (base, new) in operations.items()}
    if any(min(pair) <= 0 for pair in times.values()):
        return Missing("an operation is shorter than the clock can tell")
    whole = sum(first for first, _ in times.values())
    parts = {kind: (first / whole, first / second) for kind, (first, second) in times.items()}
    return Decomposition(variant, parts, run.speedup("time", setting, variant))


# ------------------------------------------------------------------------------------- bounds


def bound(step: Step, dtype: str, product: float, copy: float) -> float:
    """The least time (s) of an operation: its work at the products' rate, its bytes at the copies'.

    The roofline's bound (Williams, Waterman and Patterson 2009): the longer of the two.
    """
    return max(step.flops / product, step.elements * ELEMENT_BYTES[dtype] / copy)


def iteration_bound(run: Run, setting: Setting, variant: Variant) -> float | Missing:
    """The least time (s) of an iteration at the rates of the library's device."""
    product, copy = run.rates(variant)
    if isinstance(product, Missing) or isinstance(copy, Missing):
        return product if isinstance(product, Missing) else known(copy)
    return sum(bound(step, setting.dtype, product, copy) for step in iteration(setting))


def kind_bound(run: Run, setting: Setting, kind: Kind, variant: Variant) -> float | Missing:
    """The least time (s) of all operations of a kind."""
    product, copy = run.rates(variant)
    if isinstance(product, Missing) or isinstance(copy, Missing):
        return product if isinstance(product, Missing) else known(copy)
    steps = (step for step in iteration(setting) if step.kind == kind)
    return sum(bound(step, setting.dtype, product, copy) for step in steps)


def intensity(setting: Setting, kind: Kind) -> float:
    """FLOP for each byte that must move, over all operations of a kind."""
    step = total(setting, kind)
    return step.flops / (step.elements * ELEMENT_BYTES[setting.dtype])


def predicted_time(
    run: Run, variant: Variant, smallest: Setting
) -> Callable[[Setting], float] | Missing:
    """Setting → time (s) of an iteration, from the smallest case and the device's rates alone.

    Every kind of operation costs what it cost in the smallest case beyond its bound, whatever the
    size, and its bound at the size.  Nothing is fitted to larger cases.
    """
    fixed: dict[Kind, float] = {}
    for kind in kinds(smallest.network):
        time = point(run.operation(kind, smallest, variant))
        least = kind_bound(run, smallest, kind, variant)
        if isinstance(time, Missing) or isinstance(least, Missing):
            return time if isinstance(time, Missing) else known_missing(least)
        fixed[kind] = max(time - least, 0.0)
    cost = sum(fixed.values())
    return lambda setting: cost + known(iteration_bound(run, setting, variant))


def known_missing(found: object) -> Missing:
    """``found``, which is missing."""
    assert isinstance(found, Missing)
    return found


# ---------------------------------------------------------------------------------- crossover

Course = Literal[
    "crosses",
    "always faster",
    "always slower",
    "faster where told",
    "slower where told",
    "not told",
]


@dataclass(frozen=True)
class Crossing:
    """Where a library overtakes another: between the levels ``low`` and ``high``, about at ``at``.

    ``course`` says what is known: that it overtakes, that it is faster or slower at every level
    that was measured or at every one where the intervals tell, or that they do not tell.
    """

    course: Course
    low: int | None = None
    high: int | None = None
    at: float | None = None

    @property
    def faster(self) -> bool | None:
        """Whether it is the faster one wherever that is told, None if that is not one answer."""
        if self.course in ("always faster", "faster where told"):
            return True
        return False if self.course in ("always slower", "slower where told") else None


def found_crossing(levels: Sequence[int], ratios: Sequence[Estimate]) -> Crossing:
    """The crossing that measured speed-ups show, ascending by level.

    A level counts only where the interval of its ratio excludes 1.
    """
    told = [(level, r) for level, r in zip(levels, ratios, strict=True) if r.low > 1 or r.high < 1]
    if not told:
        return Crossing("not told")
    for (low, before), (high, after) in pairwise(told):
        if before.high < 1 < after.low:
            return Crossing("crosses", low, high, _between(low, high, before.value, after.value))
    faster = {ratio.low > 1 for _, ratio in told}
    if len(faster) > 1:
        return Crossing("not told")
    if len(told) < len(levels):
        return Crossing("faster where told" if faster == {True} else "slower where told")
    return Crossing("always faster" if faster == {True} else "always slower")


def _between(low: int, high: int, before: float, after: float) -> float:
    """Where a straight line between two points, both axes logarithmic, passes 1."""
    share = -math.log(before) / (math.log(after) - math.log(before))
    return float(low * (high / low) ** share)


#: How far beyond the largest level a predicted crossing is looked for.
_BEYOND: Final = 1000
_HALVINGS: Final = 60


def predicted_crossing(
    base: Callable[[int], float], new: Callable[[int], float], levels: Sequence[int]
) -> Crossing:
    """The size from which on ``new`` is predicted to be faster than ``base``, by bisection.

    Looked for from size 1 to a thousand times the largest level.
    """
    low, high = 1, _BEYOND * levels[-1]
    if new(low) < base(low) and new(high) < base(high):
        return Crossing("always faster")
    if new(high) >= base(high):
        return Crossing("always slower")
    if new(low) < base(low):
        return Crossing("not told")
    a, b = float(low), float(high)
    for _ in range(_HALVINGS):
        middle = math.sqrt(a * b)
        a, b = (a, middle) if new(round(middle)) < base(round(middle)) else (middle, b)
        if round(a) == round(b):
            break
    return Crossing("crosses", round(a), round(b), b)
