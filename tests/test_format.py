"""Printed numbers, tables and texts: digits within the known precision, and escaped markup."""

import csv
import html
import math
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pypandoc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.reported import Devices
from report.core.statistics.estimates import Estimate
from report.core.system.spreadsheet import csv_of
from report.core.text import format as text_format
from report.core.text.escape import (
    bibtex,
    latex,
    latex_source,
    markdown,
    math_text,
    with_apostrophes,
)
from report.core.text.format import MINUS, MISSING, NO_BREAK, first_names, quantity_text
from report.paper.details import details
from report.paper.findings import Inputs
from report.paper.latex_table import to_latex
from report.paper.manuscript import provenance
from report.paper.tables import Column, Table, table_of, to_csv, to_markdown
from report.paper.values import NOT_MEASURED, Value, declare
from report.quantity.expression import exact_number, measured_series
from report.quantity.intervals import Process
from tests.papers import reported

PREFIXES = {"n": -9, "µ": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
NUMBERS = st.floats(1e-12, 1e15)
SIGNED_NUMBERS = st.builds(lambda size, sign: size * sign, NUMBERS, st.sampled_from([-1, 1]))


@st.composite
def estimates(draw: st.DrawFn) -> Estimate:
    """Draw a number with an asymmetric interval at one of several confidence levels."""
    value = draw(SIGNED_NUMBERS | st.just(0.0))
    below, above = (draw(st.floats(1e-6, 10)) * (abs(value) or 1.0) for _ in range(2))
    level = draw(st.sampled_from((0.25, 0.5, 0.75, 0.95)))
    return Estimate(value, value - below, value + above, n=30, confidence=level)


def number_in(text: str) -> Fraction:
    """Return the exact number that a text prints."""
    return Fraction(text.replace(",", "").replace(MINUS, "-"))


@given(SIGNED_NUMBERS, st.integers(-3, 8))
@example(-1234.5, 1)
@example(1250, -2)
@example(-0.001, 2)
@example(999.96, 1)
def test_printed_numbers_are_off_by_at_most_half_a_digit(number: float, decimals: int) -> None:
    last_digit, text = Fraction(10) ** -decimals, text_format.format_digits(number, decimals)
    assert abs(number_in(text) - Fraction(number)) <= last_digit / 2 * (1 + Fraction(1, 10**9))
    assert text.startswith(MINUS) == (number < 0 and number_in(text) != 0)
    assert len(text.partition(".")[2]) == max(decimals, 0)
    # Four digits: a number is off by at most 0.05 %, and a little for the error of a float.
    error = abs(number_in(text_format.plain_number(number)) - Fraction(number))
    assert error <= abs(Fraction(number)) * 51 / 10**5


@pytest.mark.parametrize(("interval", "decimals", "rounded"), [
    ((1.254, 1.254), 1, (1.2, 1.3)), ((1.1, 1.3), 1, (1.1, 1.3)), ((0.1 + 0.2, 3.0), 1, (0.3, 3)),
    ((-1.26, -0.01), 1, (-1.3, 0)), ((1234, 1266), -1, (1230, 1270)),
    ((0, math.inf), 2, (0, math.inf)),
])  # fmt: skip
def test_rounded_bounds_contain_the_interval(
    interval: tuple[float, float], decimals: int, rounded: tuple[float, float]
) -> None:
    assert text_format.round_outward(*interval, decimals) == pytest.approx(rounded)


@given(st.integers(-(10**18), 10**18))
def test_whole_numbers_are_printed_in_full(number: int) -> None:
    assert number_in(text_format.plain_number(number)) == number
    assert re.fullmatch(rf"{MINUS}?\d{{1,3}}(,\d{{3}})*", text_format.plain_number(number))


def test_nan_and_infinity_are_never_printed() -> None:
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(ValueError, match="cannot be printed"):
            text_format.plain_number(number)


@given(estimates())
def test_a_number_and_its_interval_have_the_same_decimals(estimate: Estimate) -> None:
    number, bounds, _, level = text_format.printed_parts(
        estimate, text_format.scale_for(estimate, "s")
    )
    low, high = bounds.removeprefix("[").removesuffix("]").split(", ")
    assert bool(level) == (estimate.confidence < 0.95)
    assert number_in(low) <= number_in(number) <= number_in(high)
    assert len({len(text.partition(".")[2]) for text in (number, low, high)}) == 1
    last_digit = 10.0 ** -text_format.decimals_of(estimate)
    # Half of the interval's width has at most two digits, or one if it begins with more than 3.55.
    assert last_digit >= (estimate.high - estimate.low) / 2 / 35.51
    if estimate.value:
        leading_digit = 10.0 ** math.floor(math.log10(abs(estimate.value)))
        assert last_digit >= leading_digit / 10**text_format.SIGNIFICANT_DIGITS


@given(NUMBERS, st.sampled_from(["s", "B", "FLOP", "MAC", "FLOP/s", "B/s"]))
@example(999.95e3, "B")
@example(999.949e3, "B")
@example(1000.0, "B")
@example(0.00099996, "s")
@example(1e-6, "s")
def test_prefixes_make_numbers_between_1_and_1000(number: float, unit: str) -> None:
    digits, _, unit_with_prefix = quantity_text(number, unit).partition(NO_BREAK)
    prefix = unit_with_prefix.removesuffix(unit)
    size = number_in(digits) * Fraction(10) ** PREFIXES[prefix]
    assert abs(size - Fraction(number)) <= Fraction(number) * Fraction(51, 10**5)
    assert number_in(digits) < 1000 or prefix == "P"
    assert number_in(digits) >= 1 or prefix == ("n" if unit == "s" else "")


def around(value: float, half_width: float) -> Estimate:
    """Return a value with a symmetric interval."""
    return Estimate(value, value - half_width, value + half_width, n=30, confidence=0.95)


@pytest.mark.parametrize(("number", "unit", "style", "text"), [
    (0, "B", "measured", "0 B"),
    (0.0, "s", "measured", "0 s"),
    (21_233_664, "FLOP", "measured", "21.23 MFLOP"),
    (-5_537_792, "B", "measured", f"{MINUS}5.538 MB"),
    (1e-12, "s", "measured", "0.001 ns"),
    (1e20, "B", "measured", "100,000 PB"),
    (10.6e6, "1/s", "measured", "10.6 million a second"),
    (1107.0, "1/s", "measured", "1,107 a second"),
    (-999.96e6, "image", "measured", f"{MINUS}1 billion image"),
    (2_949_120, "1", "measured", "2,949,120"),
    (12_345.0, "FLOP/B", "measured", "12,340 FLOP/B"),
    # The interval determines the digits; an interval wider than the number determines the prefix.
    (around(0.8271, 0.1191), "s", "measured", "830 ms"),
    (around(12.3456, 0.2), "s", "measured", "12.35 s"),
    (around(12.3456, 0.4), "s", "measured", "12.3 s"),
    (around(12.3456, 40.0), "s", "measured", "10 s"),
    (around(12.3456, 1e-9), "s", "measured", "12.35 s"),  # at most four digits
    (around(0.0, 2e-6), "s", "measured", "0.0 µs"),
    (around(1e-9, 1e-3), "s", "measured", "0.0 ms"),
    (around(1.0, 1e300), "s", "measured", "0 Ps"),
    # An interval without a width belongs to an exact number.
    (around(5_308_416.0, 0.0), "1", "measured", "5,308,416"),
    (around(1.5, 0.0), "1", "measured", "1.500"),
])  # fmt: skip
def test_quantities_have_a_unit(number: float | Estimate, unit: str, style: Any, text: str) -> None:
    assert quantity_text(number, unit, style) == text.replace(" ", NO_BREAK)


ESTIMATE = Estimate(0.0125, low=0.012, high=0.013, n=30, confidence=0.95)
MISSING_VALUE = Value("gone", "Gone", Missing("no run is in the data directory"), "B", "median")


# ``texts``: the value's forms plain, about, bare and interval, separated by |.
@pytest.mark.parametrize(("number", "unit", "style", "texts"), [
    (ESTIMATE, "s", "measured", "12.5 ms|13 ms|12.5|12.5 [12.0, 13.0] ms"),
    (21_233_664, "FLOP", "exact", "21,233,664 FLOP|21,233,664 FLOP|21,233,664|21,233,664 FLOP"),
    (0.01541, "1", "percent", "1.541 %|1.5 %|1.541|1.541 %"),
    (MISSING_VALUE.number, "B", "measured", "|".join([NOT_MEASURED] * 4)),
    (1.06e7, "1/s", "measured", "10.6 million a second|11 million a second|10,600,000|"
     "10.6 million a second"),
    # The interval determines the digits, and is printed with a level below 95 %, but not with
    # the level 0.
    (Estimate(147456.5, 1e5, 2e5, n=5, confidence=0.95), "B", "exact",
     "150,000 B|150,000 B|150,000|150,000 [100,000, 200,000] B"),
    (Estimate(0.5, 0.45, 0.55, n=9, confidence=0.9), "1", "percent",
     "50 %|50 %|50|50 [45, 55] % (at 90 %)"),
    (Estimate(41.4, 38.9, 44.0, n=2, confidence=0.5), "1", "measured",
     "41.4|41|41.4|41.4 [38.9, 44.0] (at 50 %)"),
    (Estimate(41.4, 38.9, 44.0, n=2, confidence=0.0), "1", "measured", "41.4|41|41.4|41.4"),
    # A range of assumptions (n = 0) is printed in parentheses.
    (Estimate(1.97, 1.44, 2.43, n=0, confidence=1.0), "1", "measured",
     "2.0|2|2.0|2.0 (1.4 to 2.4)"),
    (Estimate(2.0, 1.0, 3.0, n=9, confidence=0.0, bimodal=True), "s", "measured",
     "1.0 to 3.0 s|1.0 to 3.0 s|1.0 to 3.0|1.0 to 3.0 s"),
])  # fmt: skip
def test_forms_of_values_in_sentences(number: Any, unit: str, style: Any, texts: str) -> None:
    """Forms: plain, about (rounded to two digits), bare (without unit), and with interval."""
    value = Value("a_b", "Name", number, unit, "formula", style=style)
    forms = [value.form(name) for name in ("", "about", "bare", "interval")]
    assert [form.replace(NO_BREAK, " ").replace("\\", "") for form in forms] == [
        f"[{text}](#v-a-b){{.value}}" for text in texts.split("|")
    ]


def test_ranges_of_assumptions_have_no_level() -> None:
    assumed = Estimate(1.97, 1.44, 2.43, n=0, confidence=1.0)
    value = Value("a", "Name", assumed, "B", "formula")
    assert value.form("range").startswith("[1.4 to 2.4") and ESTIMATE.level == 0.95
    content = value.as_json()
    assert (content["interval"], content["confidence"]) == ([1.44, 2.43], None)


def test_thousands_separators_in_formulas_add_no_space() -> None:
    assert math_text(f"{MINUS}21,233,664{NO_BREAK}%") == r"-21{,}233{,}664\,\text{\%}"
    assert MISSING_VALUE.form("math") == r"\text{not measured}"


NO_WRAPPING = ("--wrap=none",)


def cells_by_pandoc(text: str) -> list[list[str]]:
    """Return pandoc's rows of the table in ``text``, with superscripts between ``^``."""
    page = pypandoc.convert_text(text, "html", format="markdown+smart", extra_args=NO_WRAPPING)
    rows = re.findall(r"<tr.*?</tr>", re.sub("</?sup>", "^", page), re.DOTALL)
    contents = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in rows]
    return [[html.unescape(re.sub("<[^>]+>", "", cell)) for cell in row] for row in contents]


