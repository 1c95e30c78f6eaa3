"""The numbers of the prose: how each prints, and that each can be traced."""

from __future__ import annotations

import json

import pypandoc
import pytest

from report.missing import Missing
from report.paper.manuscript import provenance
from report.paper.tables import Column, Table
from report.paper.values import NOT_MEASURED, Value
from report.statistics.estimates import Estimate
from report.text.format import NO_BREAK, interval_text, level_text, scale_for
from tests.test_tables import rows_of

TIME = Value(
    "time_largest",
    "Time | largest",
    Estimate(0.0125, 0.012, 0.013, 30, 0.95),
    "s",
    "median",
    ("conv_scaling/a_b.json",),
)
EXACT = Value("flops", "Work", 21_233_664, "FLOP", "2 · MAC", style="exact")
SHARE = Value("share", "Share", Estimate(0.5, 0.45, 0.55, 9, 0.9), "1", "a / b", style="percent")
GONE = Value("gone", "Gone", Missing("no run is in the data directory"), "B", "median")
LINE = Value("slope", "Slope", Estimate(147456.5, 1e5, 2e5, 5, 0.95), "B", "line", style="exact")


@pytest.mark.parametrize(
    ("value", "plain", "interval"),
    [
        (TIME, "12.5 ms", "12.5 [12.0, 13.0] ms"),
        (EXACT, "21,233,664 FLOP", "21,233,664 FLOP"),
        (SHARE, "50 %", "50 [45, 55] % (at 90 %)"),
        (GONE, NOT_MEASURED, NOT_MEASURED),
        (LINE, "150,000 B", "150,000 [100,000, 200,000] B"),
    ],
    ids=lambda item: item.id if isinstance(item, Value) else "",
)
def test_a_value_in_a_sentence(value: Value, plain: str, interval: str) -> None:
    assert value.plain.replace(NO_BREAK, " ") == plain

    def shown(markdown: str) -> str:
        return pypandoc.convert_text(markdown, "plain", format="markdown").strip()

    assert shown(str(value)).replace(NO_BREAK, " ") == plain
    assert shown(value.interval).replace(NO_BREAK, " ") == interval
    assert str(value).endswith(f"](#{value.anchor}){{.value}}")


def test_the_number_alone() -> None:
    assert EXACT.bare == "[21,233,664](#v-flops){.value}"
    assert GONE.bare == f"[{NOT_MEASURED}](#v-gone){{.value}}"
    assert EXACT.math == r"21{,}233{,}664\,\text{FLOP}"
    assert GONE.math == r"\text{not measured}"
    assert TIME.anchor == "v-time-largest"


def test_two_digits_are_enough_for_a_sentence() -> None:
    share = Value("share", "Share", 0.01541, "1", "a / b", style="percent")
    shown = {each.id: each.about.replace(NO_BREAK, " ") for each in (TIME, share, GONE)}
    assert shown["time_largest"].startswith("[13 ms]")
    assert shown["share"].startswith("[1.5 %]")
    assert shown["gone"].startswith(f"[{NOT_MEASURED}]")


def test_an_interval_without_a_level_is_not_printed() -> None:
    found = Estimate(41.4, 38.9, 44.0, 2, 0.0)
    value = Value("x", "Speed-up", found, "1", "a / b")
    assert value.interval == str(value)
    assert interval_text(found, scale_for(found, "1")) == "(no interval)"
    assert level_text(found) == ""
    table = Table("tbl-x", (Column("Speed-up", "1"),), ((found,),))
    assert table.columns[0].text(found) == "41.4"
    assert table.note_texts() == ()


def test_every_number_leads_to_its_line() -> None:
    values = (TIME, EXACT, SHARE, GONE)
    html = pypandoc.convert_text(provenance(values), "html", format="markdown")
    for value in values:
        assert f'id="{value.anchor}"' in html
    document = json.loads(pypandoc.convert_text(provenance(values), "json", format="markdown"))
    _, *rows = rows_of(document["blocks"][0])
    printed = [[cell.replace(NO_BREAK, " ") for cell in row] for row in rows]
    assert printed == [
        ["Time | largest", "12.5 ms", "median", "30", "conv_scaling/a_b.json"],
        ["Work", "21,233,664 FLOP", "2 · MAC", "", "theory"],
        ["Share", "50 %", "a / b", "9", "theory"],
        ["Gone", "no run is in the data directory", "median", "", "none"],
    ]
