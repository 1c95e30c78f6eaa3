"""The fonts of figures: their characters, and their registration with matplotlib."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from figures import characters, style

#: Folder of the project's fonts, with which figures are the same on every machine.
FOLDER: Final = Path(__file__).resolve().parents[1] / "templates" / "fonts"
#: File name without suffix of the first font, which has the characters of most texts.
_FIRST_FONT_FILE: Final = style.FAMILIES[0].replace(" ", "")


@cache
def _code_points(pattern: str = "*") -> frozenset[int]:
    """Return the code points with a glyph in any font whose file name matches ``pattern``.ttf."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    codes: set[int] = set()
    for path in FOLDER.glob(f"{pattern}.ttf"):
        with TTFont(path, lazy=True) as font:
            font.setGlyphOrder([""] * 2**16)  # skips reading names of glyphs, which is slow
            codes |= font.getBestCmap().keys()
    return frozenset(codes)


def families(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the fonts for ``texts``: the first font if it has all characters, else all fonts.

    A single font saves time, because matplotlib searches all given fonts for every text.
    """
    used = {ord(char) for char in "".join(texts)} - {ord("\n")}
    if used <= _code_points(_FIRST_FONT_FILE):
        return (style.FAMILIES[0],)
    return style.FAMILIES


def escape_unprintable(text: str) -> str:
    """Replace characters without a glyph in the project's fonts by code points."""
    return characters.escape_unprintable(text, _is_printable)


def _is_printable(char: str) -> bool:
    """Return whether a font of the project has a glyph for a character, or it is white space."""
    if char in "\n\r\t" or ord(char) in _code_points(_FIRST_FONT_FILE):
        return True
    # Some fonts are large, so that they are read only for a character that the first font lacks.
    return ord(char) in _code_points()


@cache
def register() -> None:
    """Add the project's fonts to matplotlib, before the fonts of the system."""
    from matplotlib.font_manager import fontManager

    # Sorted, because the order of registration determines the order of the fonts in a PDF.
    for path in sorted(FOLDER.glob("*.ttf")):
        fontManager.addfont(path)
        fontManager.ttflist.insert(0, fontManager.ttflist.pop())
