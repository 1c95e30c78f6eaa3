"""Records of measurements that others made: whole, apart from own records, and attributed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from report.engine.gather import choose
from report.records.filed import encode, parse
from report.records.imported import ImportedRecord
from report.records.record import Case
from report.records.store import read_attachments, read_record, read_records, write_record
from tests import factory
from tests.papers import compose
from tests.test_refusals import IMPORTED

STUDY = "conv_scaling"


def parsed(text: bytes) -> ImportedRecord:
    return parse(text, "data/x.json", ImportedRecord)


def case(network: str, *mean_time: float, reason: str | None = None) -> Case:
    status: Any = "unavailable" if reason else "ok"
    series = {"mean_time": mean_time} if mean_time else {}
    return Case(factors={"network": network}, status=status, reason=reason, series=series)


def imported(*cases: Case, **change: Any) -> ImportedRecord:
    """A record of a GPU of which nothing but the name is known."""
    return msgspec.structs.replace(parsed(IMPORTED), cases=cases, **change)


def test_what_is_written_is_read_again_whether_cases_are_rows_or_not() -> None:
    record = imported(case("a", 0.5), case("b", 0.25))
    assert parsed(IMPORTED) == record
    for each in (record, imported(case("a"), case("b", reason="no")), imported()):
        assert parsed(encode(each)) == each


def test_own_records_alone_speak_for_devices_and_a_paper_says_who_measured(tmp_path: Path) -> None:
    """Of an own record, and two of somebody else of the same study."""
    data = factory.data_folder(tmp_path, factory.record())
    for time in (0.5, 0.25):
        write_record(imported(case("a", time), case("b", reason="no time"), study=STUDY), data)
    theirs = read_records(STUDY, data, ImportedRecord)
    chosen = choose(STUDY, data)
    assert chosen.inputs.imported == theirs
    (own,) = chosen.inputs.records
    assert [each.file for each in chosen.files] == [own.file, *(each.file for each in theirs)]
    source = tmp_path / "source"
    compose(STUDY, data, factory.ROOT / "templates" / "papers", source)
    said = "Example 100: measured by Example Author with benchmark.py, 2 files, licence Apache-2.0"
    assert said in (source / f"{STUDY}.qmd").read_text("utf-8").replace("\\", "")
    values = json.loads((source / "values.json").read_text("utf-8"))
    (line,) = (each["line"] for each in values["imported"])
    assert line == "Example 100: measured by Example Author, licence Apache-2.0"
    assert values["records"] == [each.file for each in chosen.files]
    assert [stored.edited for stored in theirs] == [False, False]
    factory.edit(data / theirs[0].file, "0.", "1.")
    assert read_record(data / theirs[0].file, data, ImportedRecord).edited


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
