"""Published values and data sheets: looked up by name, and what is said of what they lack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from report.errors import StudyError
from report.evidence.devices import read_devices
from report.evidence.reported import Unreported, read_reported

DATA = Path(__file__).parents[1] / "data"
DEVICES = read_devices(DATA / "devices.yaml")
FILE = DATA / "reported" / "conv_scaling.json"
SOURCE = read_reported(FILE)
NONE = read_reported(DATA / "reported" / "none.json")


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ("Tesla V100-SXM2-16GB", "v100-sxm2"),
        ("A100-PCIE-40GB", "a100-40gb"),
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("nvidia h200", "h200"),
        ("NVIDIA GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "rtx-pro-6000-max-q"),
        ("Tesla V100-PCIE-16GB", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA H200 NVL", None),
        ("Tesla T40 24GB", None),
        ("AMD EPYC 7763 64-Core Processor", None),
        ("", None),
    ],
)
def test_a_model_text_names_its_device_or_none(model: str, key: str | None) -> None:
    found = DEVICES.find(model)
    assert (found and found.key) == key


def test_text_and_missing_cells_are_kept_in_the_file(tmp_path: Path) -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    assert json.loads(msgspec.json.encode(SOURCE)) == document
    document["tables"][6]["rows"][0] = ["Conv2d-1", {"missing": "cut off in the print"}, 320]
    path = tmp_path / "reported" / "conv_scaling.json"
    path.parent.mkdir()
    path.write_text(json.dumps(document), encoding="utf-8")
    table = read_reported(path).table("summary")
    assert table.rows[0] == ("Conv2d-1", Unreported(missing="cut off in the print"), 320)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: NONE.table("I"), "^data/reported/none.json: no table 'I': the file is missing"),
        (lambda: SOURCE.table("VII"), "no table 'VII': it has I, II, III, IV, V, VI, summary"),
        (lambda: SOURCE.table("I", rows=9), "Table I: expected 9 rows, found 5"),
        (lambda: SOURCE.value("speedup"), "no value 'speedup': it has kernel_height"),
        (lambda: SOURCE.table("I").column("time"), "Table I .* has no column 'time'"),
    ],
)
def test_asking_for_what_is_not_there_tells_what_is(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        ask()
