"""Words of a PDF that are printed over others or out of the area of its page's text."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import pytest

needs_pdftotext = pytest.mark.skipif(
    shutil.which("pdftotext") is None, reason="pdftotext (poppler-utils) is not installed"
)

_PAGE = re.compile(r'<page width="([\d.]+)" height="([\d.]+)">(.*?)</page>', re.DOTALL)
_WORD = re.compile(
    r'<word xMin="([-\d.]+)" yMin="([-\d.]+)" xMax="([-\d.]+)" yMax="([-\d.]+)">(.*?)</word>'
)
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


def misplaced(pdf: bytes) -> Iterator[str]:
    """Every word that covers another or stands outside the text, with its page."""
    layout = subprocess.run(
        ["pdftotext", "-bbox", "-", "-"], input=pdf, check=True, capture_output=True, timeout=60
    ).stdout.decode("utf-8")
    for number, (width, height, content) in enumerate(_PAGE.findall(layout), start=1):
        boxes = (_Word(*map(float, box), text) for *box, text in _WORD.findall(content))
        # A root or a hat belongs over what it stands with.
        read = (w for w in boxes if any(map(str.isalnum, html.unescape(w.text))))
        words = sorted(read, key=lambda word: word.top)
        tops = [word.top for word in words]
        for place, word in enumerate(words):
            below = words[place + 1 : bisect_left(tops, word.bottom)]
            faults = [f"covers {other}" for other in below if _covers(word, other)]
            faults += ["is outside the text"] * _is_outside(word, float(width), float(height))
            yield from (f"page {number}: {word} {fault}" for fault in faults)


def _covers(one: _Word, other: _Word) -> bool:
    """Whether the boxes share more than neighbours on a line or in a formula do."""
    width = min(one.right, other.right) - max(one.left, other.left)
    height = min(one.bottom, other.bottom) - max(one.top, other.top)
    return width > _SHARED and height > min(w.bottom - w.top for w in (one, other)) / 2


def _is_outside(word: _Word, width: float, height: float) -> bool:
    """Whether the word leaves the area of the page's text and is no page number."""
    side, top, bottom = _MARGINS[int(width)]
    if (word.top + word.bottom) / 2 > height - bottom + _HANGING:
        return re.fullmatch(r"\d+|[ivx]+", word.text) is None
    return word.left < side - _HANGING or word.right > width - side + _HANGING or word.top < top
