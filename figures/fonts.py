"""The fonts of the figures: what they hold, and matplotlib's knowledge of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from figures import characters, style

#: Fonts that come with the project, so that they are the same on every machine, and so is the order
#: in which a PDF holds them, which is that of their paths.
FOLDER: Final = Path(__file__).resolve().parents[1] / "templates" / "fonts"


@cache
def _held(names: str = "*") -> frozenset[int]:
    """The code points for which one of the fonts with these file ``names`` has a glyph."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    codes: set[int] = set()
    for path in FOLDER.glob(f"{names}.ttf"):
        with TTFont(path, lazy=True) as font:
            font.setGlyphOrder([""] * 2**16)  # to name the glyphs takes most of the time
            codes |= font.getBestCmap().keys()
    return frozenset(codes)


def families(texts: Iterable[str]) -> tuple[str, ...]:
    """The typefaces that ``texts`` need; matplotlib looks up each of them for every text."""
    first = style.FAMILIES[0]
    held = _held(first.replace(" ", ""))
    plain = all(ord(char) in held or char == "\n" for text in texts for char in text)
    return (first,) if plain else style.FAMILIES


def printable(text: str) -> str:
    """``text`` with code points for what no font of the project can print."""
    return characters.printable(text, lambda char: char in "\n\r\t" or ord(char) in _held())


@cache
def register() -> None:
    """Make the project's fonts known to matplotlib, before those of the system."""
    from matplotlib.font_manager import fontManager

    for path in sorted(FOLDER.glob("*.ttf")):
        fontManager.addfont(path)
        fontManager.ttflist.insert(0, fontManager.ttflist.pop())
