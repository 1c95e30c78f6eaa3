"""Format numbers; no other module decides how a number is printed.

The printed precision never exceeds the known precision: the half-width of an interval determines
the decimals of its number, and a measured number has at most four significant digits.  The text is
plain Unicode, to which ``report.core.text.escape`` adds markup.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, NamedTuple, TypeAlias

from report.core.statistics.estimates import CONFIDENCE, Estimate

Number: TypeAlias = int | float
#: How a number is printed (see ``scale_for``).
Style: TypeAlias = Literal["exact", "measured", "percent"]

#: Tolerance for rounding errors of confidence levels, and of the last printed decimal.
ROUNDING: Final = 1e-9
NO_BREAK: Final = "\N{NO-BREAK SPACE}"
MINUS: Final = "\N{MINUS SIGN}"
#: Text of a missing number.
MISSING: Final = "\N{EM DASH}"
#: Largest number of digits of a measured number.
SIGNIFICANT_DIGITS: Final = 4
#: Largest number of names that ``first_names`` lists before it counts the others.
_LISTED_NAMES: Final = 4
#: The key of a machine after its name, such as ``(nvidia-h100-80gb-hbm3-af2555)``.
_KEY_AFTER_NAME: Final = re.compile(r" \([a-z0-9]+(-[a-z0-9]+)+\)$")
#: If a half-width is x · 10^n with x below this, one more digit is printed (see ``decimals_of``).
_SMALL_MANTISSA: Final = 3.55

#: Decimal exponent → prefix of a unit.
_PREFIXES: Final = {-9: "n", -6: "µ", -3: "m", 0: "", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P"}
#: Units with decimal prefixes; large numbers of other units are printed with words.
_UNITS_WITH_PREFIX: Final = ("s", "B", "FLOP", "MAC", "FLOP/s", "B/s")
#: Decimal exponent → word for large numbers of other units.
LARGE_NUMBER_WORDS: Final = {6: "million", 9: "billion", 12: "trillion"}
#: Unit → text that replaces it in print.
_UNITS_IN_WORDS: Final = {"1/s": f"a{NO_BREAK}second"}


@dataclass(frozen=True)
class Scale:
    """A printed unit: ``number * factor`` is the number to print before ``unit``."""

    factor: float
    unit: str


def scale_for(number: Number | Estimate, unit: str, style: Style = "measured") -> Scale:
    """Choose the scale of ``number`` in ``unit`` for a ``style``.

    ``exact`` keeps the unit, ``percent`` prints hundredths.  ``measured`` chooses the prefix for
    which the printed number has one to three digits before the decimal point.  If the half-width of
    the interval is larger than the number, the half-width has one to three such digits.  Numbers of
    a million or more in units without prefixes get a word such as «million».
    """
    if style == "percent":
        return Scale(100.0, "%")
    size = _size(number)
    unit_text = _UNITS_IN_WORDS.get(unit, unit)
    if style == "exact" or unit == "1" or not 0 < size < math.inf:
        return Scale(1.0, unit_text)
    if unit == "s":
        exponents = [*_PREFIXES]
    elif unit in _UNITS_WITH_PREFIX:
        exponents = [exponent for exponent in _PREFIXES if exponent >= 0]
    else:
        exponents = [0, *LARGE_NUMBER_WORDS]
    chosen = exponents[0]
    for exponent in exponents:
        # Compare the rounded number, since rounding may carry: 999.96 k is printed as 1 M.
        if _rounded(number, size, 10.0**-exponent) >= 1:
            chosen = exponent
    factor = 10.0**-chosen
    if unit in _UNITS_WITH_PREFIX:
        return Scale(factor, _PREFIXES[chosen] + unit)
    return Scale(
        factor, f"{LARGE_NUMBER_WORDS[chosen]}{NO_BREAK}{unit_text}" if chosen else unit_text
    )


def _size(number: Number | Estimate) -> float:
    """Return the number's absolute value, or the half-width of its interval if that is larger."""
    if isinstance(number, Estimate):
        return max(abs(number.value), (number.high - number.low) / 2)
    return abs(number)