def test_the_list_of_values_has_a_row_per_value() -> None:
    file = "conv_scaling/a_b.json"
    time = Value("time_largest", "Time | largest", ESTIMATE, "s", "median", (file,))
    work = Value("flops", "Work", 21_233_664, "FLOP", "2 · MAC", style="exact")
    text = provenance([time, work, MISSING_VALUE], asked=[file])
    assert all(f"{{#{value.anchor}}}" in text for value in (time, work, MISSING_VALUE))
    _, *rows = cells_by_pandoc(text.replace(NO_BREAK, " "))
    assert rows == [
        ["Time | largest", "12.5 ms", "median", "30", f"{file} (chosen by --use)"],
        ["Work", "21,233,664 FLOP", "2 · MAC", "", "theory"],
        ["Gone", "no run is in the data directory", "median", "", "none"],
    ]


def test_details_of_a_value_contain_samples_and_formula() -> None:
    processes = [Process("a.json", str(n), (0.5 + n / 16, 0.5 + n / 8)) for n in range(3)]
    time = measured_series("time", "s", processes, "a.json")
    rate = declare("rate", exact_number("work", "FLOP", 4, "b.json") / time)
    no_records = Inputs((), reported("conv_scaling"), "", Devices(devices=()))
    contents = details([rate, MISSING_VALUE], no_records)
    assert contents["values"]["v-gone"]["reason"] == "no run is in the data directory"
    rate_details = contents["values"]["v-rate"]
    assert rate_details["formula"] == "work / time"
    assert rate_details["numbers"] == f"4{NO_BREAK}FLOP / 590{NO_BREAK}ms"
    assert (rate_details["sources"], rate_details["series"]) == (["b.json", "a.json"], [0])
    (series,) = contents["series"]
    bounds = f"500{NO_BREAK}ms", f"750{NO_BREAK}ms", 6
    assert (series["low"], series["high"], series["n"]) == bounds
    # Of each process: index of the run, 1 if disturbed, and samples in thousandths of the range.
    assert series["processes"] == [[0, 0, 0, 0], [0, 0, 250, 500], [0, 0, 500, 1000]]


