"""The fonts of the figures: what they hold, the width of words, and their part in a PDF."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from figures import characters
from figures.drawing import style

#: Fonts that come with the project, so that they are the same on every machine, and so is the order
#: in which a PDF holds them, which is that of their paths.
FOLDER: Final = Path(__file__).resolve().parents[2] / "templates" / "fonts"

#: Latin and Greek letters, punctuation, arrows and signs.
_COMMON: Final = frozenset((*range(0x20, 0x250), *range(0x370, 0x400), *range(0x2000, 0x2300)))
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
    by which text is set, which no viewer reads, and in thousands of glyphs of other scripts; here
    they are gone before it begins.
    """
    from fontTools import subset  # type: ignore[import-untyped]
    from matplotlib.backends import _backend_pdf_ps as backend

    load_font, cut = subset.load_font, backend.get_glyphs_subset

    @contextmanager
    def cut_common(path: Any, glyphs: Collection[int]) -> Iterator[Any]:
        common = _common_glyphs(Path(path))
        known = common.numbers.keys() >= set(glyphs)
        source: Any = io.BytesIO(common.font) if known else path
        numbers = common.numbers if known else {glyph: glyph for glyph in glyphs}
        subset.load_font = lambda _, options: load_font(source, options)
        with cut(path, {numbers[glyph] for glyph in glyphs}) as found:
            new = {glyph: found.glyph_index_map[numbers[glyph]] for glyph in glyphs}
            yield found._replace(glyph_index_map=new)

    backend.get_glyphs_subset = cut_common  # type: ignore[assignment]
    try:
        yield
    finally:
        subset.load_font, backend.get_glyphs_subset = load_font, cut


class _Common(NamedTuple):
    """A font with the glyphs that most texts need, and their numbers in it: old → new."""

    font: bytes
    numbers: Mapping[int, int]


@cache
def _common_glyphs(path: Path) -> _Common:
    """Nothing of a font that is not the project's, such as those of formulas, which are small."""
    if path.parent != FOLDER:
        return _Common(b"", {})
    from fontTools import subset
    from fontTools.ttLib import TTFont

    with TTFont(path, recalcBBoxes=False, recalcTimestamp=False, lazy=True) as font:
        numbers = font.getReverseGlyphMap()
        names = [name for code, name in font.getBestCmap().items() if code in _COMMON]
        options = subset.Options(glyph_names=True, recommended_glyphs=True)
        options.drop_tables += [*_SETTING, "FFTM"]
        subsetter = subset.Subsetter(options)
        subsetter.populate(gids={numbers[name] for name in names})
        subsetter.subset(font)
        stream = io.BytesIO()
        font.save(stream, reorderTables=False)
    return _Common(stream.getvalue(), subsetter.glyph_index_map)
