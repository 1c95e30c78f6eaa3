"""Files of published values: what they keep, and what is said of what they lack."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from report.errors import StudyError
from report.evidence.reported import Unreported, read_reported

DATA = Path(__file__).parents[1] / "data"
FILE = DATA / "reported" / "conv_scaling.json"
SOURCE = read_reported(FILE)


def test_text_and_missing_cells_are_kept_in_the_file(tmp_path: Path) -> None:
    document = json.loads(FILE.read_text(encoding="utf-8"))
    assert json.loads(msgspec.json.encode(SOURCE)) == document
    document["tables"][6]["rows"][0] = ["Conv2d-1", {"missing": "cut off in the print"}, 320]
    path = tmp_path / "data" / "reported" / "conv_scaling.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    table = read_reported(path).table("summary")
    assert table.rows[0] == ("Conv2d-1", Unreported(missing="cut off in the print"), 320)


NONE = read_reported(DATA / "reported" / "none.json")


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda: NONE.table("I"), "^data/reported/none.json: no table 'I': the file is missing"),
        (lambda: SOURCE.table("VII"), "no table 'VII': it has I, II, III, IV, V, VI, summary"),
        (lambda: SOURCE.value("speedup"), "no value 'speedup': it has kernel_height"),
        (lambda: SOURCE.table("I").column("time"), "Table I .* has no column 'time'"),
    ],
)
def test_asking_for_what_is_not_there_tells_what_is(ask: Callable[[], object], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        ask()