NO_GPU = Missing("no GPU here")
OUT_OF_MEMORY = Missing("out of memory on A|B: 5 GiB*")

TABLE = Table(
    "tbl-sample",
    (Column("Device"), Column("Batch", "1"), Column("Time", "s", "ms"), Column("Share", "1", "%"),
     Column("Memory", "B")),
    (("A|B, 2 threads", 1, ESTIMATE, 0.5, 147_456),
     ("C_1 <x>", 1024, OUT_OF_MEMORY, NO_GPU, 150_994_944),
     (r"[D] \%&_−<", 16, around(0.25, 0.0), NO_GPU, OUT_OF_MEMORY)),
    notes=("Own: A|B.",), sources=("conv_scaling/x.json",),
)  # fmt: skip


def test_markdown_tables_have_cells_notes_and_caption() -> None:
    text = to_markdown(TABLE, r"Times of \*every\* case_1")
    assert cells_by_pandoc(text) == [
        ["Device", "Batch", "Time (ms)", "Share (%)", "Memory (B)"],
        ["A|B, 2 threads", "1", "12.5 [12.0, 13.0]", "50", "147,456"],
        ["C_1 <x>", "1,024", f"{MISSING}^a^", f"{MISSING}^b^", "150,994,944"],
        [r"[D] \%&_−<", "16", "250", f"{MISSING}^b^", f"{MISSING}^a^"],
    ]
    plain_text = pypandoc.convert_text(text, "plain", format="markdown", extra_args=NO_WRAPPING)
    notes, caption = plain_text.strip().split("\n\n")[-2:]
    assert notes == "Own: A|B. ^(a) out of memory on A|B: 5 GiB* ^(b) no GPU here"
    assert caption == "Times of *every* case_1"


