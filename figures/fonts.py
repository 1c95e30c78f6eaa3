"""The fonts of the figures: their characters, and their registration with matplotlib."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

from figures import characters, style

#: Fonts of the project, so that figures are the same on every machine.
FOLDER: Final = Path(__file__).resolve().parents[1] / "templates" / "fonts"


@cache
def _code_points(names: str = "*") -> frozenset[int]:
    """Return the code points for which a font with one of these file ``names`` has a glyph."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    codes: set[int] = set()
    for path in FOLDER.glob(f"{names}.ttf"):
        with TTFont(path, lazy=True) as font:
            font.setGlyphOrder([""] * 2**16)  # reading their names takes most of the time
            codes |= font.getBestCmap().keys()
    return frozenset(codes)


def families(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the fonts that ``texts`` need, since matplotlib looks up each for every text."""
    first = style.FAMILIES[0]
    characters_used = {ord(char) for char in "".join(texts)} - {ord("\n")}
    plain = characters_used <= _code_points(first.replace(" ", ""))
    return (first,) if plain else style.FAMILIES


def printable(text: str) -> str:
    """Replace characters that no font of the project contains by their code points."""
    return characters.printable(text, _is_printable)


def _is_printable(char: str) -> bool:
    # The other fonts are large, and few texts need one.
    first = style.FAMILIES[0].replace(" ", "")
    return char in "\n\r\t" or any(ord(char) in _code_points(font) for font in (first, "*"))


@cache
def register() -> None:
    """Add the project's fonts to matplotlib, before those of the system."""
    from matplotlib.font_manager import fontManager

    # Sorted, since the order decides the order of the fonts in a PDF.
    for path in sorted(FOLDER.glob("*.ttf")):
        fontManager.addfont(path)
        fontManager.ttflist.insert(0, fontManager.ttflist.pop())
