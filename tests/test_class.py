"""A class of many machines: papers stay readable, and a bad record stops none of them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

import build
from figures.dots import Dots
from figures.drawing.render import render
from report.engine.computing import compute
from report.engine.gather import choose
from report.engine.pipeline import ROOT
from report.errors import RecordError
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import DETAILED, NAMED, ROWS, detailed
from report.records.record import Case
from report.records.store import write_record
from report.studies import STUDIES
from tests import factory
from tests.classroom import base_record, machine, the_class, write_class
from tests.degraded import DEGRADED, committed, one_of_each_kind
from tests.papers import assert_whole, rows

STUDY = "conv_scaling"
OWN = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.json"))]
MACHINES = 30
#: About so many cases of each record are enough for what is drawn, and for the one study alone.
MANY, CASES = 80, 20


def with_class(study: str, machines: int, change: str | None = None, cases: int = CASES) -> Inputs:
    """The committed records with a class beside them, all with a part of their cases."""
    inputs = one_of_each_kind(committed(study))
    made = tuple(factory.stored(record) for record in the_class(study, machines, cases))
    inputs = replace(inputs, records=(*made, *inputs.records))
    return DEGRADED[change](inputs) if change else inputs


def computed(study: str, inputs: Inputs) -> Findings:
    without = {stored.file: {} for stored in inputs.records}
    return compute(study, replace(inputs, attachments={**without, **inputs.attachments}))


def dots(found: Findings) -> Dots:
    (panel,) = found.figures["fig-machines"].drawing.panels
    assert isinstance(panel, Dots)
    return panel


@pytest.mark.parametrize("study", OWN)
def test_a_class_makes_one_table_and_one_figure_and_no_more(study: str) -> None:
    inputs = with_class(study, MACHINES, cases=MANY)
    found = computed(study, inputs)
    ids = " ".join((*found.tables, *found.figures, *found.claims))
    assert len({*re.findall(r"laptop-\d+", ids)}) <= DETAILED
    listed = rows(found, "tbl-machines")
    assert len(listed) == len(inputs.records)
    assert f"classroom laptop {MACHINES}" in {row["Machine"] for row in listed}
    text = assert_whole(study, found)
    assert all(f"#{id_}" in text for id_ in ("tbl-machines", "fig-machines"))
    assert len(dots(found).names) <= NAMED + 1


@pytest.mark.parametrize("change", ["no samples", "hostile text"])
def test_what_machines_lack_is_missing_in_their_rows(change: str) -> None:
    for study in (STUDY, "backend_speedup"):
        assert_whole(study, computed(study, with_class(study, DETAILED + 2, change)))


def test_a_hundred_machines_fill_further_tables_and_the_same_figure() -> None:
    inputs = with_class(STUDY, 100)
    found = computed(STUDY, inputs)
    tables = [table for id_, table in found.tables.items() if id_.startswith("tbl-machines")]
    assert [len(table.rows) for table in tables] == [ROWS, ROWS, len(inputs.records) - 2 * ROWS]
    panel = dots(found)
    assert panel.names[-1] == f"{found.values['machines_known'].number - NAMED} others"  # type: ignore[operator]
    assert panel.height < 3, "inches"
    assert render(found.figures["fig-machines"].drawing, salt="x").svg
    counted = ("machines_above", "machines_below", "machines_undecided")
    known = [found.values[id_].number for id_ in ("machines_known", *counted)]
    assert known[0] == sum(known[1:])  # type: ignore[arg-type]


def test_machines_that_are_named_are_told_in_detail() -> None:
    inputs = with_class(STUDY, MACHINES)
    own = detailed(inputs).records
    assert len(own) == DETAILED
    assert {stored.record.environment.device for stored in own} == {"cpu", "cuda"}
    kept = [len(s.record.attachments) for s in own if s.record.protocol.plan == "full"]
    assert kept == sorted(kept, reverse=True) and kept[0] > 0, "the best measured comes first"
    laptop = inputs.records[6]
    named = (replace(s, named=s.file == laptop.file) for s in inputs.records)
    told = detailed(replace(inputs, records=tuple(named)))
    on_cpu = [s for s in told.records if s.record.environment.device == "cpu"]
    assert [s.file for s in on_cpu] == [laptop.file] and len(told.records) == 2
    assert detailed(told) is told, "few machines are all told"


# ------------------------------------------------------------------------------- bad records


def test_a_class_with_bad_records_is_built_and_the_check_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = factory.data_folder(tmp_path)
    bad = write_class(STUDY, data, MACHINES, CASES)
    command = [STUDY, "--html", "--data", str(data), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert build.main(command) == 0
    said = capsys.readouterr().out
    for path, why in zip(bad, ("cases[", "schema: this field is missing"), strict=True):
        (note,) = [line for line in said.splitlines() if "left out" in line and path.name in line]
        assert why in note and "; " in note, "place, and what to do"
    assert build.main([*command, "--check"]) == 1
    said = capsys.readouterr().out
    assert all(f"left out: data/{STUDY}/{path.name}" in said for path in bad)
    page = (tmp_path / "out" / "html" / STUDY / "index.html").read_text("utf-8")
    assert "classroom laptop 29" in page and bad[0].stem not in page
    records = (tmp_path / "out" / "html" / "records.html").read_text("utf-8")
    assert all(path.stem in records for path in bad)
    machines = (tmp_path / "out" / "html" / "machines.html").read_text("utf-8")
    assert all(f"classroom laptop {number}" in machines for number in range(1, MACHINES))


def _of_another_study(path: Path) -> None:
    path.write_text(path.read_text("utf-8").replace('"study": "conv_scaling"', '"study": "other"'))


def _huge(path: Path) -> None:
    os.truncate(path, 2**30)


def _foreign_factor(path: Path) -> None:
    """As another version of the experiment writes it: the hash in its name is right."""
    path.unlink()
    record = machine(base_record(STUDY, CASES), 2)
    cases = tuple(_coloured(case) for case in record.cases)
    write_record(msgspec.structs.replace(record, cases=cases), path.parent.parent)


def _coloured(case: Case) -> Case:
    return msgspec.structs.replace(case, factors={**case.factors, "colour": "red"})


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda path: path.write_bytes(b""), "not valid JSON"),
        (lambda path: path.write_bytes(b"\xff\xfe" * 99), "not UTF-8"),
        (lambda path: path.write_bytes(path.read_bytes()[:999]), "found the end of the file"),
        (_of_another_study, "in the folder 'conv_scaling'"),
        (_huge, "more than any run writes"),
        (_foreign_factor, "factors.colour"),
        (
            lambda path: path.write_text(path.read_text().replace('"seed": 0', '"seed": 1')),
            "edited",
        ),
        (lambda path: path.rename(path.with_name("mine.json")), "found a name that is not"),
    ],
    ids=["empty", "binary", "cut off", "study", "huge", "version", "edited", "renamed"],
)
def test_a_bad_record_is_left_out_with_its_place_and_what_to_do(
    spoil: Callable[[Path], None], why: str, tmp_path: Path
) -> None:
    first, second = (machine(base_record(STUDY, CASES), number) for number in (1, 2))
    data = factory.data_folder(tmp_path, first)
    path = write_record(second, data)
    assert len(choose(STUDY, data).runs) == 2
    spoil(path)
    chosen = choose(STUDY, data)
    assert [run[0] for run in chosen.runs] == [factory.stored(first).file]
    assert chosen.notices[0].startswith(f"left out: data/{STUDY}/") and why in chosen.notices[0]
    assert sum(each.get("left_out", False) for each in chosen.listing) == 1


def test_a_bad_record_that_is_named_or_alone_is_an_error(tmp_path: Path) -> None:
    data = factory.data_folder(tmp_path, machine(base_record(STUDY, CASES), 1))
    path = write_record(machine(base_record(STUDY, CASES), 2), data)
    path.write_bytes(b"{")
    file = path.relative_to(data).as_posix()
    with pytest.raises(RecordError, match="not valid JSON"):
        choose(STUDY, data, (file,))
    (data / "pins.yaml").write_text(f"{STUDY}: [{file}]\n", "utf-8")
    with pytest.raises(RecordError, match="not valid JSON"):
        choose(STUDY, data)
    (data / "pins.yaml").unlink()
    for good in data.glob(f"{STUDY}/*laptop-1-*"):
        good.unlink()
    with pytest.raises(RecordError, match="not valid JSON"):
        choose(STUDY, data)


def test_a_record_whose_files_are_not_beside_it_is_left_out(tmp_path: Path) -> None:
    data = factory.data_folder(tmp_path, machine(base_record(STUDY, CASES), 1))
    source = next((ROOT / "data" / STUDY).glob("20261122T173825Z-*.json"))
    (data / STUDY / source.name).write_bytes(source.read_bytes())
    chosen = choose(STUDY, data)
    assert len(chosen.runs) == 1
    assert chosen.notices[0].startswith(f"left out: data/{STUDY}/{source.name}: ")
    assert f"{source.stem}/onednn." in chosen.notices[0] and "No such file" in chosen.notices[0]