def test_csv_and_json_have_raw_numbers() -> None:
    """Headings have units, intervals have columns of bounds, and missing cells are empty."""
    assert to_csv(TABLE).splitlines() == [
        'Device,Batch [1],Time [s],"Time, low [s]","Time, high [s]",Share [1],Memory [B]',
        '"A|B, 2 threads",1,0.0125,0.012,0.013,0.5,147456',
        "C_1 <x>,1024,,,,,150994944",
        r"[D] \%&_−<,16,0.25,0.25,0.25,,",
    ]
    data = TABLE.as_json()
    assert data["rows"][1] == ["C_1 <x>", 1024, None, None, None, None, 150_994_944]
    assert data["notes"] == ["Own: A|B.", OUT_OF_MEMORY.reason, NO_GPU.reason]
    assert data["sources"] == ["conv_scaling/x.json"]


@pytest.mark.parametrize(("levels", "last_note"), [
    ((0.95,), "Own: A|B."),
    ((0.95, 0.75), "Intervals hold at 75 to 95 %."),
    ((0.75,), "Intervals hold at 75 %."),
])  # fmt: skip
def test_tables_note_intervals_below_95_percent(levels: tuple[float, ...], last_note: str) -> None:
    rows = tuple(("A", 1, replace(ESTIMATE, confidence=level), 0.5, 1) for level in levels)
    assert replace(TABLE, rows=rows).note_texts()[-1] == ("", last_note)


