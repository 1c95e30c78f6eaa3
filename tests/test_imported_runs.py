"""What others measured in a paper: apart from own records, attributed, and never an interval."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from report.engine.compose import compose
from report.engine.gather import choose, load
from report.engine.plan import Places, list_files
from report.evidence.imported_runs import ImportedRun
from report.quantity.evaluation import estimate
from report.quantity.verdicts import Statement, expect
from report.records.frames import sample_frame
from report.records.imported_files import StoredImport, list_imports, write_import
from report.statistics.estimates import Estimate
from tests import factory
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
        write_import(record, data, {})
    return data


def test_own_records_alone_speak_for_devices(data: Path) -> None:
    chosen = choose(STUDY, data)
    inputs = load(STUDY, data, chosen)
    assert [len(files) for files in chosen.runs] == [1]
    assert len(inputs.records) == 1
    assert [each.file for each in inputs.imported] == list(chosen.imported)
    assert len(chosen.imported) == 2
    assert set(chosen.digests) == {*chosen.runs[0], *chosen.imported}


def test_a_paper_says_who_measured(data: Path, tmp_path: Path) -> None:
    compose(STUDY, data, factory.ROOT / "templates" / "papers", tmp_path / "source")
    text = (tmp_path / "source" / f"{STUDY}.qmd").read_text("utf-8")
    said = "Example 100: measured by Example Author with benchmark.py, 2 files, licence Apache-2.0"
    assert said in text.replace("\\", "")
    values = json.loads((tmp_path / "source" / "values.json").read_text("utf-8"))
    (line,) = (each["line"] for each in values["imported"])
    assert line == "Example 100: measured by Example Author, licence Apache-2.0"
    assert len(values["records"]) == 3


def test_one_sample_has_no_interval_and_supports_no_claim(data: Path) -> None:
    one, other = (ImportedRun(each) for each in list_imports(STUDY, data))
    gain = one.series("mean_time", {"network": "a"}) / other.series("mean_time", {"network": "a"})
    found = estimate(gain)
    assert isinstance(found, Estimate)
    assert found.confidence == 0
    assert max(found.value, 1 / found.value) == 2
    assert {Statement(gain, expect(sign)).judge() for sign in ("> 0.1", "< 0.1")} == {"undecided"}


def test_a_published_count_is_known_to_its_rounding() -> None:
    record = imported(case("a", {"parameters": [2_040_000]}), rounding={"parameters": 1e4})
    run = ImportedRun(StoredImport(record, "s/imported/x.json", "0" * 64))
    found = estimate(run.count("parameters", {"network": "a"}))
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.high) == (2_040_000, 2_035_000, 2_045_000)


def test_what_is_not_there_is_missing_with_its_reason(data: Path) -> None:
    run = ImportedRun(list_imports(STUDY, data)[0])
    absent = [
        run.series("mean_time", {"network": "b"}),
        run.series("mean_time", {"network": "c"}),
        run.series("image_rate", {"network": "a"}),
        run.count("activations", {"network": "a"}),
    ]
    reasons = [each.missing.reason for each in absent if each.missing]
    for reason, said in zip(
        reasons, ("no time", "not published", "image rate", "not in"), strict=True
    ):
        assert said in reason
    assert run.count("parameters", {"network": "a"}).missing is None


def test_every_sample_of_others_can_be_downloaded(data: Path) -> None:
    frame = sample_frame(list_imports(STUDY, data))
    assert list(frame["precision"]) == ["amp"] * 4
    assert sorted(frame[frame["quantity"] == "mean_time"]["value"]) == [0.25, 0.5]


def test_a_new_record_of_others_makes_its_study_stale(data: Path) -> None:
    places = Places(str(factory.ROOT), str(data), "", "")
    files = list_files(places, [STUDY]).records[STUDY]
    assert {f"data/{each.file}" for each in list_imports(STUDY, data)} < set(files)
    assert len(files) == 3
