"""How training_roofline declares values: shares, whole bytes, and numbers without an interval."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Final, TypeVar

from report.missing import Missing
from report.paper.values import Value, declare
from report.quantity.expression import Operation, Quantity, absent, combine, exact
from report.quantity.units import same_unit
from report.text.format import Number, Style

Subject = TypeVar("Subject")

#: How the ids of values name the networks.
WORDS: Final = {"ResNet-18": "small", "ResNet-50": "heavy", "MobileNetV2": "light"}


def setting(id_: str, name: str, number: Number, style: Style = "percent") -> Value:
    """A number that the authors chose."""
    return Value(id_, name, number, "1", "setting of this study", (), style)


def declared(quantities: Mapping[str, Quantity], style: Style = "measured") -> Iterator[Value]:
    """The values under these ids."""
    return (declare(id_, quantity, style) for id_, quantity in quantities.items())


def found_in(
    subject: Subject | None,
    getters: Mapping[str, Callable[[Subject], Quantity]],
    none: Missing,
) -> dict[str, Quantity]:
    """What the getters find; absent for the reason ``none`` where there is no subject."""
    return {
        id_: absent(id_, "1", none.reason) if subject is None else get(subject)
        for id_, get in getters.items()
    }


def fixed(
    name: str, number: Number | Fraction | Missing, unit: str = "1", *sources: str
) -> Quantity:
    """A number without uncertainty, such as a count; absent where it is missing."""
    if isinstance(number, Missing):
        return absent(name, unit, number.reason)
    source, *further = sources or ("",)
    return exact(name, unit, number, source, tuple(further))


def chosen(
    choose: Callable[..., Quantity], parts: Sequence[Quantity], none: Missing, unit: str = "1"
) -> Quantity:
    """What ``choose`` makes of several quantities; absent for the reason ``none`` without any."""
    return choose(*parts) if parts else absent("none of them", unit, none.reason)


def median(*quantities: Quantity) -> Quantity:
    """The median of several quantities that have one name."""
    return combine(
        Operation(
            "the median of",
            same_unit,
            statistics.median,
            lambda i: tuple(map(statistics.median, zip(*i, strict=True))),
            lambda texts: f"the median of {texts[0]} ({len(texts)} times)",
        ),
        *quantities,
    )
