"""The fonts of the figures: what they hold, the width of words, and their part in a PDF."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final

from figures import characters
from figures.drawing import style

#: Fonts that come with the project, so that they are the same on every machine.
FOLDER: Final = Path(__file__).resolve().parents[2] / "templates" / "fonts"

#: The tables of a font by which text is set.  A PDF holds text that has been set.
_SETTING: Final = ("GDEF", "GPOS", "GSUB", "MATH", "kern")


@cache
def _held(names: str = "*") -> frozenset[int]:
    """The code points for which one of the fonts with these file ``names`` has a glyph."""
    from fontTools.ttLib import TTFont  # type: ignore[import-untyped]

    paths = sorted(FOLDER.glob(f"{names}.ttf"))
    return frozenset(code for path in paths for code in TTFont(path, lazy=True).getBestCmap())


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


@lru_cache(maxsize=4096)
def ink_width(text: str, size: float) -> float:
    """Where the ink of ``text`` ends that begins at 0, in points; ``size`` is that of the type."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    register()
    font = FontProperties(family=style.FAMILIES, size=size)
    # Outlines of a font have points at their extremes, so that no curve reaches beyond them.
    return float(TextPath((0, 0), text, prop=font).vertices[:, 0].max(initial=0.0))


@contextmanager
def only_glyphs() -> Iterator[None]:
    """Let PDFs hold of a font what draws its glyphs.

    matplotlib has fontTools cut down the whole font for each PDF.  Most of that work is in tables
    by which text is set, which no viewer reads; here they are gone before it begins.
    """
    from fontTools import subset  # type: ignore[import-untyped]

    load_font = subset.load_font

    def load_glyphs(*arguments: Any, **options: Any) -> Any:
        font = load_font(*arguments, **options)
        for table in _SETTING:
            if table in font:
                del font[table]
        return font

    subset.load_font = load_glyphs
    try:
        yield
    finally:
        subset.load_font = load_font
