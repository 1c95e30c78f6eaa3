"""A class of many machines: papers stay readable, and a bad record stops none of them."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

import build
from figures.dots import Dots
from figures.render import render
from report.engine.computing import compute
from report.engine.gather import choose
from report.engine.pipeline import ROOT
from report.errors import RecordError
from report.paper.findings import Findings, Inputs
from report.paper.machine_comparison import NAMED
from report.records.editions import ROLES
from report.records.store import write_record
from report.studies import STUDIES
from tests import factory
from tests.classroom import base_record, machine, the_class, write_class
from tests.degraded import DEGRADED, committed, one_of_each_kind
from tests.papers import assert_whole, rows

STUDY = "conv_scaling"
OWN = [study for study in STUDIES if any((ROOT / "data" / study).glob("*.zip"))]
#: More than are told in detail, and than a figure names.
MACHINES = 12
#: About so many cases of each record are enough for what is drawn, and for the one study alone.
MANY, CASES = 80, 20


def with_class(study: str, machines: int, change: str | None = None, cases: int = CASES) -> Inputs:
    """The committed records with a class beside them, all with a part of their cases."""
    inputs = one_of_each_kind(committed(study))
    made = tuple(factory.stored(record) for record in the_class(study, machines, cases))
    inputs = replace(inputs, records=(*made, *inputs.records), roles={})
    return DEGRADED[change](inputs) if change else inputs


def computed(study: str, inputs: Inputs) -> Findings:
    without = {stored.file: {} for stored in inputs.records}
    return compute(study, replace(inputs, attachments={**without, **inputs.attachments}))


def dots(found: Findings) -> Dots:
    (panel,) = found.figures["fig-machines"].drawing.panels
    assert isinstance(panel, Dots)
    return panel


@pytest.mark.parametrize("study", [STUDY, "backend_speedup"])
def test_a_class_makes_one_table_and_one_figure_and_no_more(study: str) -> None:
    inputs = with_class(study, MACHINES, cases=MANY)
    found = computed(study, inputs)
    ids = " ".join((*found.tables, *found.figures, *found.claims))
    assert len({*re.findall(r"laptop-\d+", ids)}) <= len(ROLES)
    listed = rows(found, "tbl-machines")
    assert len(listed) == len(inputs.records)
    assert f"classroom laptop {MACHINES}" in {row["Machine"] for row in listed}
    text = assert_whole(study, found)
    assert "#tbl-machines" in text
    if "fig-machines" in found.figures:  # not where a study has no number that machines share
        assert "#fig-machines" in text and len(dots(found).names) == NAMED + 1


def test_a_hundred_machines_fill_a_longer_table_and_the_same_figure() -> None:
    inputs = with_class(STUDY, 100, cases=8)
    found = computed(STUDY, inputs)
    assert len(found.tables["tbl-machines"].rows) == len(inputs.records)
    panel = dots(found)
    assert panel.names[-1] == f"{found.values['machines_known'].number - NAMED} others"  # type: ignore[operator]
    assert panel.height < 3, "inches"
    assert render(found.figures["fig-machines"].drawing, salt="x").svg


def test_a_class_with_bad_records_is_built_and_the_check_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "class"  # of records alone
    bad = write_class(STUDY, data, 2, CASES)
    command = [STUDY, "--html", "--data", str(data), "--out", str(tmp_path / "out"), "--jobs", "1"]
    for expected, words in ((0, []), (1, ["--check"])):
        assert build.main([*command, *words]) == expected
        said = capsys.readouterr().out
        for path, why in zip(
            bad, ("no whole zip archive", "schema: this field is missing"), strict=True
        ):
            (note,) = [x for x in said.splitlines() if "left out" in x and path.name in x]
            assert why in note and "; " in note, "place, and what to do"
    records = (tmp_path / "out" / "html" / "records.html").read_text("utf-8")
    assert all(path.stem in records for path in bad)
    for page in ("machines.html", f"{STUDY}/index.html"):
        text = (tmp_path / "out" / "html" / page).read_text("utf-8")
        assert "classroom laptop 1" in text and bad[0].stem not in text


def test_a_bad_record_that_is_named_or_in_a_role_or_alone_is_an_error(tmp_path: Path) -> None:
    good, bad = (machine(base_record(STUDY, CASES), number) for number in (1, 2))
    data = factory.data_folder(tmp_path, good)
    path = write_record(bad, data)
    path.write_bytes(b"{")
    file, editions = path.relative_to(data).as_posix(), data / "editions.yaml"
    assert len(choose(STUDY, data).runs) == 1
    roles = (f"[{file}]", bad.environment.key, "")
    for asked, role in (((file,), ""), *(((), role) for role in roles)):
        editions.write_text(f"{STUDY}: {{roles: {{cpu: {role}}}}}\n" if role else "", "utf-8")
        if not asked and not role:  # the last one: nothing else is there
            for path in data.glob(f"{STUDY}/*laptop-1-*"):
                path.unlink()
        with pytest.raises(RecordError, match="no whole zip archive"):
            choose(STUDY, data, asked)
