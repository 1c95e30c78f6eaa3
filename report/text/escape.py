"""Plain text into the markup of each output, so that it is printed as it stands.

Text comes from records and published tables: names of devices, reasons of failures.  Nobody vouches
for its characters, so that every one is either printed or shown as its code point, ``‹U+9F99›``,
and none is taken for markup.  pdfLaTeX prints Latin, Greek and what ``ridgepoint.sty`` declares; of
all other text its edition shows the code points, where HTML and Typst print the characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Final

from figures.characters import printable
from report.text.format import MINUS, MISSING, NO_BREAK

#: White space, other than the spaces that do not break.
_BREAKS: Final = re.compile("[\\t-\\r \\x85\\u2028\\u2029]+")

_MARKUP: Final = re.compile(r"[\\`*_{}\[\]<>#|@$^~&'\"]")
#: Runs that smart punctuation would turn into dashes and an ellipsis.
_SMART: Final = re.compile(r"-(?=-)|\.(?=\.\.)")
#: What begins a list, a definition or a caption at the start of a block.
_BLOCK: Final = re.compile(r"^(\(?[0-9A-Za-z]*)([-+.)])(?=\s|$)|^(Table|)(:)")

#: Characters beyond ASCII that LaTeX's T1 and TS1 encodings hold.
_KNOWN_TO_LATEX: Final = re.compile(
    "[\\xa1-\\xac\\xae-\\u017e‘’‚“”„†‡•…‰‹›€™]"
    "(?<![\\u0126\\u0127\\u0138\\u013f\\u0140\\u0149\\u0166\\u0167])"
)


def _each(groups: Mapping[str, str]) -> dict[str, str]:
    """Every character of the keys with its word of the value."""
    return {
        char: word
        for chars, words in groups.items()
        for char, word in zip(chars, words.split(), strict=True)
    }


#: Those beyond ASCII are declared in ridgepoint.sty too, for text that pandoc passes on.
_LATEX: Final = {
    **{char: rf"\{char}" for char in "&%$#_{}"},
    **{
        char: rf"\text{name}{{}}"
        for char, name in _each({
            "\\~^<>": "backslash asciitilde asciicircum less greater",
            '`"': "asciigrave quotedbl",
        }).items()
    },
    **{
        char: rf"\ensuremath{{\{name}}}"
        for char, name in _each({
            "ΓΔΘΛΞΠΣΦΨΩ": "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega",
            "αβγδεζηθικλμ": "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu",
            "νξπρστυφχψω": "nu xi pi rho sigma tau upsilon phi chi psi omega",
            "×·µ±≈≠→≤≥√": "times cdot mu pm approx neq to le ge surd",
            "←⇒∈≪≫∞": "leftarrow Rightarrow in ll gg infty",
        }).items()
    },
    **{digit: rf"\textsuperscript{{{value}}}" for value, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")},
    **{digit: rf"\textsubscript{{{value}}}" for value, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
    "ᵀ": r"\textsuperscript{T}",
    NO_BREAK: "~",
    MINUS: r"\ensuremath{-}",
    "⁻": r"\ensuremath{^{-}}",
    MISSING: "---",
    "–": "--",
    "\N{ZERO WIDTH SPACE}": r"\hspace{0pt}",
    "\N{NON-BREAKING HYPHEN}": r"\mbox{-}",
    "\N{THIN SPACE}": r"\,",
    "\N{NARROW NO-BREAK SPACE}": r"\,",
}  # fmt: skip

#: How a compatible character may differ from the one that is printed for it.
_SAME: Final = ("<compat>", "<font>", "<narrow>", "<wide>")

_BEYOND_ASCII: Final = re.compile("‹[^›]*›|[^\\x00-\\x7f]")
_ACCENTS: Final = _each(
    {
        "\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308": "` ' ^ ~ = u . \"",
        "\u030a\u030b\u030c\u0323\u0327\u0328": "r H v d c k",
    }
)
_LETTERS: Final = _each(
    {
        "ßæÆœŒøØłŁ": "ss ae AE oe OE o O l L",
        "đĐðÐþÞıŋŊ": "dj DJ dh DH th TH i ng NG",
    }
)

#: A word that may break in a narrow column: after a sign, else after a few letters.
_LONG_WORD: Final = re.compile(r"\S{21,}")
_BREAK_AFTER: Final = re.compile(r"[^\W_]{12}(?=[^\W_]{4})|[_:./;=+@\\-]+(?=[^\W_])", re.ASCII)


def markdown(text: str) -> str:
    """Escape plain text for Quarto markdown: a sentence, a paragraph or a cell of a pipe table."""
    marked = _MARKUP.sub(r"\\\g<0>", _one_line(text))
    return _BLOCK.sub(r"\1\3\\\2\4", _SMART.sub(r"\\\g<0>", marked))


def latex(text: str) -> str:
    """Escape plain text for LaTeX, of any class with T1 fonts; a cell of a ``tabular`` too."""
    line = latex_source(_one_line(text))
    # «\\» that ends the row before would take a bracket or a star for its argument.
    pieces = ["{}"] if line.startswith(("[", "*")) else []
    ends = _word_breaks(line)
    for index, char in enumerate(line):
        # -- and '' and ,, would become other signs.
        pieces.append("{}" if char in "-'," and line[:index].endswith(char) else "")
        pieces.append(_LATEX.get(char, char))
        pieces.append(r"\hspace{0pt}" if index + 1 in ends else "")
    return "".join(pieces)


def latex_source(text: str) -> str:
    """``text``, of any markup, in characters that pdfLaTeX prints; others are code points."""
    composed = unicodedata.normalize("NFC", text)
    known = (char if _in_latex(char) else _simple(char) for char in composed)
    return printable("".join(known), _in_latex)


def bibtex(text: str) -> str:
    """A bibliography in ASCII and the commands of LaTeX.

    BibTeX takes bytes for letters, and would cut one in two where it shortens a name.
    """
    return _BEYOND_ASCII.sub(lambda match: _in_bibtex(match.group()), latex_source(text))


def _in_bibtex(text: str) -> str:
    if text in _LETTERS:
        return rf"{{\{_LETTERS[text]}}}"
    if text.startswith("‹"):
        # Twice in braces, so that neither names are shortened nor titles set in lower case.
        return rf"{{{{\guilsinglleft {text[1:-1]}\guilsinglright}}}}"
    base, mark = (*unicodedata.normalize("NFD", text), "")[:2]
    if mark in _ACCENTS:
        return rf"{{\{_ACCENTS[mark]}{{{base}}}}}"
    return f"{{{_LATEX[text]}}}" if text in _LATEX else text


def math_text(text: str) -> str:
    """A printed number for use inside TeX math: ``21,233,664`` becomes ``21{,}233{,}664``."""
    number, _, unit = text.partition(NO_BREAK)
    body = number.replace(",", "{,}").replace(MINUS, "-")
    return rf"{body}\,\text{{{latex(unit)}}}" if unit else body


def _in_latex(char: str) -> bool:
    return char.isascii() or char in _LATEX or _KNOWN_TO_LATEX.match(char) is not None


def _simple(char: str) -> str:
    """Letters and digits of which ``char`` is another form, such as a ligature; else itself."""
    form = unicodedata.decomposition(char).partition(" ")[0]
    simple = unicodedata.normalize("NFKD", char)
    return simple if form in _SAME and simple.isascii() and simple.isalnum() else char


def _word_breaks(line: str) -> frozenset[int]:
    """Where a line may break within words that are too long for a column."""
    return frozenset(
        word.start() + place.end()
        for word in _LONG_WORD.finditer(line)
        for place in _BREAK_AFTER.finditer(word.group())
    )


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text)
