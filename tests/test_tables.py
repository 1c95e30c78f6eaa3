"""One table object, the same cells in every output."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import Any

import pypandoc
import pytest

from report.errors import StudyError
from report.missing import Missing
from report.paper.tables import Column, Table, table_of, to_csv, to_latex, to_markdown
from report.quantity.expression import exact
from report.statistics.estimates import Estimate
from report.text.format import MISSING

NO_GPU = Missing("no GPU here")
NO_ROOM = Missing("out of memory on A|B: 5 GiB*")
HALF = Estimate(0.0125, 0.012, 0.013, 30, 0.95)
EXACT = Estimate(0.25, 0.25, 0.25, 3, 0.95)

TABLE = Table(
    "tbl-sample",
    (
        Column("Device"),
        Column("Batch", "1"),
        Column("Time", "s", "ms"),
        Column("Share", "1", "%"),
        Column("Memory", "B"),
    ),
    (
        ("A|B, 2 threads", 1, HALF, 0.5, 147_456),
        ("C_1 <x>", 1024, NO_ROOM, NO_GPU, 150_994_944),
        ("[D]", 16, EXACT, NO_GPU, NO_ROOM),
    ),
    notes=("Own: A|B.",),
    sources=("conv_scaling/x.json",),
)


def text_of(part: Any) -> str:
    """The plain text of a part of pandoc's document, superscripts as ^x^."""
    if isinstance(part, list):
        return "".join(text_of(item) for item in part)
    if not isinstance(part, dict):
        return ""
    if part["t"] == "Str":
        return str(part["c"])
    if part["t"] in ("Space", "SoftBreak"):
        return " "
    if part["t"] == "Superscript":
        return f"^{text_of(part['c'])}^"
    return text_of(part.get("c", []))


def rows_of(block: dict[str, Any]) -> list[list[str]]:
    assert block["t"] == "Table"
    _, _, _, head, bodies, _ = block["c"]
    rows = [*head[1], *(row for body in bodies for row in body[3])]
    return [[text_of(cell[4]) for cell in row[1]] for row in rows]


def test_markdown_holds_the_cells_the_notes_and_the_caption() -> None:
    text = to_markdown(TABLE, r"Times of \*every\* case_1")
    document = json.loads(pypandoc.convert_text(text, "json", format="markdown+smart"))
    ((_, (table, notes, caption)),) = (div["c"] for div in document["blocks"])
    assert rows_of(table) == [
        ["Device", "Batch", "Time (ms)", "Share (%)", "Memory (B)"],
        ["A|B, 2 threads", "1", "12.5 [12.0, 13.0]", "50", "147,456"],
        ["C_1 <x>", "1,024", f"{MISSING}^a^", f"{MISSING}^b^", "150,994,944"],
        ["[D]", "16", "250", f"{MISSING}^b^", f"{MISSING}^a^"],
    ]
    assert text_of(notes) == "Own: A|B. ^a^ out of memory on A|B: 5 GiB* ^b^ no GPU here"
    assert text_of(caption) == "Times of *every* case_1"


def test_json_and_csv_hold_raw_numbers() -> None:
    data = TABLE.as_json()
    assert [(column["name"], column["unit"]) for column in data["columns"]] == [
        ("Device", ""), ("Batch", "1"), ("Time", "s"), ("Time, low", "s"), ("Time, high", "s"),
        ("Share", "1"), ("Memory", "B"),
    ]  # fmt: skip
    assert data["rows"] == [
        ["A|B, 2 threads", 1, 0.0125, 0.012, 0.013, 0.5, 147_456],
        ["C_1 <x>", 1024, None, None, None, None, 150_994_944],
        ["[D]", 16, 0.25, 0.25, 0.25, None, None],
    ]
    assert data["notes"] == ["Own: A|B.", NO_ROOM.reason, NO_GPU.reason]
    assert data["sources"] == ["conv_scaling/x.json"]
    head, *rows = csv.reader(io.StringIO(to_csv(TABLE)))
    assert head[2:4] == ["Time [s]", "Time, low [s]"]
    assert rows == [["" if cell is None else str(cell) for cell in row] for row in data["rows"]]


