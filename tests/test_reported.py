"""The numbers of the source against each other, against theory, and every kind of bad file."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from report.errors import StudyError
from report.evidence.reported import Reported, Unreported, read_reported
from report.theory.shapes import elements
from report.theory.work import flops, macs, output_bytes, parameter_bytes
from tests.networks import mnist_conv2

DATA = Path(__file__).parents[1] / "data"
FILE = DATA / "reported" / "conv_scaling.json"
SOURCE = read_reported(FILE)
BATCHES = (16, 32, 64, 128, 256)


def numbers(table: str, column: str) -> tuple[int, ...]:
    cells = SOURCE.table(table).column(column)
    assert all(isinstance(cell, int) for cell in cells)
    return cells  # type: ignore[return-value]


# ----------------------------------------------------------------------- against report.theory.work


def test_theory_is_what_we_compute() -> None:
    layers = [mnist_conv2(batch) for batch in BATCHES]
    assert numbers("I", "theoretical_flops") == tuple(flops(macs(x)) for x in layers)
    footprints = tuple(parameter_bytes(x) + output_bytes(x) for x in layers)
    assert numbers("II", "theoretical_memory") == footprints
    assert numbers("IV", "allocated_memory") == tuple(map(output_bytes, layers))
    assert numbers("III", "multiply_add") == tuple(macs(x) for x in layers)
    assert numbers("III", "add") == tuple(elements(x.output_shape) for x in layers)


# ------------------------------------------------------------------------------- the file


def test_the_file_reads_back_the_same() -> None:
    assert msgspec.json.decode(msgspec.json.encode(SOURCE), type=Reported) == SOURCE
    assert json.loads(msgspec.json.encode(SOURCE)) == json.loads(FILE.read_text(encoding="utf-8"))


def written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "data" / "reported" / "conv_scaling.json"
    path.parent.mkdir(parents=True)
    text = document if isinstance(document, str) else json.dumps(document)
    path.write_text(text, encoding="utf-8")
    return path


def test_text_and_missing_cells_are_kept(tmp_path: Path) -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    document["tables"][6]["rows"][0] = ["Conv2d-1", {"missing": "cut off in the print"}, 320]
    table = read_reported(written(tmp_path, document)).table("summary")
    assert table.rows[0] == ("Conv2d-1", Unreported(missing="cut off in the print"), 320)


def test_a_study_without_a_file_has_no_source_and_is_told_so_when_it_asks(tmp_path: Path) -> None:
    nothing = read_reported(tmp_path / "data" / "reported" / "none.json")
    assert nothing.source == ""
    with pytest.raises(
        StudyError, match=r"^data/reported/none.json: no table 'I': the file is missing"
    ):
        nothing.table("I")


def test_asking_for_what_is_not_there_tells_what_is() -> None:
    with pytest.raises(StudyError, match=r"no table 'VII': it has I, II, III, IV, V, VI, summary"):
        SOURCE.table("VII")
    with pytest.raises(StudyError, match="no value 'speedup': it has kernel_height"):
        SOURCE.value("speedup")
    with pytest.raises(StudyError, match="Table I of the reported values has no column 'time'"):
        SOURCE.table("I").column("time")
