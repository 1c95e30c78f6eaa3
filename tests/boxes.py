"""Words of a PDF that are printed over others or out of the area of its page's text."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

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


class _Word(NamedTuple):
    """A word and its box in points from the upper left corner of the page."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    def covers(self, other: _Word) -> bool:
        """Whether the boxes share more than neighbours on a line or in a formula do."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        lower = min(self.bottom - self.top, other.bottom - other.top)
        return width > _SHARED and height > lower / 2

    def is_outside(self, width: float, height: float) -> bool:
        """Whether the word leaves the area of the page's text and is no page number."""
        side, top, bottom = _MARGINS[int(width)]
        if (self.top + self.bottom) / 2 > height - bottom + _HANGING:
            centred = abs((self.left + self.right) / 2 - width / 2) < _HANGING
            return not (centred and _PAGE_NUMBER.fullmatch(self.text))
        return self.left < side - _HANGING or self.right > width - side + _HANGING or self.top < top


def misplaced(pdf: bytes) -> Iterator[str]:
    """Every word that covers another or stands outside the text, with its page."""
    layout = subprocess.run(
        ["pdftotext", "-bbox", "-", "-"], input=pdf, check=True, capture_output=True, timeout=60
    ).stdout.decode("utf-8")
    for number, (width, height, content) in enumerate(_PAGE.findall(layout), start=1):
        boxes = (_Word(*map(float, box), text) for *box, text in _WORD.findall(content))
        # A root or a hat belongs over what it stands with.
        words = sorted((word for word in boxes if _is_read(word)), key=lambda word: word.top)
        for index, word in enumerate(words):
            below = takewhile(lambda other: other.top < word.bottom, words[index + 1 :])  # noqa: B023
            covered = filter(word.covers, below)
            yield from (f"page {number}: {word} covers {each}" for each in covered)
            if word.is_outside(float(width), float(height)):
                yield f"page {number}: {word} is outside the text"


def _is_read(word: _Word) -> bool:
    return any(char.isalnum() for char in html.unescape(word.text))
