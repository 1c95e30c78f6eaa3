"""Escape plain text for the markup of each output, so that it is printed literally.

The text comes from records and published tables (names of devices, reasons of failures) and may
contain any character.  No character acts as markup.  HTML and Typst print all characters.  pdfLaTeX
prints Latin letters and the characters that ``ridgepoint.sty`` declares; any other character
becomes its code point, such as ``‹U+9F99›``.
"""

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Final

from figures.characters import escape_unprintable
from report.core.text.format import MINUS, NO_BREAK

#: White space at which lines may break; a single space replaces each match.
_WHITE_SPACE: Final = re.compile("[\\t-\\r \\x85\\u2028\\u2029]+")

#: An apostrophe within a word, such as ResNet-18's.
_APOSTROPHE: Final = re.compile(r"(?<=\w)'(?=[^\W\d_])")
#: Characters that are markup in Markdown.
_MARKDOWN: Final = re.compile(r"[\\`*_{}\[\]<>#|@$^~&'\"]")
#: First characters of sequences that pandoc would replace by dashes or an ellipsis.
_SMART_PUNCTUATION: Final = re.compile(r"-(?=-)|\.(?=\.\.)")
#: Beginning of a text that Markdown would read as a list, a definition or a caption.  Group 2 or 4
#: is the character to escape.
_BLOCK_START: Final = re.compile(r"^(\(?[0-9A-Za-z]*)([-+.)])(?=\s|$)|^(Table|)(:)")

_STYLE_FILE: Final = Path(__file__).resolve().parents[3] / "templates" / "latex" / "ridgepoint.sty"
_DECLARATION: Final = re.compile(r"\\DeclareUnicodeCharacter\{([0-9A-F]+)\}")
#: Characters beyond ASCII in LaTeX's T1 or TS1 encoding; the second line lists eight exceptions.
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
#: Second character of pairs that LaTeX would join to one: -- and '' and ,,
_SECOND_OF_PAIR: Final = re.compile(r"(?<=-)-|(?<=')'|(?<=,),")

#: Character for a ligature (as in text copied from a PDF) → its letters.
_LIGATURES: Final = str.maketrans({
    ligature: unicodedata.normalize("NFKC", ligature) for ligature in "ﬀﬁﬂﬃﬄﬅﬆ"
})  # fmt: skip

#: A comment at the start of a line, or right after an entry of a bibliography.
_COMMENT: Final = re.compile(r"(?:^|\})[ \t]*%.*", re.MULTILINE)
#: A formula in a title; BibTeX would convert its letters to lower case.
_FORMULA: Final = re.compile(r"(?<![\\{])\$(?:[^$\\{}]|\\.|\{[^{}]*\})+\$")
#: Code points in guillemets (group 1), or a character beyond ASCII (group 2).
_BEYOND_ASCII: Final = re.compile("‹([^›]*)›|([^\\x00-\\x7f])")

#: A word that may not fit into a narrow column.
_LONG_WORD: Final = re.compile(r"\S{21,}")
#: Text in a long word after which a line may break: signs, or 12 letters and digits without a sign.
_BREAK_AFTER: Final = re.compile(r"(?:[^\W_]{12}(?=[^\W_]{4})|[_:./;=+@\\-]+(?=[^\W_]))", re.ASCII)


def with_apostrophes(text: str) -> str:
    """Replace straight apostrophes within words by curly ones, which pandoc prints in prose."""
    return _APOSTROPHE.sub("’", text)


def markdown(text: str) -> str:
    """Escape plain text for Quarto markdown (a sentence, a paragraph or a cell of a table)."""
    escaped = _MARKDOWN.sub(r"\\\g<0>", with_apostrophes(_WHITE_SPACE.sub(" ", text)))
    escaped = _SMART_PUNCTUATION.sub(r"\\\g<0>", escaped)
    return _BLOCK_START.sub(r"\1\3\\\2\4", escaped)


def latex(text: str) -> str:
    """Escape plain text for LaTeX with ``ridgepoint.sty``: a sentence, or a cell of a table."""
    line = latex_source(_WHITE_SPACE.sub(" ", text))
    # A zero-width space at each break point of a long word.
    breakable = _LONG_WORD.sub(lambda word: _BREAK_AFTER.sub("\\g<0>\u200b", word[0]), line)
    escaped = _SECOND_OF_PAIR.sub(r"{}\g<0>", breakable.translate(_LATEX))
    # After «\\» at the end of the previous row, LaTeX reads a bracket or a star as an argument.
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def latex_source(text: str) -> str:
    """Replace characters that pdfLaTeX cannot print by code points; keep LaTeX markup."""
    composed = unicodedata.normalize("NFC", text)
    return escape_unprintable(composed.translate(_LIGATURES), _is_printed_by_latex)


def bibtex(text: str) -> str:
    """Rewrite a bibliography so that BibTeX prints all characters as they are written.

    A letter beyond ASCII becomes a command in braces, which BibTeX counts as one letter.  Otherwise
    BibTeX would cut the letter's bytes apart when it shortens a name.  Comments lose every @, since
    BibTeX begins an entry at @ even after a %.  Formulas get braces, so that BibTeX does not change
    their letters.
    """
    rewritten = _COMMENT.sub(lambda comment: comment[0].replace("@", ""), latex_source(text))
    rewritten = _FORMULA.sub(r"{\g<0>}", rewritten)
    return _BEYOND_ASCII.sub(_bibtex_command, rewritten)


def _bibtex_command(match: re.Match[str]) -> str:
    """Write code points in guillemets, or a character beyond ASCII, as a BibTeX command."""
    code_points, char = match.groups()
    if not code_points:
        return rf"{{\relax {char}}}"
    # Two pairs of braces, so that BibTeX neither shortens names nor converts titles to lower case.
    return rf"{{{{\guilsinglleft {code_points}\guilsinglright}}}}"


def math_text(text: str) -> str:
    """Write a printed number for TeX math: ``21,233,664`` becomes ``21{,}233{,}664``."""
    number, _, unit = text.partition(NO_BREAK)
    body = number.replace(",", "{,}").replace(MINUS, "-")
    return rf"{body}\,\text{{{latex(unit)}}}" if unit else body


@cache
def _declared_in_style() -> frozenset[str]:
    """Return the characters that ``ridgepoint.sty`` declares."""
    codes = _DECLARATION.findall(_STYLE_FILE.read_text("utf-8"))
    return frozenset(chr(int(code, 16)) for code in codes)


def _is_printed_by_latex(char: str) -> bool:
    """Tell whether pdfLaTeX has a glyph for a character."""
    return char.isascii() or _KNOWN_TO_LATEX.match(char) is not None or char in _declared_in_style()
