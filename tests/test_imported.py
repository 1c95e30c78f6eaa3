"""Records of measurements that others made: what is not known has a reason, and nothing is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.errors import RecordError
from report.records.filed import encode, parse_import
from report.records.imported import (
    IMPORT_SCHEMA,
    ImportedEnvironment,
    ImportedRecord,
    Origin,
    nullable,
)
from report.records.record import Case
from report.records.store import (
    StoredImport,
    list_imports,
    list_records,
    read_attachments,
    read_import,
    write_record,
)
from tests import factory


def case(network: str, measured: dict[str, list[float]], reason: str | None = None) -> Case:
    return Case(
        factors={"network": network},
        status="unavailable" if reason else "ok",
        reason=reason,
        layers=(),
        series={name: tuple(samples) for name, samples in measured.items()},
    )


def imported(*cases: Case, **change: Any) -> ImportedRecord:
    """A record of a GPU of which nothing but the name is known."""
    plain = ImportedRecord(
        schema=IMPORT_SCHEMA,
        study="gpu_survey",
        origin=Origin(
            author="Example Author",
            address=None,
            commit="aa4b585",
            licence="Apache-2.0",
            instrument="benchmark.py",
            instrument_version=None,
            format="timm_csv",
            file="results.csv",
            sha256="0" * 64,
            imported="2026-11-23T04:00:00Z",
            given={},
        ),
        environment=ImportedEnvironment(device="cuda", key="example-100", model="Example 100"),
        started=None,
        finished=None,
        conditions={"precision": "amp"},
        rounding={"mean_time": 1e-6},
        missing={},
        cases=cases,
        attachments=(),
    )
    null = {name: "not said" for name, value in nullable(plain).items() if value is None}
    return msgspec.structs.replace(plain, **{"missing": null, **change})


MEASURED = {"mean_time": st.floats(1e-9, 1e3), "parameters": st.integers(0, 10**12)}
SAMPLES = st.fixed_dictionaries(
    {}, optional={name: st.lists(value, max_size=2) for name, value in MEASURED.items()}
)


@given(st.dictionaries(st.text("abc", min_size=1), st.tuples(SAMPLES, st.none() | st.just("no"))))
def test_what_is_written_is_read_again(cases: dict[str, Any]) -> None:
    """Whether the cases are rows of a table or not."""
    record = imported(*(case(name, *found) for name, found in cases.items()))
    assert parse_import(encode(record), "x.json") == record


def test_a_written_file_is_listed_apart_from_own_records(tmp_path: Path) -> None:
    path = write_record(imported(case("a", {"mean_time": [0.5]})), tmp_path)
    (stored,) = list_imports("gpu_survey", tmp_path)
    assert stored.file == path.relative_to(tmp_path).as_posix()
    assert not stored.edited
    assert list_records("gpu_survey", tmp_path) == ()
    factory.edit(path, "0.5", "0.4")
    assert read_import(path, tmp_path).edited


#: A record of two cases in the form of a table, as files of published tables have it.
TABLE = (
    encode(imported())
    .decode()
    .replace(
        '"units": {}',
        '"units": {"mean_time":"s"}, "factors": ["network"], "columns": ["mean_time"], '
        '"rows": [[["a"],[0.5]], [["b"],[0.25]]]',
    )
)


def test_a_row_of_a_table_is_a_case() -> None:
    cases = [case("a", {"mean_time": [0.5]}), case("b", {"mean_time": [0.25]})]
    assert parse_import(TABLE.encode(), "x.json") == imported(*cases)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"clock": "not said",', "", "no reason why clock is null"),
        ('"clock": null', '"clock": 1e9', "missing.clock: found a reason"),
        ('"Apache-2.0"', '"free for all!"', "origin.licence"),
        ('"precision": "amp"', '"network":"amp"', "conditions.network: found a name"),
        ("[0.25]]", "[0.25, 1]]", r"rows\[1\]: found another number"),
        ("[0.25]]", "[-1]]", r"cases\[1\].series.mean_time\[0\]"),
        ('"a"],[0.5', '"b"],[0.5', r"same combination as in cases\[0\]"),
        ('"schema": 2', '"schema": 3', "schema"),
        ('"schema"', "schema", "not valid JSON"),
    ],
)
def test_what_cannot_be_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    text = TABLE
    assert old in text
    with pytest.raises(RecordError, match=said) as caught:
        parse_import(text.replace(old, new, 1).encode(), "data/x.json")
    assert str(caught.value).startswith("data/x.json: ")


# ---------------------------------------------------------------------- what was imported


IMPORTS = [
    stored
    for folder in sorted((factory.ROOT / "data").glob("*/imported"))
    for stored in list_imports(folder.parent.name, factory.ROOT / "data")
]


@pytest.mark.parametrize("stored", IMPORTS, ids=lambda stored: stored.record.origin.file)
def test_what_was_imported_is_whole(stored: StoredImport) -> None:
    """Its file is the one that was written, its licence lies here, and it can be found again."""
    data = factory.ROOT / "data"
    assert not stored.edited
    assert (factory.ROOT / "LICENSES" / f"{stored.record.origin.licence}.txt").exists()
    assert stored.record.origin.address
    assert stored.record.origin.commit
    assert all(read_attachments(stored, ("*",), data).values())
