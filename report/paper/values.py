"""Values of a paper: the numbers in its prose, with their origin."""

from dataclasses import dataclass, field, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.escape import markdown, math_text
from report.core.text.format import (
    LARGE_NUMBER_WORDS,
    NO_BREAK,
    Number,
    PrintedParts,
    Style,
    printed_parts,
    quantity_text,
    scale_for,
)
from report.quantity.evaluation import printed_number
from report.quantity.expression import Quantity

NOT_MEASURED: Final = "not measured"
#: Further forms in which a template can print a value (``Value.form``), besides number and unit.
FORMS: Final = ("about", "bare", "from", "interval", "math", "plain", "range", "up_to")

#: Direction in which a printed number was rounded.
Rounding: TypeAlias = Literal["exact", "nearest", "up", "down"]
#: An evaluated quantity: a number, an estimate with its interval, or the reason of its absence.
Evaluated: TypeAlias = Number | Estimate | Missing


@dataclass(frozen=True)
class Value:
    """A number of the prose.

    ``name``: the id in words.  ``formula``: how the number is computed.  ``sources``: files of
    records or reported values behind the number, none for pure theory.  ``quantity``: the
    expression, which cannot be pickled.
    """

    id: str
    name: str
    number: Evaluated
    unit: str
    formula: str
    sources: tuple[str, ...] = ()
    style: Style = "measured"
    quantity: Quantity | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields to pickle, without the quantity."""
        return {**self.__dict__, "quantity": None}

    @property
    def anchor(self) -> str:
        """Id of the number's line in the list of provenance."""
        return "v-" + self.id.replace("_", "-")

    @cached_property
    def parts(self) -> PrintedParts:
        """Number, bounds of its interval, unit and confidence level, as plain text."""
        if isinstance(self.number, Missing):
            return PrintedParts(NOT_MEASURED, "", "", "")
        return printed_parts(self.number, scale_for(self.number, self.unit, self.style))

    @property
    def plain(self) -> str:
        """Number and unit as plain text."""
        return f"{self.parts.number}{self.parts.after}"

    def form(self, name: str = "") -> str:
        """Print the number in one of ``FORMS``, as a link to its line in the list of provenance.

        ``about``: two significant digits.  ``up_to``, ``from``: rounded up or down to two digits.
        ``bare``: without unit, which the sentence names.  ``interval``: with the interval, if any.
        ``range``: both ends of a range, for a sentence that names their assumptions.  ``plain``,
        ``math``: text or TeX, without link.  An empty ``name``: number and unit.
        """
        parts, text = self.parts, self.plain
        match name:
            case "plain":
                return text
            case "math":
                missing = isinstance(self.number, Missing)
                return r"\text{not measured}" if missing else math_text(text)
            case "about" | "up_to" | "from":
                text = self.in_two_digits(name)
            case "bare":
                # Of "4.5 million images", 4.5 alone would be another number.
                in_millions = parts.unit.partition(NO_BREAK)[0] in LARGE_NUMBER_WORDS.values()
                text = (replace(self, style="exact") if in_millions else self).parts.number
            case "interval":
                text = f"{parts.number} {parts.bounds}".rstrip() + parts.after + parts.level
            case "range":  # such as "(low to high)"; intervals have square brackets
                ends = parts.bounds.strip("()") if parts.bounds.startswith("(") else parts.number
                text = ends + parts.after
        return f"[{markdown(text)}](#{self.anchor}){{.value}}"

    def in_two_digits(self, form: str = "about") -> str:
        """Print two significant digits, rounded as the form ``about``, ``up_to`` or ``from``.

        Whole, missing, bimodal and zero numbers are printed as ``plain``.
        """
        value = self.number.value if isinstance(self.number, Estimate) else self.number
        bimodal = isinstance(self.number, Estimate) and self.number.bimodal
        if not isinstance(value, float) or not value or bimodal:
            return self.plain
        rounded = Decimal(f"{value:.1e}")
        if form != "about":
            # Twelve digits, so that rounding errors of the arithmetic do not change the result.
            exact = Decimal(f"{value:.11e}")
            direction = ROUND_CEILING if form == "up_to" else ROUND_FLOOR
            rounded = exact.quantize(Decimal((0, (1,), exact.adjusted() - 1)), direction)
        return quantity_text(float(rounded), self.unit, self.style)

    def rounding(self, form: str) -> Rounding:
        """Return the direction in which a ``form`` rounds; "exact" if it prints all digits."""
        if not isinstance(self.number, float | Estimate):
            return "exact"
        if form in ("up_to", "from"):
            return "up" if form == "up_to" else "down"
        return "exact" if self.style == "exact" and form != "about" else "nearest"

    def as_json(self) -> dict[str, Any]:
        """Content of the value in ``out/values/<study>.json``."""
        result = self.number
        estimate = result if isinstance(result, Estimate) else None
        value = estimate.value if estimate else result
        return {
            "name": self.name,
            "number": None if isinstance(value, Missing) else value,
            "unit": self.unit,
            "interval": [estimate.low, estimate.high] if estimate else None,
            "confidence": estimate.level if estimate else None,
            "n": estimate.n if estimate else None,
            "formula": self.formula,
            "sources": list(self.sources),
            "printed": self.plain,
            "reason": result.reason if isinstance(result, Missing) else None,
        }


def declare(id: str, quantity: Quantity, style: Style | None = None) -> Value:
    """Evaluate ``quantity`` to a value; the name of the value is ``id`` in words.

    Without a ``style``, whole numbers are printed in full.
    """
    result, name = printed_number(quantity), id.replace("_", " ").capitalize()
    style = style or ("exact" if isinstance(result, int) else "measured")
    return Value(
        id, name, result, str(quantity.unit), quantity.formula, quantity.sources, style, quantity
    )