def _rounded(number: Number | Estimate, size: float, factor: float) -> float:
    """Round ``size · factor`` to the decimals with which ``number`` is printed."""
    if isinstance(number, Estimate):
        return round(size * factor, decimals_of(_scaled(number, factor)))
    return round(size * factor, SIGNIFICANT_DIGITS - 1 - _exponent(number * factor))


def scale_to(printed_unit: str, unit: str) -> Scale:
    """Return the scale that prints ``unit`` as ``printed_unit``, such as ``ms`` for ``s``.

    The unit 1 may be printed as ``%``.  Raises ``ValueError`` for any other ``printed_unit`` that
    is not ``unit`` with a decimal prefix.
    """
    if printed_unit == "%" and unit == "1":
        return Scale(100.0, "%")
    for exponent, prefix in _PREFIXES.items():
        if printed_unit == prefix + unit:
            return Scale(10.0**-exponent, printed_unit)
    raise ValueError(f"{printed_unit} is not {unit} with a decimal prefix")


def decimals_of(estimate: Estimate) -> int:
    """Return the number of decimals to print, from the interval's half-width.

    The last printed decimal is the leading digit of the half-width, or the next digit if the
    half-width begins with less than 3.55 (``_SMALL_MANTISSA``).  Rounding then moves the ends by
    less than 1/7 of the half-width (as the Review of Particle Physics does, introduction, 5.3).
    At most ``SIGNIFICANT_DIGITS`` digits are printed.  Without an interval, a whole number has no
    decimals and other numbers have all significant digits.
    """
    by_digits = SIGNIFICANT_DIGITS - 1 - _exponent(estimate.value)
    half_width = (estimate.high - estimate.low) / 2
    if not 0 < half_width < math.inf:
        return 0 if estimate.value == math.floor(estimate.value) else by_digits
    mantissa, _, exponent = f"{half_width:e}".partition("e")
    by_half_width = -int(exponent)
    if float(mantissa) < _SMALL_MANTISSA:
        by_half_width += 1
    if estimate.value == 0:
        return by_half_width  # 0 has no significant digits to count
    return min(by_digits, by_half_width)


def format_digits(number: Number, decimals: int) -> str:
    """Round to ``decimals`` decimals (−1: to tens), and group thousands with commas."""
    rounded = round(number, decimals)
    if isinstance(rounded, int) and decimals <= 0:
        # Formatting as a float would round whole numbers beyond 2^53.
        text = f"{abs(rounded):,}"
    else:
        text = f"{abs(rounded):,.{max(decimals, 0)}f}"
    is_zero = not any(digit in text for digit in "123456789")
    return text if rounded >= 0 or is_zero else MINUS + text


def plain_number(number: Number, significant: int = SIGNIFICANT_DIGITS) -> str:
    """Format a number without interval: an ``int`` in full, a float with ``significant`` digits.

    Raises ``ValueError`` for NaN and infinity.
    """
    if isinstance(number, int):
        return format_digits(number, 0)
    if not math.isfinite(number):
        raise ValueError(f"{number} cannot be printed")
    return format_digits(number, significant - 1 - _exponent(number))


class PrintedParts(NamedTuple):
    """The printed parts of a number; a part that is not printed is empty.

    ``bounds``: the interval ``[low, high]``, or a range of assumptions ``(low to high)``.
    ``level``: the confidence of the interval if it is below ``CONFIDENCE``, as with two samples.
    """

    number: str
    bounds: str
    unit: str
    level: str

    @property
    def after(self) -> str:
        """A no-break space and the unit, to follow the number; empty without a unit."""
        return f"{NO_BREAK}{self.unit}" if self.unit else ""


