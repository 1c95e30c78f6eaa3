"""Any text is printed as it stands: by pandoc from markdown, and by LaTeX."""

from __future__ import annotations

import csv
import re
import unicodedata

import pypandoc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from report.system.spreadsheet import csv_of
from report.text.escape import latex, markdown, math_text
from report.text.format import MINUS, NO_BREAK

#: Characters that mean something to pandoc or LaTeX, beside ordinary ones.
RISKY = "\\`*_{}[]()<>#|@$^~'\"&%!-+=:;.,?/1aA \n\t"
TEXT = st.text(
    st.sampled_from(RISKY) | st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=40
)
SEPARATOR = "ENDOFONETEXT"


def squeezed(text: str) -> str:
    return re.sub(r"[\t-\r \x85\u2028\u2029]+", " ", text).strip(" ")


def plain_texts(blocks: list[str]) -> list[str]:
    """Each markdown paragraph as pandoc's plain text, all in one run of pandoc."""
    # A separator first: the first line of a document may be its title.
    document = f"\n\n{SEPARATOR}\n\n".join(["", *blocks])
    shown = pypandoc.convert_text(
        document, "plain", format="markdown+smart", extra_args=["--wrap=none"]
    )
    return [part.strip("\n") for part in shown.split(SEPARATOR)[1:]]


@settings(max_examples=12, deadline=None)
@given(st.lists(TEXT.filter(squeezed), min_size=12, max_size=12))
@example(["1. one", "- two", "a) b", "(ii) c", ": d", "Table: e", "% f", "# g", "+ h", "--- i"])
@example(['it\'s "so"', "a...b--c---d", "&copy; &#65;", "x^2^ H~2~O", "~~no~~", "[a](b)", "<b>"])
@example(["@key", "a@b.c", "https://x.y/z", "$x$ and $y$", "\\(z\\)", "{{< meta x >}}", "![a](b)"])
@example(["===", "***", "- - -", "| a | b |", "    code", "= x", "\\", "[^1]: note", "[a]: b"])
def test_pandoc_prints_escaped_text_as_it_stands(texts: list[str]) -> None:
    shown = plain_texts([markdown(squeezed(text)) for text in texts])
    assert shown == [squeezed(text) for text in texts]


@given(TEXT)
def test_escaped_text_is_one_line(text: str) -> None:
    assert "\n" not in markdown(text)
    assert "\n" not in latex(text)


_COMMAND = re.compile(
    r"\\(?:[&%$#_{},]|text[a-z]+\{\}|textsuperscript\{[\dT]\}|hspace\{0pt\}|mbox\{-\}"
    r"|ensuremath\{(?:-|\^\{-\}|\\[A-Za-z]+)\})"
)


@given(TEXT)
@example("".join(map(chr, range(0x20, 0x250))))
@example("漢字 🙂 \u0301 ﬁ Ⅳ ᵀ")
def test_latex_has_no_raw_special_character(text: str) -> None:
    rest = _COMMAND.sub("", latex(text)).replace("{}", "")
    assert not set(rest) & set('\\&%$#_{}^<>`"')
    for char in set(rest) - {"~"}:
        assert char.isascii() or unicodedata.name(char).startswith("LATIN") or ord(char) < 0x2200


def test_latex_keeps_signs_apart() -> None:
    assert latex("log₂ n") == r"log\textsubscript{2} n"
    assert latex("a--b") == "a-{}-b"
    assert latex("a---b") == "a-{}-{}-b"
    assert latex("''") == "'{}'"
    assert latex("[1, 2]") == "{}[1, 2]"
    assert latex("*") == "{}*"
    assert latex("漢") == "‹U+6F22›"
    assert latex("ﬁ") == "fi"


@pytest.mark.parametrize(
    ("text", "math"),
    [
        ("21,233,664", "21{,}233{,}664"),
        (f"73,984{NO_BREAK}B", r"73{,}984\,\text{B}"),
        (f"{MINUS}5{NO_BREAK}%", r"-5\,\text{\%}"),
        (f"2.5{NO_BREAK}µs", r"2.5\,\text{\ensuremath{\mu}s}"),
    ],
)
def test_numbers_in_math(text: str, math: str) -> None:
    assert math_text(text) == math


@pytest.mark.parametrize("text", ["=cmd|", "+1", "-1", "@SUM", "\tx"])
def test_a_spreadsheet_computes_no_cell(text: str) -> None:
    assert next(csv.reader([csv_of([[text]]).rstrip("\n")])) == [f"'{text}"]
    assert csv_of([[-1, None, "a=1"]]) == "-1,,a=1\n", "numbers and other texts stay as they are"