def test_latex_tables_have_escaped_cells_units_and_note_marks() -> None:
    heading, rule, _, _, last, *_ = to_latex(TABLE).split("%\n")[2:]
    assert heading.startswith(r"Device&Batch&\begin{tabular}[b]{@{}r@{}}Time\\(ms)\end{tabular}&")
    assert rule == r"\midrule"
    assert last.startswith(r"{}[D] \textbackslash{}\%\&\_−\textless{}&16&250&—\textsuperscript{b}&")


# Lengths of the texts in two columns, place of the table, and LaTeX's types of the columns; a
# number is a paragraph's share of the line.
@pytest.mark.parametrize(("lengths", "place", "types"), [
    ((22, 22), "column", "llr"),
    # Of 62 characters, gaps and the number use 13; the texts share 49 by length.
    ((30, 60), "column", "0.355 0.527 r"),
    ((30, 60), "two columns", "llr"),
    # A column with line breaks is at least as wide as the widest column without.
    ((30, 900), "two columns", "0.172 0.869 r"),
    ((22, 60), "column", "l0.435 r"),
    # A page of one column has 99 characters, shared by the square roots of the lengths.
    ((30, 56), "page", "llr"),
    ((30, 66), "page", "0.350 0.519 r"),
])  # fmt: skip
def test_columns_of_text_share_the_width_beside_numbers(
    lengths: tuple[int, int], place: str, types: str
) -> None:
    columns = (Column("A"), Column("B"), Column("Number", "1"))
    row = (*("x" * length for length in lengths), 123456)
    table = Table("tbl-x", columns, (row,), wide=place == "two columns")
    tabular = to_latex(table, one_column=place == "page")
    types = re.sub(r"(0\.\d+) ", r">{\\raggedright\\arraybackslash}p{\1\\linewidth}", types)
    assert tabular.startswith(rf"\begin{{tabular}}{{@{{}}{types}@{{}}}}")


def test_headings_of_wide_tables_are_broken_into_lines() -> None:
    columns = tuple(Column(f"Name of column {n}", "B", "MB") for n in range(5))
    tabular = to_latex(Table("tbl-x", columns, ((1e6,) * 5,)))
    assert tabular.count(r"Name of\\column") == 5 and tabular.count("(MB)") == 5
    assert "Name of column 0\\" in to_latex(Table("tbl-x", columns[:2], ((1e6,) * 2,)))


BYTES, SECONDS = exact_number("size", "B", 5, "b.json"), exact_number("time", "s", 0.5, "a.json")


def test_tables_are_made_from_rows_of_cells_by_heading() -> None:
    times = {1: SECONDS, 2: NO_GPU}
    rows = [{"Batch": n, "Time (ms)": time, "Size": BYTES} for n, time in times.items()]
    table = table_of("tbl-x", rows, digits={"Time (ms)": 1})
    assert [column.heading for column in table.columns] == ["Batch", "Time (ms)", "Size (B)"]
    first, second = [("1", ""), ("500", ""), ("5", "")], [("2", ""), (MISSING, "a"), ("5", "")]
    assert table.texts() == [first, second]
    assert table.sources == ("a.json", "b.json")


@pytest.mark.parametrize(("rows", "word"), [
    (({"Batch": 1}, {"Size": 1}), "headings"),
    (({"Size": BYTES}, {"Size": SECONDS}), "mixes B and s;"),
    (({"Size": 1}, {"Size": "none"}), "mixes text and plain numbers;"),
    (({"Time (h)": SECONDS},), "h is not s with a decimal prefix"),
])  # fmt: skip
def test_rows_with_different_headings_or_units_are_refused(rows: Any, word: str) -> None:
    with pytest.raises((StudyError, ValueError), match=word):
        table_of("tbl-x", rows)


@pytest.mark.parametrize("text", ["=cmd|", "+1", "-1", "@SUM", "\tx"])
def test_csv_cells_are_no_formulas(text: str) -> None:
    assert next(csv.reader([csv_of([[text]]).rstrip("\n")])) == [f"'{text}"]
    assert csv_of([[-1, None, "a=1"]]) == "-1,,a=1\n", "numbers and other texts stay as they are"


#: Special characters of pandoc and LaTeX, and a few other characters.
SPECIAL = "\\`*_{}[]()<>#|@$^~'\"&%!-+=:;.,?/1aA \n\t"
TEXT = st.text(
    st.sampled_from(SPECIAL) | st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=40
)
SEPARATOR = "ENDOFONETEXT"


