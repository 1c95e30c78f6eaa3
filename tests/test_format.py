"""Numbers as they are printed, in sentences too: no digit beyond what is known, and none lost."""

from __future__ import annotations

import json
import math
import re
from fractions import Fraction

import pypandoc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from report.evidence.devices import Devices
from report.missing import Missing
from report.paper.details import details
from report.paper.findings import Inputs
from report.paper.manuscript import provenance
from report.paper.values import NOT_MEASURED, Value, declare
from report.quantity.expression import exact, measured
from report.quantity.intervals import Process
from report.statistics.estimates import Estimate
from report.text.format import (
    MINUS,
    NO_BREAK,
    SIGNIFICANT_DIGITS,
    Scale,
    decimals_of,
    digits,
    plain,
    printed,
    quantity_text,
    scale_for,
    scale_to,
)
from tests.papers import reported
from tests.test_tables import rows_of

PREFIXES = {"n": -9, "µ": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
NUMBERS = st.floats(1e-12, 1e15)
SIGNED = st.builds(lambda size, sign: size * sign, NUMBERS, st.sampled_from([-1, 1]))


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    value = draw(SIGNED | st.just(0.0))
    below, above = (draw(st.floats(1e-6, 10)) * (abs(value) or 1.0) for _ in range(2))
    level = draw(st.sampled_from((0.25, 0.5, 0.75, 0.95)))
    return Estimate(value, value - below, value + above, 30, level)


def read(text: str) -> Fraction:
    """The number that a printed text says, exactly."""
    return Fraction(text.replace(",", "").replace(MINUS, "-"))


@pytest.mark.parametrize(
    ("number", "decimals", "text"),
    [
        (1234567, 0, "1,234,567"),
        (0.5, 2, "0.50"),
        (-1234.5, 1, f"{MINUS}1,234.5"),
        (1250, -2, "1,200"),
        (1_251, -2, "1,300"),
        (-0.001, 2, "0.00"),
        (999.96, 1, "1,000.0"),
    ],
)
def test_digits(number: float, decimals: int, text: str) -> None:
    assert digits(number, decimals) == text


@given(SIGNED, st.integers(-3, 8))
def test_a_printed_number_lies_within_half_a_place(number: float, decimals: int) -> None:
    place = Fraction(10) ** -decimals
    error = abs(read(digits(number, decimals)) - Fraction(number))
    assert error <= place / 2 * (1 + Fraction(1, 10**9))
    assert abs(read(plain(number)) - Fraction(number)) <= abs(Fraction(number)) * 51 / 10**5


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_are_printed_in_full(number: int) -> None:
    assert read(plain(number)) == number
    assert re.fullmatch(rf"{MINUS}?\d{{1,3}}(,\d{{3}})*", plain(number))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_never_printed(number: float) -> None:
    with pytest.raises(ValueError, match="cannot be printed"):
        plain(number)


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
        # An interval that is wider than its number sets the prefix.
        (1e-9, 1e-3, "0.0 ms"),
        (1.0, 1e300, "0 Ps"),
    ],
)
def test_an_interval_decides_the_digits(value: float, half: float, text: str) -> None:
    found = Estimate(value, value - half, value + half, 30, 0.95)
    assert quantity_text(found, "s").replace(NO_BREAK, " ") == text


@pytest.mark.parametrize(("value", "decimals"), [(5_308_416.0, 0), (0.0, 0), (1.5, 3), (0.25, 4)])
def test_exact_data_have_no_width(value: float, decimals: int) -> None:
    assert decimals_of(Estimate(value, value, value, 30, 0.95)) == decimals


@given(estimates())
def test_a_number_and_its_interval_agree_in_digits_that_are_known(found: Estimate) -> None:
    number, bounds, _, level = printed(found, scale_for(found, "s"))
    few = found.confidence <= 0.5
    assert (bounds[0], bounds[-1]) == (("(", ")") if few else ("[", "]"))
    low, high = bounds[1:-1].split(" to " if few else ", ")
    assert bool(level) == (0.5 < found.confidence < 0.95)
    assert read(low) <= read(number) <= read(high)
    assert len({len(text.partition(".")[2]) for text in (number, low, high)}) == 1
    place = 10.0 ** -decimals_of(found)
    assert place >= (found.high - found.low) / 2 / 35.51
    if found.value:
        assert place >= 10.0 ** math.floor(math.log10(abs(found.value))) / 10**SIGNIFICANT_DIGITS


@given(NUMBERS, st.sampled_from(["s", "B", "FLOP", "MAC", "FLOP/s", "B/s"]))
@example(999.95e3, "B")
@example(999.949e3, "B")
@example(1000.0, "B")
@example(0.00099996, "s")
@example(1e-6, "s")
def test_a_prefix_leaves_one_to_three_digits(number: float, unit: str) -> None:
    shown, _, with_unit = quantity_text(number, unit).partition(NO_BREAK)
    prefix = with_unit.removesuffix(unit)
    size = read(shown) * Fraction(10) ** PREFIXES[prefix]
    assert abs(size - Fraction(number)) <= Fraction(number) * Fraction(51, 10**5)
    assert read(shown) < 1000 or prefix == "P"
    assert read(shown) >= 1 or prefix == ("n" if unit == "s" else "")


