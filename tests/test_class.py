"""A class of many machines: papers stay readable, and a bad record stops none of them."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from figures.panels import Dots
from report.core.records.choice import ROLES
from report.core.records.record import Record
from report.engine.gather import compute
from report.paper.findings import Findings, Inputs
from report.paper.machines import DRAWN
from tests import factory
from tests.degraded import committed, one_of_each_kind, small
from tests.papers import assert_whole, compose, rows
from tests.test_conv_scaling import record as whole_record

STUDY = "conv_scaling"


def machine(study: str, number: int) -> Record:
    """A small record of «classroom laptop ``number``»."""
    name = f"classroom laptop {number}"
    return msgspec.structs.replace(
        whole_record(slower=1 + number / 100) if study == STUDY else small(study),
        started=f"2026-12-01T{number // 60:02}:{number % 60:02}:00Z",
        finished="2026-12-31T00:00:00Z",
        environment=factory.environment(name.replace(" ", "-"), name=name),
        attachments=(),
    )


def computed(study: str, machines: int) -> tuple[Inputs, Findings]:
    """The committed records with those of a class beside them, of few cases each."""
    inputs = one_of_each_kind(committed(study))
    made = tuple(factory.stored(machine(study, n)) for n in range(1, machines + 1))
    inputs = replace(inputs, records=(*made, *inputs.records), roles={})
    without = {stored.file: {} for stored in inputs.records}
    inputs = replace(inputs, attachments={**without, **inputs.attachments})
    return inputs, compute(study, inputs)


@pytest.mark.parametrize(("study", "machines"), [("backend_speedup", 12), (STUDY, 100)])
def test_a_class_makes_one_table_and_one_figure_and_no_more(study: str, machines: int) -> None:
    inputs, found = computed(study, machines)
    ids = " ".join((*found.tables, *found.figures, *found.claims))
    assert len({*re.findall(r"laptop-\d+", ids)}) <= len(ROLES)
    listed = rows(found, "tbl-machines")
    assert len(listed) == len(inputs.records)
    assert f"classroom laptop {machines}" in {row["Machine"] for row in listed}
    text = assert_whole(study, found)
    assert "#tbl-machines" in text
    if study == STUDY:  # small records of the other one lack the number that it compares
        assert "#fig-machines" in text
        assert "intervals, at a lower level where few processes measured" in text
        (panel,) = found.figures["fig-machines"].drawing.panels
        known = found.values["machines_known"].number
        assert isinstance(panel, Dots) and known == machines + 1, "one of the committed ones too"
        assert len(panel.names) == min(known, DRAWN) and panel.height < 7.5, "inches"


def test_the_pictures_of_an_author_lie_beside_the_template(tmp_path: Path) -> None:
    """Links are left: they may lead to any file of the machine."""
    (tmp_path / "secret.png").write_bytes(b"secret")
    own = tmp_path / "papers" / STUDY
    own.mkdir(parents=True)
    (own / "setup.png").write_bytes(b"own")
    (own / "linked.png").symlink_to(tmp_path / "secret.png")
    template = factory.ROOT / "templates" / "papers" / f"{STUDY}.qmd.j2"
    (own.parent / template.name).write_bytes(template.read_bytes())
    source = compose(STUDY, factory.data_folder(tmp_path), own.parent, tmp_path / "one")
    assert [path.name for path in (source / "pictures").iterdir()] == ["setup.png"]