def printed_parts(
    number: Number | Estimate, scale: Scale, *, outward: bool = False
) -> PrintedParts:
    """Format a number in the unit of ``scale``, with the precision of its interval.

    A bimodal estimate is printed as a range, since no sample is near its median.  The ends of the
    interval are rounded to the nearest printed decimal, or ``outward`` so that the interval grows.
    """
    unit = "" if scale.unit == "1" else scale.unit
    if not isinstance(number, Estimate):
        return PrintedParts(_exact(number, scale), "", unit, "")
    scaled = _scaled(number, scale.factor)
    decimals = decimals_of(scaled)
    ends = (scaled.low, scaled.high)
    if outward:
        ends = round_outward(*ends, decimals)
    low, high = format_digits(ends[0], decimals), format_digits(ends[1], decimals)
    text = f"{low} to {high}" if number.bimodal else format_digits(scaled.value, decimals)
    if not has_printed_interval(number):
        return PrintedParts(text, "", unit, "")
    if number.level is None:
        return PrintedParts(text, f"({low} to {high})", unit, "")
    is_usual_level = number.confidence >= CONFIDENCE - ROUNDING
    level = "" if is_usual_level else f" (at {100 * number.confidence:.0f}{NO_BREAK}%)"
    return PrintedParts(text, f"[{low}, {high}]", unit, level)


def round_outward(low: float, high: float, decimals: int) -> tuple[float, float]:
    """Round an interval to one that contains it, except for errors of floating point."""
    last_digit = 10.0**-decimals
    lower, upper = round(low, decimals), round(high, decimals)
    if lower - low > ROUNDING * last_digit:
        lower -= last_digit
    if high - upper > ROUNDING * last_digit:
        upper += last_digit
    return lower, upper


def _exact(number: Number, scale: Scale) -> str:
    """Format an exact number without trailing zeros, which would suggest a measurement."""
    if isinstance(number, int) and scale.factor == 1:
        return plain_number(number)
    text = plain_number(float(number * scale.factor))
    return text.rstrip("0").rstrip(".") if "." in text else text


def first_names(names: Sequence[str]) -> str:
    """List the first ``_LISTED_NAMES`` machines, separated by semicolons, and count the others.

    Machines whose names differ only in the key after the name are listed once, with their number.
    The hardware digest at the end of a key identifies a machine, which may have several keys.
    """
    digests_by_name: dict[str, set[str]] = {}
    for name in names:
        without_key = _KEY_AFTER_NAME.sub("", name)
        digest = name.removeprefix(without_key).rpartition("-")[2]
        digests_by_name.setdefault(without_key, set()).add(digest)
    listed = list[str]()
    for name, digests in digests_by_name.items():
        listed.append(f"{name} ({len(digests)} machines)" if len(digests) > 1 else name)
    others = len(listed) - _LISTED_NAMES
    if others > 0:
        listed[_LISTED_NAMES:] = [f"{others} other{'s' if others > 1 else ''}"]
    return "; ".join(listed)


def has_printed_interval(estimate: Estimate) -> bool:
    """Tell whether the interval is printed: its width and its rounded level (%) must not be 0."""
    if estimate.low == estimate.high:
        return False
    return estimate.level is None or round(100 * estimate.level) > 0


def quantity_text(number: Number | Estimate, unit: str, style: Style = "measured") -> str:
    """Format a number with its unit in the given style (see ``scale_for``)."""
    parts = printed_parts(number, scale_for(number, unit, style))
    return f"{parts.number}{parts.after}"


def _exponent(number: float) -> int:
    """Return the decimal exponent of the leading digit; 0 for 0."""
    if number == 0:
        return 0
    _, _, exponent = f"{abs(number):e}".partition("e")
    return int(exponent)


def _scaled(estimate: Estimate, factor: float) -> Estimate:
    """Multiply the value and the ends of the interval by ``factor``."""
    return replace(
        estimate,
        low=factor * estimate.low,
        value=factor * estimate.value,
        high=factor * estimate.high,
    )
