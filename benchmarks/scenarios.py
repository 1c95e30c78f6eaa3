"""What happens between two builds, and what must follow from it in the peers' documents."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from benchmarks.pages import Page


class Scenario(StrEnum):
    """What was changed since the last build."""

    COLD = "cold"
    NOOP = "noop"
    RECORD = "record"
    PROSE = "prose"
    DRAWING = "drawing"
    TOUCH = "touch"
    STYLE = "style"


TITLES: Final[Mapping[Scenario, str]] = {
    Scenario.COLD: "cold",
    Scenario.NOOP: "nothing changed",
    Scenario.RECORD: "one value of data changed",
    Scenario.PROSE: "one word changed",
    Scenario.DRAWING: "one drawing function changed",
    Scenario.TOUCH: "touched only",
    Scenario.STYLE: "LaTeX style changed",
}

#: Document → what its page shows; None for a page that is not there.
Pages = Mapping[str, Page | None]


@dataclass(frozen=True)
class Expected:
    """What a right build leads to: which words and figures change, and what pages have to show.

    ``figures`` are (document, position) of those that have to look different; all others must not.
    """

    words: frozenset[str] = frozenset()
    figures: frozenset[tuple[str, int]] = frozenset()
    shown: Mapping[str, tuple[str, ...]] | None = None


def faults(before: Pages, after: Pages, expected: Expected) -> tuple[str, ...]:
    """What is wrong with the pages after a build, a sentence for each kind of fault."""
    found = [*_missing(after), *_not_shown(after, expected.shown or {})]
    for document, page in after.items():
        old = before.get(document)
        if page is not None and old is not None:
            found += _page_faults(document, old, page, expected)
    return merged(found)


def cold_faults(
    after: Pages, shown: Mapping[str, tuple[str, ...]], figures: int
) -> tuple[str, ...]:
    """What is wrong with pages that were built from nothing."""
    found = [*_missing(after), *_not_shown(after, shown)]
    for document, page in after.items():
        if page is not None and (len(page.figures) != figures or "missing" in page.figures):
            found.append((document, f"does not show its {figures} figures"))
    return merged(found)


def _missing(pages: Pages) -> Iterator[tuple[str, str]]:
    return ((document, "has no page") for document, page in pages.items() if page is None)


def _not_shown(pages: Pages, shown: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, str]]:
    for document, texts in shown.items():
        page = pages.get(document)
        if page is not None and not all(text in page.words for text in texts):
            yield document, "still shows the old text or number"


def _page_faults(
    document: str, old: Page, new: Page, expected: Expected
) -> Iterator[tuple[str, str]]:
    if document not in expected.words and old.words != new.words:
        yield document, "changed its words without need"
    pairs = enumerate(zip(old.figures, new.figures, strict=False))
    changed = {(document, index) for index, (one, other) in pairs if one != other}
    wanted = {place for place in expected.figures if place[0] == document}
    if wanted - changed:
        yield document, "still shows the old figure"
    if changed - wanted or len(old.figures) != len(new.figures):
        yield document, "changed a figure without need"


def merged(found: Collection[tuple[str, str]]) -> tuple[str, ...]:
    """One sentence for each fault with all documents that have it."""
    places: dict[str, list[str]] = {}
    for document, fault in found:
        if document not in places.setdefault(fault, []):
            places[fault].append(document)
    return tuple(f"{', '.join(documents)} {fault}" for fault, documents in places.items())
