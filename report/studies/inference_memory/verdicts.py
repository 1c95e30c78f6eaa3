"""Verdicts in words: ratios and counts that decide a claim, with the numbers that they rest on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from report.missing import Missing
from report.quantity.verdicts import Verdict
from report.statistics.estimates import Estimate
from report.text.format import NO_BREAK, Style, interval_text, quantity_text, scale_for

UNMEASURED: Final = "no such case was measured"


@dataclass(frozen=True)
class Judged:
    """A verdict with its reason, before it is told of a device."""

    verdict: Verdict
    because: str


NOT_MEASURED: Final = Judged("not measured", UNMEASURED)


def ratios(
    found: Mapping[str, Estimate | Missing], what: str, *, below: bool, any_is_enough: bool = False
) -> Judged:
    """A claim that ratios lie below (or above) 1, each clearly or not; ``what`` names them."""
    known = {name: e for name, e in found.items() if isinstance(e, Estimate)}
    if not known:
        return NOT_MEASURED
    under = sum(e.high < 1 for e in known.values())
    over = sum(e.low > 1 for e in known.values())
    extremes = (min(known, key=lambda n: known[n].value), max(known, key=lambda n: known[n].value))
    told = " to ".join(f"{with_interval(known[n])} ({n})" for n in dict.fromkeys(extremes))
    right, wrong = (under, over) if below else (over, under)
    return Judged(
        _settled(right, wrong, len(known), any_is_enough),
        f"{what}: {told}; clearly below 1 in {under} of {len(known)}, clearly above in {over}",
    )


def _settled(right: int, wrong: int, total: int, any_is_enough: bool) -> Verdict:
    if any_is_enough:
        return "supported" if right else "refuted" if wrong == total else "undecided"
    if right == total:
        return "supported"
    return "refuted" if wrong else "undecided"


def counted(right: int, total: int, what: str) -> Judged:
    """A claim that holds if it holds for all of ``total`` networks."""
    if not total:
        return NOT_MEASURED
    return Judged(if_all(right, total), f"for {right} of {total} networks {what}")


def if_all(right: int, total: int) -> Verdict:
    """Supported where all are right."""
    return "supported" if right == total else "refuted"


def with_interval(estimate: Estimate, style: Style = "measured") -> str:
    """A number without unit and its interval, unbroken."""
    scale = scale_for(estimate, "1", style)
    text = quantity_text(estimate, "1", style)
    return f"{text} {interval_text(estimate, scale)}".replace(" ", NO_BREAK)


def percent(share: float) -> str:
    """A share in per cent."""
    return quantity_text(share, "1", "percent")


def span(found: Iterable[float]) -> str:
    """The smallest to the largest of some shares."""
    values = list(found)
    ends = [percent(value) for value in (min(values), max(values))]
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def listed(numbers: Sequence[int], word: str = "or") -> str:
    """One number or another."""
    *first, last = (f"{n:,}" for n in numbers)
    return f" {word} ".join(filter(None, (", ".join(first), last)))


def inverse(found: Estimate | Missing) -> Estimate | Missing:
    """One over a ratio, whose bounds change places."""
    if isinstance(found, Missing):
        return found
    return Estimate(1 / found.value, 1 / found.high, 1 / found.low, found.n, found.confidence)
