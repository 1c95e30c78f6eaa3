"""Plain text into the markup of each output, so that it is printed as it stands.

Text comes from records and published tables: names of devices, reasons of failures.  Nobody vouches
for its characters, so that every one is either printed or shown as its code point, ``‹U+9F99›``,
and none is taken for markup.  pdfLaTeX prints Latin, Greek and what ``ridgepoint.sty`` declares; of
all other text its edition shows the code points, where HTML and Typst print the characters.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from pathlib import Path
from typing import Final

from figures.characters import printable
from report.core.text.format import MINUS, NO_BREAK

#: White space, other than the spaces that do not break.
_BREAKS: Final = re.compile("[\\t-\\r \\x85\\u2028\\u2029]+")

_MARKUP: Final = re.compile(r"[\\`*_{}\[\]<>#|@$^~&'\"]")
#: Runs that smart punctuation would turn into dashes and an ellipsis.
_SMART: Final = re.compile(r"-(?=-)|\.(?=\.\.)")
#: What begins a list, a definition or a caption at the start of a block.
_BLOCK: Final = re.compile(r"^(\(?[0-9A-Za-z]*)([-+.)])(?=\s|$)|^(Table|)(:)")

_STYLE: Final = Path(__file__).resolve().parents[3] / "templates" / "latex" / "ridgepoint.sty"
_DECLARED: Final = re.compile(r"\\DeclareUnicodeCharacter\{([0-9A-F]+)\}")
#: Characters beyond ASCII that LaTeX's T1 and TS1 encodings hold.
_KNOWN_TO_LATEX: Final = re.compile(
    "[\\xa1-\\xac\\xae-\\u017e–—‘’‚“”„†‡•…‰‹›€™]"
    "(?<![\\u0126\\u0127\\u0138\\u013f\\u0140\\u0149\\u0166\\u0167])"
)
#: What LaTeX takes for markup, or would not show.
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
#: What would become another sign behind its like: -- and '' and ,,
_DOUBLED: Final = re.compile(r"(?<=-)-|(?<=')'|(?<=,),")

#: Ligatures, as text that was copied from a PDF has them.
_LIGATURES: Final = re.compile("[\ufb00-\ufb06]")

#: A comment before, between or right behind the entries of a bibliography.
_COMMENT: Final = re.compile(r"(?:^|\})[ \t]*%.*", re.MULTILINE)
#: A formula of a title, whose letters BibTeX would make small.
_FORMULA: Final = re.compile(r"(?<![\\{])\$(?:[^$\\{}]|\\.|\{[^{}]*\})+\$")
#: Code points, and all but ASCII.
_BEYOND_ASCII: Final = re.compile("‹([^›]*)›|([^\\x00-\\x7f])")

#: A word that may break in a narrow column: after a sign, else after a few letters.
_LONG_WORD: Final = re.compile(r"\S{21,}")
_BREAK_AFTER: Final = re.compile(r"(?:[^\W_]{12}(?=[^\W_]{4})|[_:./;=+@\\-]+(?=[^\W_]))", re.ASCII)


def markdown(text: str) -> str:
    """Escape plain text for Quarto markdown: a sentence, a paragraph or a cell of a pipe table."""
    marked = _MARKUP.sub(r"\\\g<0>", _one_line(text))
    return _BLOCK.sub(r"\1\3\\\2\4", _SMART.sub(r"\\\g<0>", marked))


def latex(text: str) -> str:
    """Escape plain text for LaTeX with ``ridgepoint.sty``; a cell of a ``tabular`` too."""
    line = latex_source(_one_line(text))
    breaking = _LONG_WORD.sub(lambda word: _BREAK_AFTER.sub("\\g<0>\u200b", word.group()), line)
    escaped = _DOUBLED.sub(r"{}\g<0>", breaking.translate(_LATEX))
    # «\\» that ends the row before would take a bracket or a star for its argument.
    return f"{{}}{escaped}" if escaped.startswith(("[", "*")) else escaped


def latex_source(text: str) -> str:
    """``text``, of any markup, in characters that pdfLaTeX prints; others are code points."""
    composed = unicodedata.normalize("NFC", text)
    separate = _LIGATURES.sub(lambda match: unicodedata.normalize("NFKC", match[0]), composed)
    return printable(separate, _in_latex)


def bibtex(text: str) -> str:
    """A bibliography in which each letter beyond ASCII is one to BibTeX, and each sign in braces.

    BibTeX takes bytes for letters, and would cut one in two where it shortens a name; what follows
    a command in braces it takes for one letter.  To BibTeX each @ begins an entry, also behind a %.
    """
    without = _COMMENT.sub(lambda line: line[0].replace("@", ""), latex_source(text))
    without = _FORMULA.sub(r"{\g<0>}", without)
    return _BEYOND_ASCII.sub(_in_bibtex, without)


def _in_bibtex(match: re.Match[str]) -> str:
    points, char = match.groups()
    # Twice in braces, so that neither names are shortened nor titles set in lower case.
    return rf"{{{{\guilsinglleft {points}\guilsinglright}}}}" if points else rf"{{\relax {char}}}"


def math_text(text: str) -> str:
    """A printed number for use inside TeX math: ``21,233,664`` becomes ``21{,}233{,}664``."""
    number, _, unit = text.partition(NO_BREAK)
    body = number.replace(",", "{,}").replace(MINUS, "-")
    return rf"{body}\,\text{{{latex(unit)}}}" if unit else body


@cache
def _declared() -> frozenset[str]:
    """The characters that ``ridgepoint.sty`` declares."""
    return frozenset(chr(int(code, 16)) for code in _DECLARED.findall(_STYLE.read_text("utf-8")))


def _in_latex(char: str) -> bool:
    return char.isascii() or _KNOWN_TO_LATEX.match(char) is not None or char in _declared()


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text)