def test_intervals_of_a_low_level_say_so() -> None:
    few = replace(HALF, confidence=0.75)
    rows = (("A", 1, HALF, 0.5, 1), ("B", 1, few, 0.5, 1), ("C", 1, EXACT, 0.5, 1))
    assert replace(TABLE, rows=rows[:1]).note_texts() == (("", "Own: A|B."),)
    assert replace(TABLE, rows=rows).note_texts()[-1] == ("", "Intervals hold at 75 to 95 %.")
    assert replace(TABLE, rows=rows[1:]).note_texts()[-1] == ("", "Intervals hold at 75 %.")
    two = replace(TABLE, rows=(("A", 1, replace(HALF, confidence=0.5), 0.5, 1),))
    assert two.note_texts()[-1][1] == "Round brackets: the range of few measurements, no interval."
    assert " to " in two.columns[2].text(two.rows[0][2])


P = r">{\raggedright\arraybackslash}p{%s\linewidth}"


@pytest.mark.parametrize(
    ("texts", "wide", "types"),
    [
        (("x" * 22, "y" * 22), False, "llr"),
        # 62 characters less gaps and the number leave 49, by the length of each text.
        (("x" * 30, "y" * 60), False, f"{P % '0.355'}{P % '0.527'}r"),
        (("x" * 30, "y" * 60), True, "llr"),
        # A column of text is never narrower than one that is not broken.
        (("x" * 30, "y" * 900), True, f"{P % '0.172'}{P % '0.869'}r"),
        (("x" * 22, "y" * 60), False, f"l{P % '0.435'}r"),
    ],
)
def test_texts_share_what_numbers_leave(texts: tuple[str, str], wide: bool, types: str) -> None:
    columns = (Column("A"), Column("B"), Column("Number", "1"))
    made = to_latex(Table("tbl-x", columns, ((*texts, 123456),), wide=wide))
    assert made.startswith(rf"\begin{{tabular}}{{@{{}}{types}@{{}}}}")


def test_names_break_before_a_table_is_made_smaller() -> None:
    columns = tuple(Column(f"Name of column {n}", "B", "MB") for n in range(5))
    made = to_latex(Table("tbl-x", columns, ((1e6,) * 5,)))
    assert made.count(r"Name of\\column") == 5 and made.count("(MB)") == 5
    assert "Name of column 0\\" in to_latex(Table("tbl-x", columns[:2], ((1e6,) * 2,)))


BYTES, TIME = exact("size", "B", 5, "b.json"), exact("time", "s", 0.5, "a.json")


def test_rows_of_cells_by_heading_make_a_table() -> None:
    rows = [{"Batch": 1, "Time (ms)": TIME, "Size": BYTES}, {"Batch": 2, "Time (ms)": NO_GPU}]
    table = table_of("tbl-x", [rows[0], {**rows[1], "Size": BYTES}], digits={"Time (ms)": 1})
    assert [column.heading for column in table.columns] == ["Batch", "Time (ms)", "Size (B)"]
    assert [[c.text(x) for c, x in zip(table.columns, row, strict=True)] for row in table.rows] == [
        ["1", "500", "5"],
        ["2", MISSING, "5"],
    ]
    assert table.sources == ("a.json", "b.json")


@pytest.mark.parametrize(
    ("rows", "word"),
    [
        (({"Batch": 1}, {"Size": 1}), "headings"),
        (({"Size": BYTES}, {"Size": TIME}), "B and s"),
        (({"Time (h)": TIME},), "h is not s with a decimal prefix"),
    ],
)
def test_a_bad_table_is_refused(rows: Any, word: str) -> None:
    with pytest.raises((StudyError, ValueError), match=word):
        table_of("tbl-x", rows)
    with pytest.raises(ValueError, match="starts with tbl-"):
        Table("sample", (), ())