def squeezed(text: str) -> str:
    """Replace every run of white space by one space, and strip the ends."""
    return re.sub(r"[\t-\r \x85\u2028\u2029]+", " ", text).strip(" ")


@settings(max_examples=12, deadline=None)
@given(st.lists(TEXT.filter(squeezed), min_size=12, max_size=12))
@example(["1. one", "- two", "a) b", "(ii) c", ": d", "Table: e", "% f", "# g", "+ h", "--- i"])
@example(['it\'s "so"', "a...b--c---d", "&copy; &#65;", "x^2^ H~2~O", "~~no~~", "[a](b)", "<b>"])
@example(["@key", "a@b.c", "https://x.y/z", "$x$ and $y$", "\\(z\\)", "{{< meta x >}}", "![a](b)"])
@example(["===", "***", "- - -", "| a | b |", "    code", "= x", "\\", "[^1]: note", "[a]: b"])
def test_pandoc_prints_escaped_text_unchanged_but_for_apostrophes(texts: list[str]) -> None:
    # The document begins with a separator, since pandoc may read a first line as a title.
    document = f"\n\n{SEPARATOR}\n\n".join(["", *(markdown(squeezed(text)) for text in texts)])
    output = pypandoc.convert_text(
        document, "plain", format="markdown+smart", extra_args=NO_WRAPPING
    )
    printed = [part.strip("\n") for part in output.split(SEPARATOR)[1:]]
    assert printed == [with_apostrophes(squeezed(text)) for text in texts]


@given(TEXT)
@example("".join(map(chr, range(0x20, 0x250))))
@example("漢字 🙂 \u0301 ﬁ Ⅳ ᵀ ﬀ")
def test_latex_is_one_line_of_known_escaped_characters(text: str) -> None:
    escaped = latex(text)
    assert "\n" not in markdown(text) + escaped
    # Remove commands that print a character or allow a line break.
    commands = r"\\(?:[&%$#_{},]|text[a-z]+\{\}|hspace\{0pt\})"
    characters = re.sub(commands, "", escaped).replace("{}", "")
    assert not set(characters) & set('\\&%$#_{}^<>`"')
    assert latex_source(characters) == characters, "code points replace unknown characters"


@pytest.mark.parametrize(("escape", "text", "escaped"), [
    (markdown, "the T4's 'ops' of layers' in x'", r"the T4’s \'ops\' of layers\' in x\'"),
    (latex, "log₂ n ≥ 3×µ", "log₂ n ≥ 3×µ"),
    (latex, "a---b", "a-{}-{}-b"),
    (latex, "''", "'{}'"),
    (latex, "[1, 2]", "{}[1, 2]"),
    (latex, "*", "{}*"),
    (latex, "漢", "‹U+6F22›"),
    (latex, "ﬁ", "fi"),
    # Long words may break.
    (latex, "m" * 30, rf"{'m' * 12}\hspace{{0pt}}{'m' * 12}\hspace{{0pt}}{'m' * 6}"),
    (latex, "a_name/of/several/parts",
     r"a\_\hspace{0pt}name/\hspace{0pt}of/\hspace{0pt}several/\hspace{0pt}parts"),
    # BibTeX must not split a letter's bytes, and would read an entry in a comment.
    (bibtex, "Müller, Ł.", r"M{\relax ü}ller, {\relax Ł}."),
    (bibtex, "龙", r"{{\guilsinglleft U+9F99\guilsinglright}}"),
    (bibtex, "2 × – “B”", r"2 {\relax ×} {\relax –} {\relax “}B{\relax ”}"),
    (bibtex, "a@b\n} % @misc{a@b,\n% @c", "a@b\n} % misc{ab,\n% c"),
])  # fmt: skip
def test_escaped_texts(escape: Callable[[str], str], text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_machines_with_equal_names_are_counted() -> None:
    names = ("Xeon, 1 thread", "NVIDIA H100 (nvidia-h100)", "NVIDIA H100 (nvidia-h100-2)")
    assert first_names(names) == "Xeon, 1 thread; NVIDIA H100 (2 machines)"
    one_machine = ("Zen 4 (amd-epyc-1t-193f1c)", "Zen 4 (amd-epyc-zen-4-1t-193f1c)")
    assert first_names(one_machine) == "Zen 4", "two labels of one machine"
    assert first_names(("EPYC (Zen 3)", "b", "c", "d", "e")) == "EPYC (Zen 3); b; c; d; 1 other"
