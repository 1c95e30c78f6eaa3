"""Records of measurements that others made: whole, apart from own records, and attributed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from report.engine.gather import choose
from report.errors import RecordError
from report.records.filed import encode, parse
from report.records.imported import ImportedRecord
from report.records.record import Case, Head
from report.records.store import (
    read_attachments,
    read_record,
    read_records,
    write_record,
)
from tests import factory
from tests.papers import compose

STUDY = "conv_scaling"
#: A record of two cases in the form of a table, as files of published tables have it.
TABLE = Path(__file__).with_name("imported.json").read_text("utf-8")


def case(network: str, *mean_time: float, reason: str | None = None) -> Case:
    return Case(
        factors={"network": network},
        status="unavailable" if reason else "ok",
        reason=reason,
        series={"mean_time": mean_time} if mean_time else {},
    )


def parsed(text: bytes) -> ImportedRecord:
    return parse(text, "data/x.json", ImportedRecord)


def imported(*cases: Case, **change: Any) -> ImportedRecord:
    """A record of a GPU of which nothing but the name is known."""
    return msgspec.structs.replace(parsed(TABLE.encode()), cases=cases, **change)


def test_what_is_written_is_read_again_whether_cases_are_rows_or_not() -> None:
    record = imported(case("a", 0.5), case("b", 0.25))
    assert parsed(TABLE.encode()) == record
    for each in (record, imported(case("a"), case("b", reason="no")), imported()):
        assert parsed(encode(each)) == each


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"Apache-2.0"', '"free for all!"', "origin.licence"),
        ('"precision": "amp"', '"network":"amp"', "cases\\[0\\].factors.network: found a name"),
        ("[0.25]]", "[0.25, 1]]", r"rows\[1\]: found another number"),
        ("[0.25]]", "[-1]]", r"cases\[1\].series.mean_time\[0\]"),
        ('"a"],[0.5', '"b"],[0.5', r"same combination as in cases\[0\]"),
        ('"schema": 2', '"schema": 3', "schema"),
        ('"schema"', "schema", "not valid JSON"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in TABLE
    with pytest.raises(RecordError, match=said) as caught:
        parsed(TABLE.replace(old, new, 1).encode())
    assert str(caught.value).startswith("data/x.json: ")


# ------------------------------------------------------------------------------------ in papers


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """An own record, and two of somebody else of the same study."""
    data = factory.data_folder(tmp_path, factory.record())
    for time in (0.5, 0.25):
        write_record(imported(case("a", time), case("b", reason="no time"), study=STUDY), data)
    return data


def test_own_records_alone_speak_for_devices(data: Path) -> None:
    assert len(read_records(STUDY, data, Head)) == 1
    theirs = read_records(STUDY, data, ImportedRecord)
    chosen = choose(STUDY, data)
    assert chosen.inputs.imported == theirs
    (own,) = chosen.inputs.records
    assert [each.file for each in chosen.files] == [own.file, *(each.file for each in theirs)]
    assert [stored.edited for stored in theirs] == [False, False]
    factory.edit(data / theirs[0].file, "0.", "1.")
    assert read_record(data / theirs[0].file, data, ImportedRecord).edited


def test_a_paper_says_who_measured(data: Path, tmp_path: Path) -> None:
    compose(STUDY, data, factory.ROOT / "templates" / "papers", tmp_path / "source")
    text = (tmp_path / "source" / f"{STUDY}.qmd").read_text("utf-8")
    said = "Example 100: measured by Example Author with benchmark.py, 2 files, licence Apache-2.0"
    assert said in text.replace("\\", "")
    values = json.loads((tmp_path / "source" / "values.json").read_text("utf-8"))
    (line,) = (each["line"] for each in values["imported"])
    assert line == "Example 100: measured by Example Author, licence Apache-2.0"
    assert len(values["records"]) == 3


def test_what_was_imported_is_whole() -> None:
    """Its file is the one that was written, its licence lies here, and it can be found again."""
    data = factory.ROOT / "data"
    studies = [folder.parent.name for folder in data.glob("*/imported")]
    found = [read_records(study, data, ImportedRecord) for study in studies]
    for stored in (item for items in found for item in items):
        origin = stored.record.origin
        assert not stored.edited
        assert (factory.ROOT / "LICENSES" / f"{origin.licence}.txt").exists()
        assert origin.address and origin.commit
        assert all(read_attachments(stored, ("*",), data).values())
