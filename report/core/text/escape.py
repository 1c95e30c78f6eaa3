"""Escape plain text for the markup of each output, so that it is printed literally.

The text comes from records and published tables (names of devices, reasons of failures) and may
contain any character.  No character acts as markup; a character that cannot be printed appears as
its code point, ``‹U+9F99›``.  pdfLaTeX prints Latin, Greek and the characters that
``ridgepoint.sty`` declares; HTML and Typst print all characters.
"""

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Final

from figures.characters import printable
from report.core.text.format import MINUS, NO_BREAK

#: White space at which lines may break; a single blank replaces it.
_BREAKS: Final = re.compile("[\\t-\\r \\x85\\u2028\\u2029]+")

#: Characters that are markup in Markdown.
_MARKDOWN: Final = re.compile(r"[\\`*_{}\[\]<>#|@$^~&'\"]")
#: Sequences that pandoc's smart punctuation would replace by dashes and an ellipsis.
_SMART: Final = re.compile(r"-(?=-)|\.(?=\.\.)")
#: Text at the start of a block that would begin a list, a definition or a caption.  The sign to
#: escape is group 2 or 4.
_BLOCK: Final = re.compile(r"^(\(?[0-9A-Za-z]*)([-+.)])(?=\s|$)|^(Table|)(:)")

_STYLE: Final = Path(__file__).resolve().parents[3] / "templates" / "latex" / "ridgepoint.sty"
_DECLARED: Final = re.compile(r"\\DeclareUnicodeCharacter\{([0-9A-F]+)\}")
#: Characters beyond ASCII in LaTeX's T1 and TS1 encodings.
_KNOWN_TO_LATEX: Final = re.compile(
    "[\\xa1-\\xac\\xae-\\u017e–—‘’‚“”„†‡•…‰‹›€™]"
    "(?<![\\u0126\\u0127\\u0138\\u013f\\u0140\\u0149\\u0166\\u0167])"
)
#: Characters that are markup in LaTeX or that LaTeX does not print → replacement.
_LATEX: Final = str.maketrans({
    **{char: rf"\{char}" for char in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "`": r"\textasciigrave{}",
    '"': r"\textquotedbl{}",
    NO_BREAK: "~",
    "\N{ZERO WIDTH SPACE}": r"\hspace{0pt}",
})  # fmt: skip
#: Second character of pairs that LaTeX joins: -- and '' and ,,
_DOUBLED: Final = re.compile(r"(?<=-)-|(?<=')'|(?<=,),")

#: Ligature (as in text copied from a PDF) → its letters.
_LIGATURES: Final = str.maketrans({
    ligature: unicodedata.normalize("NFKC", ligature) for ligature in "ﬀﬁﬂﬃﬄﬅﬆ"
})  # fmt: skip

#: A comment before, between or right after the entries of a bibliography.
_COMMENT: Final = re.compile(r"(?:^|\})[ \t]*%.*", re.MULTILINE)
#: A formula in a title; BibTeX would convert its letters to lower case.
_FORMULA: Final = re.compile(r"(?<![\\{])\$(?:[^$\\{}]|\\.|\{[^{}]*\})+\$")
#: Code points in guillemets, and characters beyond ASCII.
_BEYOND_ASCII: Final = re.compile("‹([^›]*)›|([^\\x00-\\x7f])")

#: A long word, and its break points in a narrow column: after signs, else every 12 letters.
_LONG_WORD: Final = re.compile(r"\S{21,}")
_BREAK_AFTER: Final = re.compile(r"(?:[^\W_]{12}(?=[^\W_]{4})|[_:./;=+@\\-]+(?=[^\W_]))", re.ASCII)


def markdown(text: str) -> str:
    """Escape plain text for Quarto markdown (a sentence, a paragraph or a cell of a table)."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", _BREAKS.sub(" ", text))
    escaped = _SMART.sub(r"\\\g<0>", escaped)
    return _BLOCK.sub(r"\1\3\\\2\4", escaped)


def latex(text: str) -> str:
    """Escape plain text for LaTeX with ``ridgepoint.sty``, also for a cell of a ``tabular``."""
    line = latex_source(_BREAKS.sub(" ", text))
    # A zero-width space at each break point of a long word.
    breakable = _LONG_WORD.sub(lambda word: _BREAK_AFTER.sub("\\g<0>\u200b", word[0]), line)
    escaped = _DOUBLED.sub(r"{}\g<0>", breakable.translate(_LATEX))
    # After «\\» at the end of the previous row, LaTeX reads a bracket or a star as an argument.
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def latex_source(text: str) -> str:
    """Replace characters that pdfLaTeX cannot print by code points; keep markup."""
    composed = unicodedata.normalize("NFC", text)
    return printable(composed.translate(_LIGATURES), _in_latex)


def bibtex(text: str) -> str:
    """Rewrite a bibliography so that BibTeX never splits a letter beyond ASCII.

    BibTeX shortens names by bytes, but counts a command in braces as one letter.  Comments lose
    every @, since BibTeX begins an entry at @ even after a %.
    """
    rewritten = _COMMENT.sub(lambda comment: comment[0].replace("@", ""), latex_source(text))
    rewritten = _FORMULA.sub(r"{\g<0>}", rewritten)
    return _BEYOND_ASCII.sub(_in_bibtex, rewritten)


def _in_bibtex(match: re.Match[str]) -> str:
    """Write code points in guillemets, or a character beyond ASCII, for BibTeX."""
    code_points, char = match.groups()
    if not code_points:
        return rf"{{\relax {char}}}"
    # In two pairs of braces, so that BibTeX neither shortens names nor converts titles.
    return rf"{{{{\guilsinglleft {code_points}\guilsinglright}}}}"


def math_text(text: str) -> str:
    """Write a printed number for TeX math: ``21,233,664`` becomes ``21{,}233{,}664``."""
    number, _, unit = text.partition(NO_BREAK)
    body = number.replace(",", "{,}").replace(MINUS, "-")
    return rf"{body}\,\text{{{latex(unit)}}}" if unit else body


@cache
def _declared() -> frozenset[str]:
    """Return the characters that ``ridgepoint.sty`` declares."""
    codes = _DECLARED.findall(_STYLE.read_text("utf-8"))
    return frozenset(chr(int(code, 16)) for code in codes)


def _in_latex(char: str) -> bool:
    return char.isascii() or _KNOWN_TO_LATEX.match(char) is not None or char in _declared()
