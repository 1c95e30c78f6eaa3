"""Plain text into the markup of each output, so that it is printed as it stands.

Text comes from records and published tables: names of devices, reasons of failures.  Nobody vouches
for its characters, so that every one is either printed or named by its number, and none is taken
for markup.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final, Literal, TypeAlias

from report.format import MINUS, MISSING, NO_BREAK

Format: TypeAlias = Literal["markdown", "latex"]

#: White space, other than the spaces that do not break, and control characters.
_BREAKS: Final = re.compile("[\\x00-\\x20\\x7f-\\x9f\\u2028\\u2029]+")

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
_GREEK: Final = {
    "ΓΔΘΛΞΠΣΦΨΩ": "Gamma Delta Theta Lambda Xi Pi Sigma Phi Psi Omega",
    "αβγδεζηθικλμ": "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu",
    "νξπρστυφχψω": "nu xi pi rho sigma tau upsilon phi chi psi omega",
}
_LATEX: Final = (
    {
        "\\": r"\textbackslash{}",
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "`": r"\textasciigrave{}",
        '"': r"\textquotedbl{}",
        NO_BREAK: "~",
        MINUS: r"\ensuremath{-}",
        MISSING: "---",
        "×": r"\ensuremath{\times}",
        "·": r"\ensuremath{\cdot}",
        "µ": r"\ensuremath{\mu}",
        "±": r"\ensuremath{\pm}",
        "≈": r"\ensuremath{\approx}",
        "≠": r"\ensuremath{\neq}",
        "→": r"\ensuremath{\to}",
        "≤": r"\ensuremath{\le}",
        "≥": r"\ensuremath{\ge}",
        "√": r"\ensuremath{\surd}",
        "∞": r"\ensuremath{\infty}",
        "–": "--",
    }
    | {digit: rf"\textsuperscript{{{value}}}" for value, digit in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")}
    | {
        letter: rf"\ensuremath{{\{name}}}"
        for letters, names in _GREEK.items()
        for letter, name in zip(letters, names.split(), strict=True)
    }
)


def escape(text: str, output: Format) -> str:
    """Escape plain text for ``output``."""
    return latex(text) if output == "latex" else markdown(text)


def markdown(text: str) -> str:
    """Escape plain text for Quarto markdown: a sentence, a paragraph or a cell of a pipe table."""
    marked = _MARKUP.sub(r"\\\g<0>", _one_line(text))
    return _BLOCK.sub(r"\1\3\\\2\4", _SMART.sub(r"\\\g<0>", marked))


def latex(text: str) -> str:
    """Escape plain text for LaTeX, of any class with T1 fonts; a cell of a ``tabular`` too."""
    line = _one_line(text)
    # «\\» that ends the row before would take a bracket or a star for its argument.
    pieces = ["{}"] if line.startswith(("[", "*")) else []
    for index, char in enumerate(line):
        # -- and '' and ,, would become other signs.
        pieces.append("{}" if char in "-'," and line[:index].endswith(char) else "")
        pieces.append(_LATEX.get(char) or _in_latex(char))
    return "".join(pieces)


def math_text(text: str) -> str:
    """A printed number for use inside TeX math: ``21,233,664`` becomes ``21{,}233{,}664``."""
    number, _, unit = text.partition(NO_BREAK)
    body = number.replace(",", "{,}").replace(MINUS, "-")
    return rf"{body}\,\text{{{latex(unit)}}}" if unit else body


def _in_latex(char: str) -> str:
    """A character without a command of its own; what no font holds is named by its number."""
    if char.isascii() or _KNOWN_TO_LATEX.match(char):
        return char
    simple = unicodedata.normalize("NFKD", char)
    if simple != char and simple.isascii():
        return latex(simple)
    return f"{{[}}U+{ord(char):04X}{{]}}"


def _one_line(text: str) -> str:
    return _BREAKS.sub(" ", text)
