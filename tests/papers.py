"""Papers of made-up records: their inputs, and checks that every paper must pass."""

import json
import re
from collections.abc import Collection, Mapping
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from pytest import approx

from report.core.records.record import Record
from report.core.records.reported import Reported, read_devices, read_reported
from report.core.statistics.estimates import Estimate
from report.engine import actions
from report.engine.actions import StepTask
from report.engine.steps import ROOT
from report.paper.findings import Findings, Inputs
from report.paper.latex_table import to_latex
from report.paper.manuscript import Manuscript, render_manuscript
from report.paper.tables import to_csv
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity
from report.studies import find_study, module_of
from tests import factory

_OPPOSITE = {"supported": "refuted", "refuted": "supported"}
_devices = cache(read_devices)


@cache
def reported(study: str) -> Reported:
    return read_reported(ROOT / "data" / "reported" / f"{study}.json")


def printing(study: str, **numbers: float) -> Reported:
    """The source of a study with other numbers: ``_34`` replaces each 34."""
    text = msgspec.json.encode(reported(study)).decode()
    for old, new in numbers.items():
        number = re.escape(old.strip("_"))
        text, count = re.subn(rf"(?<=[\[,:]){number}(?=[\],}}])", str(new), text)
        assert count, old
    return msgspec.json.decode(text, type=Reported)


def inputs_of(study: str, *records: Record, source: Reported | None = None) -> Inputs:
    """Inputs of a study, without attached files."""
    stored = tuple(factory.stored(record) for record in records)
    return Inputs(
        records=stored,
        reported=source or reported(study),
        reported_file=f"reported/{study}.json",
        devices=_devices(ROOT / "data" / "devices.yaml"),
        attachments={item.file: {} for item in stored},
    )


def compose(study: str, data: Path, papers: Path, stage: Path) -> Path:
    """Compute a study and write its source folder, as a build does in steps; returns the folder."""
    task = StepTask(f"{study}/study", stage, data, papers, {"use": "", "style": ""})
    for step in (actions.study, actions.figures, actions.write_source):
        step(task)
    return task.source


def findings_of(study: str, *records: Record, source: Reported | None = None) -> Findings:
    return find_study(study)(inputs_of(study, *records, source=source))


def value_of(quantity: Quantity) -> float:
    """Measured value of a quantity."""
    result = estimate(quantity)
    assert isinstance(result, Estimate), result
    return result.value


def rows(paper: Findings, table: str) -> list[dict[str, Any]]:
    """The rows of a table, heading → cell."""
    content = paper.tables[table]
    headings = [column.name for column in content.columns]
    return [dict(zip(headings, row, strict=True)) for row in content.rows]


def assert_values(
    paper: Findings, expected: Mapping[str, float], rel: float = 5e-3, abs: float = 1e-9
) -> None:
    """Values of made-up records are those of closed forms."""
    numbers = {id_: paper.values[id_].number for id_ in expected}
    values = {id_: n.value if isinstance(n, Estimate) else n for id_, n in numbers.items()}
    assert values == approx(expected, rel=rel, abs=abs)


def verdicts(study: str, inputs: Inputs, *claims: str) -> dict[str, str]:
    """Verdicts of some claims of a study, without the rest of its paper."""
    declared = copy(import_module(module_of(study)).study)
    own = declared._declarations["claims"]
    declared._declarations = {"claims": {id: own[id] for id in claims}}
    declared._reconciliations = declared._audits = _nothing
    return {id: claim.verdict for id, claim in declared.findings(inputs).claims.items()}


def _nothing(data: Any) -> tuple[()]:
    return ()


def assert_both_sides(
    study: str,
    full: Findings,
    other: Mapping[str, Mapping[str, Inputs]],
    beside: Collection[str] = (),
) -> None:
    """Each claim not ``beside`` has the opposite verdict in ``other``, by verdict and claim."""
    expected = {id: verdict for verdict, claims in other.items() for id in claims}
    assert expected.keys() == full.claims.keys() - {*beside}
    assert {id: full.claims[id].verdict for id in expected} == {
        id: _OPPOSITE[verdict] for id, verdict in expected.items()
    }
    for claims in other.values():
        for inputs in {id(inputs): inputs for inputs in claims.values()}.values():
            theirs = [claim for claim, own in claims.items() if own is inputs]
            judged = verdicts(study, inputs, *theirs)
            assert judged == {claim: expected[claim] for claim in theirs}


def rendered(study: str, paper: Findings) -> Manuscript:
    """The paper, with the findings as it captions them."""
    return render_manuscript(ROOT / "templates" / "papers" / f"{study}.qmd.j2", paper)


def written_paper(folder: Path, template: str, paper: Findings) -> Manuscript:
    """The paper of a small template, which is written into ``folder``."""
    path = folder / "study.qmd.j2"
    path.write_text(template, encoding="utf-8")
    return render_manuscript(path, paper)


def assert_whole(study: str, content: Findings | Manuscript) -> str:
    """Write every output, check that it is complete and has no nan; return the manuscript."""
    paper = content if isinstance(content, Manuscript) else rendered(study, content)
    text, found = paper.text, paper.findings
    tables = [write(table) for table in found.tables.values() for write in (to_csv, to_latex)]
    for one in (text, json.dumps(found.as_json(study, ()), allow_nan=False), *tables):
        assert not re.search(r"\b(nan|inf|None|Missing\(|Estimate\()\b", one), one[:500]
    for figure in found.figures.values():
        assert figure.alt.strip() and figure.caption.strip(), figure.id
    named = {*re.findall(r"(?<![\\\w])@((?:tbl|fig|sec|eq)-[\w-]*\w)", text)}
    assert named <= {*re.findall(r"#((?:tbl|fig|sec|eq)-[\w-]*\w)", text)}
    # What follows a line of text directly becomes part of its paragraph.
    outside = re.sub(r"^::: \{#tbl-.*?^:::\n(?=\n)", "\n", text, flags=re.DOTALL | re.MULTILINE)
    assert not re.search(r"[^\n]\n(!\[|::: )(?!\{\.table-notes)", outside)
    return text
