"""The audit of reported values: recompute printed results from the inputs that a source prints.

A printed number stands for an interval: ``5.5`` with one decimal is any number from 5.45 to 5.55.
The audit compares the interval of the printed result with the interval of all results for the
printed inputs.  Thus it mistakes neither rounding for an error nor an error for rounding.
All arithmetic is exact (``Fraction``), because verdicts depend on the ends of intervals.
"""

import math
import operator
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from report.core.errors import StudyError
from report.core.records.reported import Reported, ReportedTable
from report.core.text.format import Number
from report.quantity.expression import Quantity, exact_number, reported_number
from report.theory.rounding import Interval, Rounded, evaluate, rounding_interval

#: ``agrees``: the printed inputs give the printed number.  ``rounds``: only other inputs that round
#: to the printed inputs give the number.  ``differs``: no such inputs give the number.
AuditVerdict: TypeAlias = Literal["agrees", "rounds", "differs"]

#: Computes a derived number from inputs; monotone in each input within its rounding interval.
Formula: TypeAlias = Callable[..., Fraction]


@dataclass(frozen=True)
class Printed:
    """A printed number with its number of printed ``decimals`` (None if the number is exact).

    ``place`` is the position in the source, or describes how theory computes the number.
    """

    number: Number
    decimals: int | None
    unit: str
    place: str

    @property
    def value(self) -> Fraction:
        """The printed number, exactly."""
        return Fraction(str(self.number))

    @property
    def text(self) -> str:
        """The number as text, with its printed decimals; exact numbers and integers have none."""
        places = 0 if isinstance(self.number, int) or self.decimals is None else self.decimals
        return f"{self.number:,.{places}f}".replace("-", "\N{MINUS SIGN}")

    @property
    def interval(self) -> Interval:
        """All numbers that round to the printed number, by any rule for halves."""
        return rounding_interval(self.value, self.decimals)

    def quantity(self, unit: str, source: str, factor: float = 1.0) -> Quantity:
        """Return the number, multiplied by ``factor``, as a quantity in ``unit``."""
        name = f"reported {self.place}"
        if self.decimals is None:
            return exact_number(name, unit, self.value * Fraction(factor), source)
        printed = reported_number(name, unit, self.number, self.decimals, source)
        if factor == 1:
            return printed
        return printed * exact_number(f"{factor:g}", "1", Fraction(factor))


def unrounded_value(number: Number, unit: str, place: str) -> Printed:
    """Return a number as printed without rounding, such as a count or a result of theory."""
    return Printed(number, None, unit, place)


def printed_value(reported: Reported, id: str) -> Printed:
    """Return a single number of the source; raise ``StudyError`` if the id is unknown."""
    value = reported.value(id)
    return Printed(value.number, value.decimals, value.unit, value.place)


def printed_column(table: ReportedTable, key: str) -> tuple[Printed | None, ...]:
    """Return the numbers in a column of the source, with None for each cell without a number.

    Raises ``StudyError`` if the key is unknown, or if the column has no unit or no decimals.
    """
    cells = table.column(key)
    column = next(column for column in table.columns if column.key == key)
    if column.unit is None or column.decimals is None:
        raise StudyError(f"{table.place} of the reported values: {column.name} holds no numbers.")
    numbers: list[Printed | None] = []
    for row, cell in enumerate(cells, start=1):
        if isinstance(cell, int | float):
            place = f"{table.place}, {column.name}, row {row}"
            numbers.append(Printed(cell, column.decimals, column.unit, place))
        else:
            numbers.append(None)
    return tuple(numbers)


class KnownFactor(NamedTuple):
    """A common ratio of a wrong to the right number, with the reason for such an error."""

    ratio: Fraction
    reason: str


#: Ratio of a binary prefix to the decimal prefix, such as Ki to k.
_KIBI_PER_KILO: Final = Fraction(1024, 1000)
#: Relative tolerance for known factors, since a source may compute with inputs that it rounded.
_TOLERANCE: Final = Fraction(1, 100)

#: Known ratios of printed to recomputed numbers of operations; most common first.
_OPERATION_FACTORS: Final = (
    KnownFactor(Fraction(1, 2), "multiply-adds counted as one operation each"),
    KnownFactor(Fraction(2), "operations counted twice"),
)
#: Known ratios of printed to recomputed numbers of bytes; most common first.
_BYTE_FACTORS: Final = (
    KnownFactor(Fraction(1, 4), "one byte an element, not the four of float32"),
    KnownFactor(Fraction(4), "four bytes an element instead of one"),
    KnownFactor(Fraction(1, 2), "two bytes an element, not the four of float32"),
    KnownFactor(Fraction(2), "twice the bytes of an element"),
    KnownFactor(Fraction(1, 8), "bits taken for bytes"),
    KnownFactor(Fraction(8), "bytes taken for bits"),
    KnownFactor(1 / _KIBI_PER_KILO, "a prefix of 1,024 written as one of 1,000"),
    KnownFactor(_KIBI_PER_KILO, "a prefix of 1,000 written as one of 1,024"),
    KnownFactor(1 / _KIBI_PER_KILO**2, "prefixes of 1,024 written as ones of 1,000"),
    KnownFactor(_KIBI_PER_KILO**2, "prefixes of 1,000 written as ones of 1,024"),
    KnownFactor(Fraction(250), "thousands of float32 elements printed as megabytes"),
)
#: Known ratios of printed to recomputed numbers in any unit.
_COMMON_FACTORS: Final = (
    KnownFactor(Fraction(1, 1000), "a unit prefix of 1,000 left out"),
    KnownFactor(Fraction(1000), "a unit prefix of 1,000 too many"),
    KnownFactor(Fraction(1, 100), "a ratio printed as per cent"),
    KnownFactor(Fraction(100), "per cent printed as a ratio"),
)


