"""What others measured in a paper: apart from own records, and attributed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from report.engine.gather import choose
from report.records.store import write_record
from tests import factory
from tests.papers import compose
from tests.test_imported import case, imported

STUDY = "conv_scaling"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An own record, and two of somebody else of the same study."""
    data = factory.data_folder(tmp_path, factory.record())
    for time in (0.5, 0.25):
        record = imported(
            case("a", {"mean_time": [time], "parameters": [7]}),
            case("b", {}, "no time"),
            study=STUDY,
        )
        write_record(record, data)
    return data


def test_own_records_alone_speak_for_devices(data: Path) -> None:
    chosen = choose(STUDY, data)
    inputs = chosen.inputs
    assert [len(files) for files in chosen.runs] == [1]
    assert len(inputs.records) == 1
    theirs = [each.file for each in inputs.imported]
    assert len(theirs) == 2
    assert chosen.as_json()["digests"].keys() == {*chosen.runs[0], *theirs}


def test_a_paper_says_who_measured(data: Path, tmp_path: Path) -> None:
    compose(STUDY, data, factory.ROOT / "templates" / "papers", tmp_path / "source")
    text = (tmp_path / "source" / f"{STUDY}.qmd").read_text("utf-8")
    said = "Example 100: measured by Example Author with benchmark.py, 2 files, licence Apache-2.0"
    assert said in text.replace("\\", "")
    values = json.loads((tmp_path / "source" / "values.json").read_text("utf-8"))
    (line,) = (each["line"] for each in values["imported"])
    assert line == "Example 100: measured by Example Author, licence Apache-2.0"
    assert len(values["records"]) == 3
