"""Lines and power laws through the points of a quantity over a factor.

The interval of a coefficient comes from the scatter of the points around the curve, so that a curve
that fits badly has a wide one; where all points come from the same six or more processes it comes
from one fit a process instead (``report.quantity.evaluation``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from report.errors import StudyError
from report.quantity.expression import Operation, Quantity, absent, combine
from report.quantity.units import ONE, Unit, UnitError, unit
from report.statistics.estimates import Estimate, growth_exponent, linear_fit

#: A line has two coefficients, and its scatter needs one point more.
_FEWEST = 3


def slope(over: Mapping[int, Quantity], unit_name: str, *, relative: bool) -> Quantity:
    """How much the quantity grows a level, by least squares; in its unit, ``unit_name``.

    ``relative`` weights the points for a constant relative error.  Levels at which the quantity is
    missing are left out; with fewer than three others the slope is missing.
    """
    return _coefficient(
        "slope of the line through", over, _line(relative, "slope"), _all_in(unit_name)
    )


def intercept(over: Mapping[int, Quantity], unit_name: str, *, relative: bool) -> Quantity:
    """What the line through the quantity is at level 0; else as ``slope``."""
    return _coefficient("line at 0 through", over, _line(relative, "intercept"), _all_in(unit_name))


def growth(over: Mapping[int, Quantity]) -> Quantity:
    """The exponent p of growth with the power p of the level; 1 is growth in proportion."""

    def exponent(levels: Sequence[int], values: Sequence[float], confidence: float) -> Estimate:
        return growth_exponent(levels, values, confidence)

    return _coefficient("exponent of growth of", over, exponent, lambda _: ONE)


def _line(
    relative: bool, which: str
) -> Callable[[Sequence[int], Sequence[float], float], Estimate]:
    def fit(levels: Sequence[int], values: Sequence[float], confidence: float) -> Estimate:
        line = linear_fit(levels, values, relative, confidence)
        return line.slope if which == "slope" else line.intercept

    return fit


def _coefficient(
    name: str,
    over: Mapping[int, Quantity],
    fit: Callable[[Sequence[int], Sequence[float], float], Estimate],
    result: Callable[[Sequence[Unit]], Unit],
) -> Quantity:
    present = {level: each for level, each in over.items() if not each.missing}
    levels = tuple(present)
    if len(levels) < _FEWEST:
        # The unit is checked also where there is too little to fit.
        unit_ = result([each.unit for each in over.values()])
        return absent(name, str(unit_), f"fewer than {_FEWEST} levels were measured")

    def through(values: Sequence[float], confidence: float) -> Estimate:
        try:
            return fit(levels, [float(value) for value in values], confidence)
        except StudyError as error:
            raise ArithmeticError(str(error).rstrip(".")) from error

    operation = Operation(
        name,
        result,
        lambda values: through(values, 0.5).value,
        # Without a measured point the fit is exact or a matter of printed digits.
        lambda intervals: _ends(through([value for value, *_ in intervals], 0.95)),
        lambda texts: f"{name} {texts[0]}, …, {texts[-1]}",
        fit=through,
    )
    return combine(operation, *present.values())


def _ends(found: Estimate) -> tuple[float, float, float]:
    return found.value, found.low, found.high


def _all_in(unit_name: str) -> Callable[[Sequence[Unit]], Unit]:
    def check(units: Sequence[Unit]) -> Unit:
        expected = unit(unit_name)
        if any(found != expected for found in units):
            raise UnitError(f"the line is declared in {unit_name}; fix the formula or the unit.")
        return expected

    return check
