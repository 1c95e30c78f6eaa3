"""The fonts of figures: available characters, and registration with matplotlib."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from figures import characters, style

#: Fonts of the project; with them figures are the same on every machine.
FOLDER: Final = Path(__file__).resolve().parents[1] / "templates" / "fonts"


@cache
def _code_points(names: str = "*") -> frozenset[int]:
    """Return the code points with a glyph in the fonts whose file names match ``names``."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    codes: set[int] = set()
    for path in FOLDER.glob(f"{names}.ttf"):
        with TTFont(path, lazy=True) as font:
            font.setGlyphOrder([""] * 2**16)  # skips reading names of glyphs, which is slow
            codes |= font.getBestCmap().keys()
    return frozenset(codes)


def families(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the fonts that ``texts`` need; matplotlib searches all given fonts for every text."""
    first = style.FAMILIES[0]
    characters_used = {ord(char) for char in "".join(texts)} - {ord("\n")}
    plain = characters_used <= _code_points(first.replace(" ", ""))
    return (first,) if plain else style.FAMILIES


def printable(text: str) -> str:
    """Replace characters without a glyph in the project's fonts by code points."""
    return characters.printable(text, _is_printable)


def _is_printable(char: str) -> bool:
    # The other fonts are large, and few texts need one.
    first = style.FAMILIES[0].replace(" ", "")
    return char in "\n\r\t" or any(ord(char) in _code_points(font) for font in (first, "*"))


@cache
def register() -> None:
    """Add the project's fonts to matplotlib, before the fonts of the system."""
    from matplotlib.font_manager import fontManager

    # Sorted, since this determines the order of the fonts in a PDF.
    for path in sorted(FOLDER.glob("*.ttf")):
        fontManager.addfont(path)
        fontManager.ttflist.insert(0, fontManager.ttflist.pop())
