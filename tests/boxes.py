"""Where the words of a PDF stand, and which of them stand where no word may."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

needs_pdftotext = pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="pdftotext (poppler-utils) is not installed"
)

_PAGE = re.compile(r'<page width="([\d.]+)" height="([\d.]+)">(.*?)</page>', re.DOTALL)
_WORD = re.compile(
    r'<word xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)">(.*?)</word>'
)
_PAGE_NUMBER = re.compile(r"\d+|[ivx]+")

#: Points that boxes may share: italic letters lean over their indices, hyphens hang in the margin.
_SHARED, _HANGING = 1.5, 4.0
#: The margins in points at the sides, the top (with a running head) and the bottom, by the width of
#: the page: A4 in one column, US letter in two.
_MARGINS = {595: (70.8, 30.0, 79.4), 612: (45.0, 30.0, 54.0)}


@dataclass(frozen=True)
class Word:
    """A word and its box in points from the upper left corner of the page."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    def covers(self, other: Word) -> bool:
        """Whether the boxes share more than neighbours on a line or in a formula do."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        lower = min(self.bottom - self.top, other.bottom - other.top)
        return width > _SHARED and height > lower / 2

    def is_outside(self, width: float, height: float) -> bool:
        """Whether the word leaves the area of the page's text and is no page number."""
        side, top, bottom = _MARGINS[int(width)]
        middle = (self.top + self.bottom) / 2
        if middle > height - bottom + _HANGING:
            centred = abs((self.left + self.right) / 2 - width / 2) < _HANGING
            return not (centred and _PAGE_NUMBER.fullmatch(self.text))
        return self.left < side - _HANGING or self.right > width - side + _HANGING or self.top < top


def misplaced(pdf: Path) -> list[str]:
    """Every word that covers another or stands outside the text, with its page."""
    return [
        f"page {number}: {fault}"
        for number, (width, height, words) in enumerate(_pages(pdf), start=1)
        for fault in (*_covered(words), *_outside(words, width, height))
    ]


def _pages(pdf: Path) -> Iterator[tuple[float, float, list[Word]]]:
    layout = subprocess.run(
        ["pdftotext", "-bbox", pdf, "-"], check=True, capture_output=True, timeout=60
    ).stdout.decode("utf-8")
    for width, height, content in _PAGE.findall(layout):
        words = [
            Word(*map(float, box), html.unescape(text)) for *box, text in _WORD.findall(content)
        ]
        yield float(width), float(height), words


def _covered(words: Sequence[Word]) -> Iterator[str]:
    ordered = sorted(words, key=lambda word: word.top)
    for index, word in enumerate(ordered):
        below = takewhile(lambda other: other.top < word.bottom, ordered[index + 1 :])  # noqa: B023
        yield from (f"{word} covers {other}" for other in below if word.covers(other))


def _outside(words: Sequence[Word], width: float, height: float) -> Iterator[str]:
    return (f"{word} is outside the text" for word in words if word.is_outside(width, height))
