"""Numbers as they are printed: no digit beyond what is known, and none lost."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from report.statistics.estimates import Estimate
from report.text.format import (
    MINUS,
    NO_BREAK,
    SIGNIFICANT_DIGITS,
    Scale,
    decimals_of,
    digits,
    interval_text,
    level_text,
    number_text,
    plain,
    quantity_text,
    scale_for,
    scale_to,
)

PREFIXES = {"n": -9, "µ": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
NUMBERS = st.floats(1e-12, 1e15)
SIGNED = st.builds(lambda size, sign: size * sign, NUMBERS, st.sampled_from([-1, 1]))


def estimate(value: float, low: float, high: float) -> Estimate:
    return Estimate(value, low, high, 30, 0.95)


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    value = draw(SIGNED | st.just(0.0))
    below, above = (draw(st.floats(1e-6, 10)) * (abs(value) or 1.0) for _ in range(2))
    level = draw(st.sampled_from((0.25, 0.5, 0.75, 0.95)))
    return Estimate(value, value - below, value + above, 30, level)


def read(text: str) -> Fraction:
    """The number that a printed text says, exactly."""
    return Fraction(text.replace(",", "").replace(MINUS, "-"))


def unit_of_last_place(text: str) -> Fraction:
    """The place of the last digit; trailing zeros of whole numbers count as known."""
    return Fraction(1, 10 ** len(text.partition(".")[2]))


def split(text: str) -> tuple[str, str]:
    number, _, unit = text.partition(NO_BREAK)
    return number, unit


# ------------------------------------------------------------------------------------- digits


@pytest.mark.parametrize(
    ("number", "decimals", "text"),
    [
        (1234567, 0, "1,234,567"),
        (0.5, 2, "0.50"),
        (-1234.5, 1, f"{MINUS}1,234.5"),
        (1250, -2, "1,200"),
        (1_251, -2, "1,300"),
        (-0.001, 2, "0.00"),
        (0, 0, "0"),
        (999.96, 1, "1,000.0"),
    ],
)
def test_digits(number: float, decimals: int, text: str) -> None:
    assert digits(number, decimals) == text


@given(SIGNED, st.integers(-3, 8))
def test_a_printed_number_lies_within_half_a_place(number: float, decimals: int) -> None:
    text = digits(number, decimals)
    place = Fraction(10) ** -decimals
    assert abs(read(text) - Fraction(number)) <= place / 2 * (1 + Fraction(1, 10**9))


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_are_printed_in_full(number: int) -> None:
    text = plain(number)
    assert read(text) == number
    assert re.fullmatch(rf"{MINUS}?\d{{1,3}}(,\d{{3}})*", text)


@given(SIGNED)
def test_other_numbers_have_four_significant_digits(number: float) -> None:
    shown = read(plain(number))
    assert abs(shown - Fraction(number)) <= abs(Fraction(number)) * Fraction(51, 10**5)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_printed(number: float) -> None:
    with pytest.raises(ValueError, match="cannot be printed"):
        plain(number)


# ---------------------------------------------------------------------------------- intervals


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.8271, 0.1191, "830 ms"),
        (12.3456, 0.2, "12.35 s"),
        (12.3456, 0.4, "12.3 s"),
        (12.3456, 2.0, "12.3 s"),
        (12.3456, 40.0, "10 s"),
        (12.3456, 1e-9, "12.35 s"),
        (0.0, 2e-6, "0.0 µs"),
        (1.0, 1e300, "0 Ps"),
    ],
)
def test_an_interval_decides_the_digits(value: float, half: float, text: str) -> None:
    found = estimate(value, value - half, value + half)
    assert quantity_text(found, "s").replace(NO_BREAK, " ") == text


@given(estimates())
def test_digits_never_exceed_the_interval(found: Estimate) -> None:
    half = (found.high - found.low) / 2
    place = 10.0 ** -decimals_of(found)
    assert place >= half / 35.51
    if found.value:
        assert place >= 10.0 ** math.floor(math.log10(abs(found.value))) / 10**SIGNIFICANT_DIGITS


@given(estimates())
def test_a_number_and_its_interval_agree(found: Estimate) -> None:
    scale = scale_for(found, "s")
    number, ends = number_text(found, scale), interval_text(found, scale)
    range_ = found.confidence <= 0.5
    assert (ends[0], ends[-1]) == (("(", ")") if range_ else ("[", "]"))
    low, high = ends[1:-1].split(" to " if range_ else ", ")
    assert not (range_ and level_text(found))
    assert read(low) <= read(number) <= read(high)
    assert {unit_of_last_place(text) for text in (number, low, high)} == {
        unit_of_last_place(number)
    }


@pytest.mark.parametrize(("value", "decimals"), [(5_308_416.0, 0), (0.0, 0), (1.5, 3), (0.25, 4)])
def test_exact_data_have_no_width(value: float, decimals: int) -> None:
    assert decimals_of(estimate(value, value, value)) == decimals


# -------------------------------------------------------------------------------------- units


@given(NUMBERS, st.sampled_from(["s", "B", "FLOP", "MAC", "FLOP/s", "B/s"]))
@example(999.95e3, "B")
@example(999.949e3, "B")
@example(1000.0, "B")
@example(0.00099996, "s")
@example(1e-6, "s")
def test_a_prefix_leaves_one_to_three_digits(number: float, unit: str) -> None:
    shown, with_unit = split(quantity_text(number, unit))
    prefix = with_unit.removesuffix(unit)
    size = read(shown) * Fraction(10) ** PREFIXES[prefix]
    assert abs(size - Fraction(number)) <= Fraction(number) * Fraction(51, 10**5)
    assert read(shown) < 1000 or prefix == "P"
    smallest = "n" if unit == "s" else ""
    assert read(shown) >= 1 or prefix == smallest


def test_an_interval_wider_than_its_number_sets_the_prefix() -> None:
    found = estimate(1e-9, -1e-3, 1e-3)
    assert quantity_text(found, "s") == f"0.0{NO_BREAK}ms"


@pytest.mark.parametrize(
    ("number", "unit", "style", "text"),
    [
        (0, "B", "measured", "0 B"),
        (0.0, "s", "measured", "0 s"),
        (73_984, "B", "exact", "73,984 B"),
        (21_233_664, "FLOP", "exact", "21,233,664 FLOP"),
        (21_233_664, "FLOP", "measured", "21.23 MFLOP"),
        (5_537_792, "B", "measured", "5.538 MB"),
        (-5_537_792, "B", "measured", f"{MINUS}5.538 MB"),
        (0.5, "B", "measured", "0.5 B"),
        (1e-12, "s", "measured", "0.001 ns"),
        (1e20, "B", "measured", "100,000 PB"),
        (0.95, "1", "percent", "95 %"),
        (3, "1", "exact", "3"),
        (2.0, "1", "measured", "2"),
        (26.5, "FLOP/B", "measured", "26.5 FLOP/B"),
        (12_345.0, "FLOP/B", "measured", "12,340 FLOP/B"),
    ],
)
def test_quantities(number: float, unit: str, style: str, text: str) -> None:
    shown = quantity_text(number, unit, style)  # type: ignore[arg-type]
    assert shown == text.replace(" ", NO_BREAK)


def test_a_column_is_shown_in_one_unit() -> None:
    assert scale_to("ms", "s") == Scale(1e3, "ms")
    assert scale_to("MB", "B").factor == pytest.approx(1e-6)
    assert scale_to("%", "1") == Scale(100.0, "%")
    for shown, unit in [("h", "s"), ("%", "s"), ("MiB", "B")]:
        with pytest.raises(ValueError, match="with a decimal prefix"):
            scale_to(shown, unit)
