"""The font of the figures: the width of words before they are drawn, and its part in a PDF."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Final

from figures.drawing import style

#: The tables of a font by which text is set.  A PDF holds text that has been set.
_SETTING: Final = ("GDEF", "GPOS", "GSUB", "MATH", "kern")


@lru_cache(maxsize=4096)
def ink_width(text: str, size: float) -> float:
    """Where the ink of ``text`` ends that begins at 0, in points; ``size`` is that of the type."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextPath

    if not text.strip():
        return 0.0
    font = FontProperties(family=str(style.RC["font.family"]), size=size)
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
