"""Numbers to text: the one place that decides how a number is printed.

The precision printed never exceeds what is known: a number with an interval is rounded by the
interval's half-width, and a measured number never shows more than four
significant digits.  Text made here is plain Unicode; ``markdown``, ``latex`` and ``math`` escape it
for the format named last.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from report.statistics import Estimate

Number: TypeAlias = int | float
Style: TypeAlias = Literal["exact", "measured", "percent"]
Format: TypeAlias = Literal["markdown", "latex"]

NO_BREAK: Final = "\N{NO-BREAK SPACE}"
MINUS: Final = "\N{MINUS SIGN}"
MISSING: Final = "\N{EM DASH}"
SIGNIFICANT_DIGITS: Final = 4
#: Below this leading part of a half-width, one digit more is printed.
SMALL_LEADING: Final = 3.55

_PREFIXES: Final = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
#: Units that take decimal prefixes; the others (1, %, FLOP/B, image) are printed as they are.
_SCALED: Final = ("s", "B", "FLOP", "MAC", "FLOP/s", "B/s")


@dataclass(frozen=True)
class Scale:
    """A unit with a prefix: ``number * factor`` is the number to print before ``unit``."""

    factor: float
    unit: str


def scale_for(number: Number, unit: str) -> Scale:
    """The prefix that leaves one to three digits before the decimal point."""
    if unit not in _SCALED or number == 0 or not math.isfinite(number):
        return Scale(1.0, unit)
    # Rounded first, so that 999.99 k does not print as 1,000 k.
    rounded = float(f"{abs(number):.{SIGNIFICANT_DIGITS - 1}e}")
    exponent = min(max(3 * math.floor(math.log10(rounded) / 3), min(_PREFIXES)), max(_PREFIXES))
    if exponent < 0 and unit != "s":
        exponent = 0
    return Scale(10.0**-exponent, _PREFIXES[exponent] + unit)


def scale_to(shown: str, unit: str) -> Scale:
    """The scale that prints ``unit`` as ``shown``, such as ``ms`` for ``s``.

    Raises ``ValueError`` if ``shown`` is not ``unit`` with a decimal prefix.
    """
    if shown == "%" and unit == "1":
        return Scale(100.0, "%")
    for exponent, prefix in _PREFIXES.items():
        if shown == prefix + unit:
            return Scale(10.0**-exponent, shown)
    raise ValueError(f"{shown} is not {unit} with a decimal prefix")


def decimals_of(estimate: Estimate) -> int:
    """Decimals worth printing, from the interval's half-width.

    Down to its leading digit, or to the next one where that digit is small, so that rounding moves
    the ends by less than a seventh of the half-width (the rule of the Particle Data Group, Review
    of Particle Physics, section 5.3 of the introduction).
    """
    half = (estimate.high - estimate.low) / 2
    known = SIGNIFICANT_DIGITS - 1 - _exponent(estimate.value)
    if half <= 0 and estimate.value == round(estimate.value):
        return 0
    if not math.isfinite(half) or half <= 0:
        return known
    leading = half / 10.0 ** _exponent(half)
    return min(known, (1 if leading < SMALL_LEADING else 0) - _exponent(half))


def digits(number: Number, decimals: int) -> str:
    """``number`` rounded to ``decimals`` (negative: to tens, hundreds), thousands grouped."""
    rounded = round(number, decimals)
    text = f"{abs(rounded):,.{max(decimals, 0)}f}"
    negative = rounded < 0 and any(digit in text for digit in "123456789")
    return MINUS + text if negative else text


def plain(number: Number) -> str:
    """A number without an interval: whole numbers in full, others to four significant digits."""
    if isinstance(number, int):
        return digits(number, 0)
    if not math.isfinite(number):
        raise ValueError(f"{number} cannot be printed")
    return digits(number, SIGNIFICANT_DIGITS - 1 - _exponent(number))


def number_text(number: Number | Estimate, scale: Scale) -> str:
    """A number as it stands in a sentence or a cell, without its unit and interval."""
    if isinstance(number, Estimate):
        scaled = _scaled(number, scale.factor)
        return digits(scaled.value, decimals_of(scaled))
    if isinstance(number, int) and scale.factor == 1:
        return plain(number)
    return plain(float(number * scale.factor))


def interval_text(estimate: Estimate, scale: Scale) -> str:
    """The interval as ``[low, high]``, with the precision of the number before it."""
    scaled = _scaled(estimate, scale.factor)
    decimals = decimals_of(scaled)
    return f"[{digits(scaled.low, decimals)}, {digits(scaled.high, decimals)}]"


def quantity_text(number: Number | Estimate, unit: str, style: Style = "measured") -> str:
    """Number and unit: ``exact`` without prefix, ``measured`` with one, ``percent`` of one."""
    if style == "exact":
        scale = Scale(1.0, unit)
    elif style == "percent":
        scale = Scale(100.0, "%")
    else:
        size = number.value if isinstance(number, Estimate) else number
        scale = scale_for(size, unit)
    text = number_text(number, scale)
    if not isinstance(number, Estimate) and "." in text:
        # A number without an interval is exact; zeros at its end would claim a measurement.
        text = text.rstrip("0").rstrip(".")
    return text if scale.unit == "1" else f"{text}{NO_BREAK}{scale.unit}"


def markdown(text: str) -> str:
    """Escape plain text for Quarto markdown, in a sentence or a cell of a pipe table."""
    return "".join("\\" + char if char in r"\`*_{}[]<>#|@$^~'\"" else char for char in text)


_LATEX: Final = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    NO_BREAK: "~",
    MINUS: r"\ensuremath{-}",
    MISSING: "---",
    "×": r"\ensuremath{\times}",
    "·": r"\ensuremath{\cdot}",
    "µ": r"\ensuremath{\mu}",
    "±": r"\ensuremath{\pm}",
    "≈": r"\ensuremath{\approx}",
    "→": r"\ensuremath{\to}",
    "≤": r"\ensuremath{\le}",
    "≥": r"\ensuremath{\ge}",
    "–": "--",
    "²": r"\textsuperscript{2}",
}


def latex(text: str) -> str:
    """Escape plain text for LaTeX."""
    return "".join(_LATEX.get(char, char) for char in text)


def escape(text: str, output: Format) -> str:
    """Escape plain text for ``output``."""
    return latex(text) if output == "latex" else markdown(text)


def math_text(text: str) -> str:
    """A printed number for use inside TeX math: ``21,233,664`` becomes ``21{,}233{,}664``."""
    number, _, unit = text.partition(NO_BREAK)
    body = number.replace(",", "{,}").replace(MINUS, "-")
    return rf"{body}\,\text{{{unit}}}" if unit else body


def _exponent(number: float) -> int:
    """The decimal exponent of the leading digit; 0 for 0."""
    return int(f"{abs(number):e}".partition("e")[2]) if number else 0


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(
        value=estimate.value * factor,
        low=estimate.low * factor,
        high=estimate.high * factor,
        n=estimate.n,
        confidence=estimate.confidence,
    )
