"""The values of a paper: every number its prose prints, with where the number comes from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from report.core.missing import Missing
from report.core.statistics.estimates import Estimate
from report.core.text.escape import markdown, math_text
from report.core.text.format import (
    LARGE,
    NO_BREAK,
    Number,
    Printed,
    Style,
    printed,
    quantity_text,
    scale_for,
)
from report.quantity.evaluation import number
from report.quantity.expression import Quantity

NOT_MEASURED = "not measured"

#: What a value can be.
Finding: TypeAlias = Number | Estimate | Missing


@dataclass(frozen=True)
class Value:
    """One number of the prose.

    ``name`` says what it is, ``formula`` how it was computed, ``sources`` which record or reported
    files it was computed from (none for pure theory).  ``quantity`` is what was computed; it is not
    pickled, since its operations are functions without names.
    """

    id: str
    name: str
    number: Finding
    unit: str
    formula: str
    sources: tuple[str, ...] = ()
    style: Style = "measured"
    quantity: Quantity | None = field(default=None, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but the quantity, for other processes and for the folder of what is kept."""
        return {**self.__dict__, "quantity": None}

    @property
    def anchor(self) -> str:
        """The id of the number's line in the list of provenance."""
        return "v-" + self.id.replace("_", "-")

    @property
    def parts(self) -> Printed:
        """Number, bounds, unit and level as plain text."""
        if isinstance(self.number, Missing):
            return Printed(NOT_MEASURED, "", "", "")
        return printed(self.number, scale_for(self.number, self.unit, self.style))

    @property
    def plain(self) -> str:
        """Number and unit as plain text."""
        return f"{self.parts.number}{self.parts.after}"

    @property
    def about(self) -> str:
        """Number and unit to two significant digits, where a sentence needs no more."""
        found = self.number.value if isinstance(self.number, Estimate) else self.number
        bimodal = isinstance(self.number, Estimate) and self.number.bimodal
        if not isinstance(found, float) or bimodal:
            return str(self)
        return self._linked(quantity_text(float(f"{found:.1e}"), self.unit, self.style))

    @property
    def bare(self) -> str:
        """The number without its unit, for a sentence that names the unit itself."""
        in_words = self.parts.unit.partition(NO_BREAK)[0] in LARGE.values()
        return self._linked((replace(self, style="exact") if in_words else self).parts.number)

    @property
    def math(self) -> str:
        """Number and unit for TeX math."""
        return r"\text{not measured}" if isinstance(self.number, Missing) else math_text(self.plain)

    @property
    def interval(self) -> str:
        """The number with its interval and unit; where it has none, as in a sentence."""
        parts = self.parts
        return self._linked(f"{parts.number} {parts.bounds}".rstrip() + parts.after + parts.level)

    def __str__(self) -> str:
        return self._linked(self.plain)

    def _linked(self, text: str) -> str:
        """Quarto markdown: the number links to its line in the list of provenance."""
        return f"[{markdown(text)}](#{self.anchor}){{.value}}"

    def as_json(self) -> dict[str, Any]:
        """The value for ``out/values/<study>.json``."""
        found = self.number
        estimate = found if isinstance(found, Estimate) else None
        known = None if isinstance(found, Missing) else found
        return {
            "name": self.name,
            "number": estimate.value if estimate else known,
            "unit": self.unit,
            "interval": [estimate.low, estimate.high] if estimate else None,
            "confidence": estimate.confidence if estimate else None,
            "n": estimate.n if estimate else None,
            "formula": self.formula,
            "sources": list(self.sources),
            "printed": self.plain,
            "reason": found.reason if isinstance(found, Missing) else None,
        }


def declare(id: str, quantity: Quantity, style: Style | None = None) -> Value:
    """A value computed from ``quantity``: its name is its id in words, all else the quantity's.

    What was not measured is printed in full unless ``style`` says otherwise.
    """
    found, name = number(quantity), id.replace("_", " ").capitalize()
    style = style or ("exact" if isinstance(found, int) else "measured")
    return Value(
        id, name, found, str(quantity.unit), quantity.formula, quantity.sources, style, quantity
    )
