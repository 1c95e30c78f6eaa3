"""The audit recomputes printed numbers of a source from its other printed numbers.

Differences that rounding explains pass; of other differences, known factors are named.
"""

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.core.errors import StudyError
from report.core.missing import Missing
from report.evidence import audit
from report.evidence.audit import Printed, check, unrounded_value
from report.quantity.evaluation import estimate
from report.theory.rounding import Interval, Rounded


def number(value: float, decimals: int | None, unit: str = "1") -> Printed:
    """Return a printed number; without ``decimals`` the number is exact."""
    return Printed(value, decimals, unit, "Table 1, row 1")


@pytest.mark.parametrize(("derived", "compute", "inputs", "verdict", "factor"), [
    (number(0.25, 2), audit.ratio, (number(1, None), number(4, None)), "agrees", 1.0),
    # 1,107 / 10, both rounded to integers, is between 1,106.5 / 10.5 = 105 and 1,107.5 / 9.5 = 117.
    (number(107, 0), audit.ratio, (number(1107, 0), number(10, 0)), "rounds", 107 / 110.7),
    (number(104, 0), audit.ratio, (number(1107, 0), number(10, 0)), "differs", 104 / 110.7),
    (number(5.5, 1), audit.times, (number(1.107, 3), number(5.46, 2)), "differs", 0.90996),
    (number(7, 0), audit.difference, (number(10, 0), number(3, 0)), "agrees", 1.0),
    (number(20, 0), audit.gain, (number(6, None), number(5, None)), "agrees", 1.0),
    (number(4, 0), audit.mean, (number(2, None), number(6, None)), "agrees", 1.0),
    (number(1, 0), audit.difference, (number(3, 0), number(3, 0)), "rounds", None),
])  # fmt: skip
def test_rounded_numbers_pass_and_wrong_numbers_differ(
    derived: Printed, compute: audit.Formula, inputs: Any, verdict: str, factor: float | None
) -> None:
    """``factor``: the printed number divided by the recomputed number."""
    result = check(derived, "a formula", compute, *inputs)
    assert (result.verdict, result.known_factor) == (verdict, None)
    assert result.factor == (factor and pytest.approx(factor, rel=1e-4))


@pytest.mark.parametrize(("derived", "theory", "reason"), [
    (number(1.81, 2, "GFLOP"), 3.628146688, "by the factor 1/2: multiply-adds counted as one"),
    (number(1.82, 2, "GFLOP"), 3.628146688, "by about the factor 1/2: multiply-adds counted"),
    (number(47.1, 1, "MB"), 188.16, "about the factor 1/4: one byte an element"),
    (number(4.58, 2, "MB"), 4.799528, "prefixes of 1,024 written as ones of 1,000"),
    (number(7.9, 1, "MB"), 0.03184, "thousands of float32 elements printed as megabytes"),
    (number(12.0, 1, "ms"), 0.012, "a unit prefix of 1,000 too many"),
    (number(1.84, 2, "GFLOP"), 3.628146688, None),  # 1.4 % above the factor 1/2
    (number(100.0, 1, "MB"), 103, None),  # the factor 1,000/1,024 must fit exactly
    (number(2, 0, "s"), 4, None),  # the factor 1/2 applies to counts of operations only
])  # fmt: skip
def test_known_factors_are_named(derived: Printed, theory: float, reason: str | None) -> None:
    result = check(derived, "theory", audit.times, unrounded_value(theory, derived.unit, "theory"))
    assert result.verdict == "differs" and (reason or "differs") in result.finding
    assert (result.known_factor is None) == (reason is None)


def test_a_formula_that_divides_by_zero_is_refused() -> None:
    with pytest.raises(StudyError, match="divides by zero"):
        check(number(1, 0), "a / b", audit.ratio, number(1, 0), number(0, 0))


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=6), st.integers(0, 3))
def test_a_sum_of_correctly_rounded_numbers_passes(numerators: list[int], decimals: int) -> None:
    """The denominator 997 is prime, so that no number is exact with a few decimals."""
    terms = [Fraction(numerator, 997) for numerator in numerators]
    printed = [number(float(round(term, decimals)), decimals) for term in terms]
    derived = number(float(round(sum(terms), decimals)), decimals)
    assert check(derived, "sum", audit.total, *printed).verdict in ("agrees", "rounds")


def test_printed_numbers_have_their_rounding_interval() -> None:
    assert number(110, -1).interval == audit.Interval(Fraction(105), Fraction(115))
    result = estimate(number(5.5, 1).quantity("s", "r.json", 1e-3))
    assert not isinstance(result, Missing)
    assert (result.value, result.low, result.high) == pytest.approx((5.5e-3, 5.45e-3, 5.55e-3))
    counted = estimate(number(5, None).quantity("B", "r.json", 1e6))
    assert not isinstance(counted, Missing)
    assert counted.low == counted.high == 5e6


@pytest.mark.parametrize(("dividend", "divisor", "quotient", "product"), [
    ((1, 2), (4, 8), (Fraction(1, 8), Fraction(1, 2)), (4, 16)),
    ((1, 2), (-2, -1), (-2, Fraction(-1, 2)), (-4, -1)),
    ((-2, 1), (1, 2), (-2, 1), (-4, 2)),
])  # fmt: skip
def test_intervals_hold_for_numbers_of_each_sign(
    dividend: Any, divisor: Any, quotient: Any, product: Any
) -> None:
    left = Rounded(Fraction(1), Interval(*dividend))
    right = Rounded(Fraction(2), Interval(*divisor))
    assert (left / right).interval == quotient
    assert (left * right).interval == product
    with pytest.raises(ZeroDivisionError):
        _ = right / Rounded(Fraction(1), Interval(Fraction(-1), Fraction(2)))