@pytest.mark.parametrize(
    ("number", "unit", "style", "text"),
    [
        (0, "B", "measured", "0 B"),
        (0.0, "s", "measured", "0 s"),
        (73_984, "B", "exact", "73,984 B"),
        (21_233_664, "FLOP", "measured", "21.23 MFLOP"),
        (-5_537_792, "B", "measured", f"{MINUS}5.538 MB"),
        (0.5, "B", "measured", "0.5 B"),
        (1e-12, "s", "measured", "0.001 ns"),
        (1e20, "B", "measured", "100,000 PB"),
        (0.95, "1", "percent", "95 %"),
        (3, "1", "exact", "3"),
        (2.0, "1", "measured", "2"),
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


# --------------------------------------------------------------------------------------- values

TIME = Value(
    "time_largest",
    "Time | largest",
    Estimate(0.0125, 0.012, 0.013, 30, 0.95),
    "s",
    "median",
    ("conv_scaling/a_b.json",),
)
EXACT = Value("flops", "Work", 21_233_664, "FLOP", "2 · MAC", style="exact")
SHARE = Value("share", "Share", Estimate(0.5, 0.45, 0.55, 9, 0.9), "1", "a / b", style="percent")
GONE = Value("gone", "Gone", Missing("no run is in the data directory"), "B", "median")
LINE = Value("slope", "Slope", Estimate(147456.5, 1e5, 2e5, 5, 0.95), "B", "line", style="exact")
TWO = Value("two", "Two", Estimate(41.4, 38.9, 44.0, 2, 0.0), "1", "a / b")
FEW = Value("few", "Few", Estimate(41.4, 38.9, 44.0, 2, 0.5), "1", "a / b")
PART = Value("part", "Part", 0.01541, "1", "a / b", style="percent")
GROUPS = Value("groups", "Groups", Estimate(2.0, 1.0, 3.0, 9, 0.0, bimodal=True), "s", "median")


@pytest.mark.parametrize(
    ("value", "plain", "about", "bare", "interval"),
    [
        (TIME, "12.5 ms", "13 ms", "12.5", "12.5 [12.0, 13.0] ms"),
        (EXACT, "21,233,664 FLOP", "21,233,664 FLOP", "21,233,664", "21,233,664 FLOP"),
        (SHARE, "50 %", "50 %", "50", "50 [45, 55] % (at 90 %)"),
        (GONE, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED, NOT_MEASURED),
        (LINE, "150,000 B", "150,000 B", "150,000", "150,000 [100,000, 200,000] B"),
        # An interval without a level is none, and that of two is a range.
        (TWO, "41.4", "41", "41.4", "41.4"),
        (FEW, "41.4", "41", "41.4", "41.4 (38.9 to 44.0)"),
        (PART, "1.541 %", "1.5 %", "1.541", "1.541 %"),
        (GROUPS, "1.0 to 3.0 s", "1.0 to 3.0 s", "1.0 to 3.0", "1.0 to 3.0 s"),
    ],
    ids=lambda item: item.id if isinstance(item, Value) else "",
)
def test_a_value_in_a_sentence(
    value: Value, plain: str, about: str, bare: str, interval: str
) -> None:
    written = (str(value), value.about, value.bare, value.interval)
    document = "\n\n".join(written)
    shown = pypandoc.convert_text(document, "plain", format="markdown").strip().split("\n\n")
    assert [text.replace(NO_BREAK, " ") for text in shown] == [plain, about, bare, interval]
    assert all(text.endswith(f"](#{value.anchor}){{.value}}") for text in written)


def test_a_value_in_a_formula() -> None:
    assert EXACT.math == r"21{,}233{,}664\,\text{FLOP}"
    assert GONE.math == r"\text{not measured}"
    assert TIME.anchor == "v-time-largest"


def test_every_number_leads_to_its_line() -> None:
    values = (TIME, EXACT, SHARE, GONE)
    text = provenance(values, asked=["conv_scaling/a_b.json"])
    document = json.loads(pypandoc.convert_text(text, "json", format="markdown"))
    assert all(f'"{value.anchor}"' in json.dumps(document) for value in values)
    _, *rows = rows_of(document["blocks"][0])
    assert [[cell.replace(NO_BREAK, " ") for cell in row] for row in rows] == [
        ["Time | largest", "12.5 ms", "median", "30", "conv_scaling/a_b.json (chosen by --use)"],
        ["Work", "21,233,664 FLOP", "2 · MAC", "", "theory"],
        ["Share", "50 %", "a / b", "9", "theory"],
        ["Gone", "no run is in the data directory", "median", "", "none"],
    ]


def test_a_number_opens_with_its_samples_and_its_formula_in_numbers() -> None:
    processes = [Process("a.zip", str(n), (0.5 + n / 16, 0.5 + n / 8)) for n in range(3)]
    time = measured("time", "s", processes, "a.zip")
    rate = declare("rate", exact("work", "FLOP", 4, "b.zip") / time)
    nothing = Inputs((), reported("conv_scaling"), "", Devices(devices=()))
    opened = details([rate, GONE], nothing)
    assert opened["values"]["v-gone"]["reason"] == "no run is in the data directory"
    shown = opened["values"]["v-rate"]
    assert (shown["formula"], shown["numbers"]) == (
        "work / time",
        f"4{NO_BREAK}FLOP / 590{NO_BREAK}ms",
    )
    assert (shown["sources"], shown["series"]) == (["b.zip", "a.zip"], [0])
    (series,) = opened["series"]
    assert (series["low"], series["high"], series["n"]) == (
        f"500{NO_BREAK}ms",
        f"750{NO_BREAK}ms",
        6,
    )
    assert series["processes"] == [[0, 0, 0, 0], [0, 0, 250, 500], [0, 0, 500, 1000]]