@dataclass(frozen=True)
class Check:
    """A derived number of the source, and the recomputed result of its formula.

    ``recomputed``: result for the printed inputs.  ``possible``: all results for inputs that round
    to the printed inputs.
    """

    derived: Printed
    formula: str
    inputs: tuple[Printed, ...]
    recomputed: Fraction
    possible: Interval

    @property
    def verdict(self) -> AuditVerdict:
        """Verdict on the printed number."""
        printed = self.derived.interval
        if printed.overlaps(Interval(self.recomputed, self.recomputed)):
            return "agrees"
        return "rounds" if printed.overlaps(self.possible) else "differs"

    @property
    def factor(self) -> float | None:
        """Ratio of printed to recomputed number, or None if the recomputed number is 0."""
        return float(self.derived.value / self.recomputed) if self.recomputed else None

    @property
    def known_factor(self) -> KnownFactor | None:
        """Known factor that explains a difference exactly or to 1 %; None if no factor does."""
        if self.verdict != "differs" or self.possible.low <= 0:
            return None
        unit = self.derived.unit
        factors: list[KnownFactor] = []
        if "FLOP" in unit:
            factors += _OPERATION_FACTORS
        if unit.partition("/")[0].endswith("B"):
            factors += _BYTE_FACTORS
        factors += _COMMON_FACTORS
        for factor in factors:
            if self.explained_by(factor):
                return factor
        # Factors near 1 must fit exactly, since a small error would look like such a factor.
        far_from_1 = [item for item in factors if not Fraction(1, 2) < item.ratio < 2]
        return next((item for item in far_from_1 if self.explained_by(item, _TOLERANCE)), None)

    def explained_by(self, factor: KnownFactor, tolerance: Fraction = Fraction(0)) -> bool:
        """Tell whether the factor reproduces the printed number within a relative tolerance."""
        low, high = self.possible.low * factor.ratio, self.possible.high * factor.ratio
        expected = Interval(low * (1 - tolerance), high * (1 + tolerance))
        return self.derived.interval.overlaps(expected)

    @property
    def finding(self) -> str:
        """The verdict in words, with the known reason of a difference."""
        if self.verdict == "agrees":
            return "agrees"
        if self.verdict == "rounds":
            return "agrees within the rounding of its inputs"
        factor = self.known_factor
        if factor is None:
            return "differs"
        about = "" if self.explained_by(factor) else "about "
        is_simple = 1 in (factor.ratio.numerator, factor.ratio.denominator)
        number = str(factor.ratio) if is_simple else f"{float(factor.ratio):.4g}"
        return f"differs by {about}the factor {number}: {factor.reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the check as JSON for ``out/values/<study>.json``."""
        return {
            "place": self.derived.place,
            "printed": self.derived.number,
            "text": self.derived.text,
            "unit": self.derived.unit,
            "formula": self.formula,
            "inputs": [{"place": item.place, "number": item.number} for item in self.inputs],
            "recomputed": float(self.recomputed),
            "possible": [float(self.possible.low), float(self.possible.high)],
            "verdict": self.verdict,
            "finding": self.finding,
        }


def check(derived: Printed, formula: str, compute: Formula, *inputs: Printed) -> Check:
    """Recompute ``derived`` from ``inputs``; ``formula`` describes ``compute`` in words.

    All combinations of the inputs' interval ends are tried, since a function that is monotone in
    each input has its extremes at such a combination.  Raises ``StudyError`` for a division by 0.
    """
    values = [item.value for item in inputs]
    ends = [sorted({item.interval.low, item.interval.high}) for item in inputs]
    try:
        recomputed = Fraction(compute(*values))
        results = [Fraction(compute(*combination)) for combination in product(*ends)]
    except ZeroDivisionError:
        raise StudyError(
            f"{derived.place}: cannot be recomputed as {formula}, which divides by zero; "
            "correct the reported values against the source."
        ) from None
    return Check(derived, formula, inputs, recomputed, Interval(min(results), max(results)))


def check_formula(derived: Printed, formula: str, **inputs: Printed) -> Check:
    """Recompute ``derived`` by a formula as text, such as ``work / time``.

    The formula contains the name of each of the ``inputs`` once, in their order.  Raises
    ``ZeroDivisionError`` if an input by which the formula divides may be 0.
    """
    numbers = {name: Rounded(item.value, item.interval) for name, item in inputs.items()}
    result = evaluate(formula, numbers.__getitem__)
    printed_formula = formula.replace("*", "·").replace("_", " ")
    inputs_in_order = tuple(inputs.values())
    return Check(derived, printed_formula, inputs_in_order, result.value, result.interval)


# ``ratio`` to ``gain`` are formulas for ``check``.
ratio = operator.truediv
difference = operator.sub


def times(*factors: Fraction) -> Fraction:
    """Multiply the inputs."""
    return math.prod(factors, start=Fraction(1))


def total(*parts: Fraction) -> Fraction:
    """Add the inputs."""
    return sum(parts, Fraction(0))


def mean(*parts: Fraction) -> Fraction:
    """Return the arithmetic mean of the inputs."""
    return total(*parts) / len(parts)


def gain(new: Fraction, old: Fraction) -> Fraction:
    """Return by how many per cent ``new`` exceeds ``old``."""
    return 100 * (new / old - 1)


def count_by_verdict(checks: Iterable[Check]) -> Counter[AuditVerdict]:
    """Count the checks by verdict."""
    return Counter(item.verdict for item in checks)
