"""What the documents say of numbers and of records is what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from report.engine.pipeline import ROOT
from report.evidence.runs import Run
from report.quantity.evaluation import estimate
from report.records.record import SCHEMA_VERSION
from report.records.store import read_record
from report.statistics.estimates import Estimate, binomial_rank
from tests import factory

DOCS = ROOT / "docs"
NUMBERS = (DOCS / "how-numbers-are-made.md").read_text("utf-8")
FORMAT = (DOCS / "record-format.md").read_text("utf-8")
RECORD = ROOT / "data/conv_scaling/20261122T183824Z-intel-xeon-1t-10bc99-07013c8f.zip"


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_python(text: str) -> dict[str, Any]:
    (code,) = blocks(text, "python")
    names: dict[str, Any] = {}
    exec(compile(code, "a document", "exec"), names)
    return names


@pytest.fixture(autouse=True)
def in_the_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def test_the_number_by_hand_is_that_of_papers() -> None:
    names = run_python(NUMBERS)
    found = estimate(Run(read_record(RECORD, ROOT / "data"), "x").series("time", names["factors"]))
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.high) == tuple(names[n] for n in ("value", "low", "high"))
    assert len(names["medians"]) == 8 and found.confidence == 0.95


def test_the_levels_of_few_processes_are_right() -> None:
    ends = ("smallest to largest", "second to last but one")
    rows = re.findall(
        r"^\| (\d+)(?: to (\d+))? \| (.*?) \| (at least )?([\d.]+) % \|", NUMBERS, re.M
    )
    assert len(rows) == 5
    for first, last, interval, least, level in rows:
        for n in range(int(first), int(last or first) + 1):
            rank, reached = binomial_rank(n, 0.95)
            assert (ends[rank - 1], 100 * reached) == (interval, float(level)), n
            assert bool(least) == (reached == 0.95)


def is_part(part: Any, whole: Any) -> bool:
    """Whether an example is in a record: some members of each mapping, in lists the order."""
    if isinstance(part, dict):
        return all(name in whole and is_part(part[name], whole[name]) for name in part)
    if not isinstance(part, list):
        return bool(part == whole)
    rest = iter(whole)
    return all(any(is_part(each, other) for other in rest) for each in part)


def test_the_examples_are_of_a_real_record() -> None:
    record = json.loads(factory.text_of(RECORD))
    examples = [json.loads(block) for block in blocks(FORMAT, "json")]
    assert len(examples) == 3
    assert all(is_part(example, record) for example in examples)


def test_every_field_is_described() -> None:
    record = json.loads(factory.text_of(RECORD))
    (table,) = re.findall(r"^## From the top$(.*?)^## ", FORMAT, re.DOTALL | re.MULTILINE)
    assert {*re.findall(r"`(\w+)`", re.sub(r"\|[^|]*\|$", "", table, flags=re.M))} >= {*record}
    assert f"There is one version, {SCHEMA_VERSION}." in FORMAT


def test_the_samples_are_the_table_that_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run_python(FORMAT)
    (shown,) = blocks(FORMAT, "text")
    printed = capsys.readouterr().out.splitlines()
    assert [line.rstrip() for line in printed] == shown.splitlines()


@pytest.mark.parametrize("page", sorted(DOCS.glob("*.md")), ids=lambda path: path.stem)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`]*`", "", page.read_text("utf-8"))  # an example leads nowhere
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (DOCS / target).exists(), target
