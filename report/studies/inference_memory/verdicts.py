"""Statements about several networks or settings, with the numbers that they rest on in words."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from report.missing import Missing
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, absent
from report.quantity.verdicts import Several, Statement, all_of, exactly, expect
from report.statistics.estimates import CONFIDENCE, Estimate, bonferroni
from report.studies.inference_memory.measured import centre
from report.text.format import NO_BREAK, Style, interval_text, level_text, quantity_text, scale_for


@dataclass(frozen=True)
class Judged:
    """What is claimed of one device, and the numbers that decide it."""

    statement: Statement | Several
    because: str


def nothing(why: str = "no such case was measured") -> Judged:
    """A claim on what was not measured."""
    return Judged(Statement(absent("case", "1", why), exactly(1)), why)


def ratios(
    found: Mapping[str, Quantity],
    what: str,
    claimed: str,
    combine: Callable[..., Several] = all_of,
    about: str = "",
) -> Judged:
    """A claim that all ratios, or any of them, are as ``claimed``; ``what`` names them.

    Those that were not measured are left out.
    """
    known = {name: each for name, each in found.items() if not each.missing}
    if not known:
        return nothing()
    statement = combine(*(Statement(each, expect(claimed), about) for each in known.values()))
    ordered = sorted(known, key=lambda name: centre(known[name]))
    ends = " to ".join(
        f"{with_interval(known[name])} ({name})"
        for name in dict.fromkeys((ordered[0], ordered[-1]))
    )
    # A choice among several is made where any one of them decides the whole.
    choosing = "> 1" if statement.every == ("<" in claimed) else "< 1"
    under, over = (_clearly(known.values(), side, side == choosing) for side in ("< 1", "> 1"))
    return Judged(
        statement,
        f"{what}: {ends}; {_counted(under, len(known))} clearly below 1, {_counted(over)} clearly "
        "above",
    )


def _clearly(found: Collection[Quantity], side: str, shared: bool) -> tuple[int, int]:
    """How many are on one side of 1, and how many at the level that all share where that counts."""
    statements = [Statement(each, expect(side)) for each in found]
    levels = (CONFIDENCE, bonferroni(CONFIDENCE, len(statements)))
    each, jointly = (sum(s.judge(at) == "supported" for s in statements) for at in levels)
    return (each, each if not shared or each == len(statements) else jointly)


def _counted(found: tuple[int, int], of: int = 0) -> str:
    """How many, of how many, and how many of these at the level that all share if it is fewer."""
    each, jointly = found
    fewer = f" ({jointly} at the level that all share)" if jointly != each else ""
    return f"{each} of {of}{fewer}" if of else f"{each}{fewer}"


def with_interval(quantity: Quantity, style: Style = "measured") -> str:
    """A number without unit and its interval, unbroken, with its level where that is lower."""
    found = number(quantity)
    if isinstance(found, Missing):
        return found.reason
    text = quantity_text(found, "1", style)
    if isinstance(found, Estimate):
        text += f" {interval_text(found, scale_for(found, '1', style))}{level_text(found)}"
    return text.replace(" ", NO_BREAK)


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
    return listed_words([f"{n:,}" for n in numbers], word)


def listed_words(words: Sequence[str], word: str = "or") -> str:
    """One word or another."""
    *first, last = words
    return f" {word} ".join(filter(None, (", ".join(first), last)))
