"""A class of many machines: papers stay readable, and a bad record stops none of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random

import msgspec
import pytest

import build
from figures.panels import Dots
from figures.render import render
from report.engine.computing import compute
from report.engine.gather import choose
from report.engine.pipeline import ROOT
from report.errors import RecordError
from report.paper.findings import Findings, Inputs
from report.paper.machines import DRAWN
from report.records.editions import ROLES
from report.records.quantities import QUANTITIES
from report.records.record import Case, Measured, Record
from report.records.store import read_study, write_record
from tests import factory
from tests.degraded import committed, one_of_each_kind
from tests.papers import assert_whole, rows

STUDY = "conv_scaling"
#: More than are told in detail, and than a figure names.
MACHINES = 12
_changed = msgspec.structs.replace


@cache
def base_record(study: str, cases: int) -> Record:
    """The newest committed record of a CPU with about so many cases, one of each subject too."""
    found = [stored.record for stored in read_study(study, ROOT / "data")]
    newest = next(r for r in reversed(found) if r.environment.device == "cpu")
    every = max(1, len(newest.cases) // cases)
    first = {case.factors["subject"]: i for i, case in reversed(list(enumerate(newest.cases)))}
    few = (c for i, c in enumerate(newest.cases) if i % every == 0 or i in first.values())
    return _changed(newest, attachments=(), cases=tuple(few))


def machine(base: Record, number: int) -> Record:
    """The record of «classroom laptop ``number``»: another identity, and all times scaled."""
    random = Random(number)
    slow = 2 ** random.uniform(0.5, 3)

    def timed(series: Measured, factor: float) -> Measured:
        return {
            name: tuple(x * factor for x in samples) if QUANTITIES[name].unit == "s" else samples
            for name, samples in series.items()
        }

    def of_case(case: Case) -> Case:
        # No two machines are slower by the same factor in all that they do.
        factor = slow * 2 ** random.gauss(0, 0.1)
        rounds = tuple(_changed(r, series=timed(r.series, factor)) for r in case.rounds)
        return _changed(case, series=timed(case.series, factor), rounds=rounds)

    host = base.environment.host
    assert host is not None, "the newest records know their host"
    environment = _changed(
        base.environment,
        key=f"classroom-laptop-{number}",
        name=f"classroom laptop {number}",
        host=_changed(host, machine=f"{number:012x}"),
        missing={k: why for k, why in base.environment.missing.items() if k != "name"},
    )
    return _changed(
        base,
        started=f"2026-12-01T{number // 60:02}:{number % 60:02}:00Z",
        finished="2026-12-31T00:00:00Z",
        environment=environment,
        cases=tuple(map(of_case, base.cases)),
        ceilings=tuple(
            _changed(c, samples=tuple(x * slow for x in c.samples)) for c in base.ceilings
        ),
    )


def the_class(study: str, machines: int, cases: int) -> Iterator[Record]:
    """The records of a class of so many machines, of about so many cases each."""
    base = base_record(study, cases)
    return (machine(base, number) for number in range(1, machines + 1))


def computed(study: str, machines: int, cases: int) -> tuple[Inputs, Findings]:
    """The committed records with a class beside them, all with a part of their cases."""
    inputs = one_of_each_kind(committed(study))
    made = tuple(factory.stored(record) for record in the_class(study, machines, cases))
    inputs = replace(inputs, records=(*made, *inputs.records), roles={})
    without = {stored.file: {} for stored in inputs.records}
    inputs = replace(inputs, attachments={**without, **inputs.attachments})
    return inputs, compute(study, inputs)


def dots(found: Findings) -> Dots:
    (panel,) = found.figures["fig-machines"].drawing.panels
    assert isinstance(panel, Dots)
    return panel


@pytest.mark.parametrize("study", [STUDY, "backend_speedup"])
def test_a_class_makes_one_table_and_one_figure_and_no_more(study: str) -> None:
    inputs, found = computed(study, MACHINES, 80)
    ids = " ".join((*found.tables, *found.figures, *found.claims))
    assert len({*re.findall(r"laptop-\d+", ids)}) <= len(ROLES)
    listed = rows(found, "tbl-machines")
    assert len(listed) == len(inputs.records)
    assert f"classroom laptop {MACHINES}" in {row["Machine"] for row in listed}
    text = assert_whole(study, found)
    assert "#tbl-machines" in text
    if "fig-machines" in found.figures:  # not where a study has no number that machines share
        assert (
            "#fig-machines" in text
            and len(dots(found).names) == found.values["machines_known"].number
        )


def test_a_hundred_machines_fill_a_longer_table_and_the_same_figure() -> None:
    inputs, found = computed(STUDY, 100, 8)
    assert len(found.tables["tbl-machines"].rows) == len(inputs.records)
    panel = dots(found)
    assert len(panel.names) == DRAWN
    assert panel.height < 7.5, "inches"
    assert render(found.figures["fig-machines"].drawing, salt="x").svg


def test_a_class_with_bad_records_is_built_and_the_check_names_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "class"  # of records alone
    _, cut = (write_record(record, data) for record in the_class(STUDY, 2, 20))
    cut.write_bytes(cut.read_bytes()[:1000])
    foreign = data / STUDY / "20261123T120000Z-a-laptop-0123abcd.zip"
    factory.file_record(foreign, b'{"context": {"date": "2026-11-23"}, "benchmarks": []}')
    reasons = {cut: "no whole zip archive", foreign: "schema: this field is missing"}
    command = [STUDY, "--html", "--data", str(data), "--out", str(tmp_path / "out"), "--jobs", "1"]
    for expected, words in ((0, []), (1, ["--check"])):
        assert build.main([*command, *words]) == expected
        said = capsys.readouterr().out
        for path, why in reasons.items():
            (note,) = [x for x in said.splitlines() if "left out" in x and path.name in x]
            assert why in note and "; " in note, "place, and what to do"
    pages = tmp_path / "out" / "html"
    assert all(path.stem in (pages / "records.html").read_text("utf-8") for path in reasons)
    for page in ("machines.html", f"{STUDY}/index.html"):
        text = (pages / page).read_text("utf-8")
        assert "classroom laptop 1" in text and cut.stem not in text


def test_a_bad_record_that_is_named_or_in_a_role_or_alone_is_an_error(tmp_path: Path) -> None:
    good, bad = the_class(STUDY, 2, 20)
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
