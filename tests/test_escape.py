"""Any text is printed as it stands: by pandoc from markdown, and by LaTeX."""

from __future__ import annotations

import csv
import re

import pypandoc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from report.system.spreadsheet import csv_of
from report.text.escape import bibtex, latex, latex_source, markdown, math_text
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


_COMMAND = re.compile(r"\\(?:[&%$#_{},]|text[a-z]+\{\}|hspace\{0pt\})")


@given(TEXT)
@example("".join(map(chr, range(0x20, 0x250))))
@example("漢字 🙂 \u0301 ﬁ Ⅳ ᵀ ﬀ")
def test_latex_is_a_line_without_a_raw_special_or_unknown_character(text: str) -> None:
    escaped = latex(text)
    assert "\n" not in markdown(text) + escaped
    rest = _COMMAND.sub("", escaped).replace("{}", "")
    assert not set(rest) & set('\\&%$#_{}^<>`"')
    assert latex_source(rest) == rest


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("log₂ n ≥ 3×µ", "log₂ n ≥ 3×µ"),
        ("a--b", "a-{}-b"),
        ("a---b", "a-{}-{}-b"),
        ("''", "'{}'"),
        ("[1, 2]", "{}[1, 2]"),
        ("*", "{}*"),
        ("漢", "‹U+6F22›"),
        ("ﬁ", "fi"),
        ("m" * 30, rf"{'m' * 12}\hspace{{0pt}}{'m' * 12}\hspace{{0pt}}{'m' * 6}"),
        (
            "a_name/of/several/parts",
            r"a\_\hspace{0pt}name/\hspace{0pt}of/\hspace{0pt}several/\hspace{0pt}parts",
        ),
    ],
)
def test_latex_keeps_signs_apart_and_breaks_long_words(text: str, escaped: str) -> None:
    assert latex(text) == escaped


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Müller, Ł. and Ñandú", r"M{\"{u}}ller, {\L}. and {\~{N}}and{\'{u}}"),
        ("龙", r"{{\guilsinglleft U+9F99\guilsinglright}}"),
        ("2 × 3", "2 {×} 3"),
    ],
)
def test_bibtex_can_cut_no_letter_in_two(text: str, written: str) -> None:
    assert bibtex(text) == written


@pytest.mark.parametrize(
    ("text", "math"),
    [
        ("21,233,664", "21{,}233{,}664"),
        (f"73,984{NO_BREAK}B", r"73{,}984\,\text{B}"),
        (f"{MINUS}5{NO_BREAK}%", r"-5\,\text{\%}"),
        (f"2.5{NO_BREAK}µs", r"2.5\,\text{µs}"),
    ],
)
def test_numbers_in_math(text: str, math: str) -> None:
    assert math_text(text) == math


@pytest.mark.parametrize("text", ["=cmd|", "+1", "-1", "@SUM", "\tx"])
def test_a_spreadsheet_computes_no_cell(text: str) -> None:
    assert next(csv.reader([csv_of([[text]]).rstrip("\n")])) == [f"'{text}"]
    assert csv_of([[-1, None, "a=1"]]) == "-1,,a=1\n", "numbers and other texts stay as they are"
