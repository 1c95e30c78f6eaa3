"""Papers of a class of many machines, which one table and one figure show."""

import re
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from figures.panels import Dots
from report.core.records.choice import ROLES
from report.core.records.record import Record
from report.evaluation.gather import compute
from report.paper.findings import Findings, Inputs
from report.paper.machines import MOST_DRAWN
from tests import factory
from tests.degraded import committed_inputs, slower_record, thinned_inputs
from tests.papers import assert_whole, compose

STUDY = "conv_scaling"


def machine(study: str, number: int) -> Record:
    """Return a small record of the machine «classroom laptop ``number``»."""
    name = f"classroom laptop {number}"
    return msgspec.structs.replace(
        slower_record(study, 1 + number / 100),
        started=f"2026-12-01T{number // 60:02}:{number % 60:02}:00Z",
        finished="2026-12-31T00:00:00Z",
        environment=factory.environment(name.replace(" ", "-"), name=name, threads=1),
        attachments=(),
    )


def compute_with_class(study: str, machines: int) -> tuple[Inputs, Findings]:
    """Compute a paper of committed records and of records of a class, with few cases per record."""
    inputs = thinned_inputs(committed_inputs(study))
    class_records = tuple(factory.stored(machine(study, n)) for n in range(1, machines + 1))
    inputs = replace(inputs, records=(*class_records, *inputs.records), roles={})
    no_attachments = {stored.file: {} for stored in inputs.records}
    inputs = replace(inputs, attachments={**no_attachments, **inputs.attachments})
    return inputs, compute(study, inputs)


@pytest.mark.parametrize(("study", "machines"), [("backend_speedup", 12), (STUDY, MOST_DRAWN + 2)])
def test_a_class_adds_one_table_and_one_figure(study: str, machines: int) -> None:
    inputs, findings = compute_with_class(study, machines)
    ids = " ".join((*findings.tables, *findings.figures, *findings.claims))
    assert len({*re.findall(r"laptop-\d+", ids)}) <= len(ROLES)
    named = [row[0] for row in findings.tables["tbl-machines"].rows]
    assert len(named) == len(inputs.records) and f"classroom laptop {machines}" in named
    text = assert_whole(study, findings)
    assert "#tbl-machines" in text
    if study == STUDY:  # the small records of backend_speedup lack the compared number
        assert "#fig-machines" in text
        assert "intervals, at a lower level where few processes measured" in text
        (panel,) = findings.figures["fig-machines"].drawing.panels
        known = findings.values["machines_known"].number
        assert isinstance(panel, Dots) and known == machines + 1, "with one committed machine"
        assert len(panel.names) == min(known, MOST_DRAWN) and panel.height < 7.5, "inches"


def test_pictures_of_authors_are_copied_from_the_template_folder(tmp_path: Path) -> None:
    """Links are not copied, since they may point to any file of the machine."""
    (tmp_path / "secret.png").write_bytes(b"secret")
    pictures = tmp_path / "papers" / STUDY
    pictures.mkdir(parents=True)
    (pictures / "setup.png").write_bytes(b"own")
    (pictures / "linked.png").symlink_to(tmp_path / "secret.png")
    template = factory.ROOT / "templates" / "papers" / f"{STUDY}.qmd.j2"
    (pictures.parent / template.name).write_bytes(template.read_bytes())
    source = compose(STUDY, factory.data_folder(tmp_path), pictures.parent, tmp_path / "stage")
    assert [path.name for path in (source / "pictures").iterdir()] == ["setup.png"]
