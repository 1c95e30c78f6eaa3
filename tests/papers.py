"""Inputs and findings of papers from chosen records, and checks that every paper must pass.

Findings are the values, tables, figures and claims that a study computes.
"""

import json
import re
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path

import msgspec

from report.commands.check import read_pins
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

_devices = cache(read_devices)


@cache
def reported(study: str) -> Reported:
    """Return the numbers that a study's source (the publication it audits) reports."""
    return read_reported(ROOT / "data" / "reported" / f"{study}.json")


def reported_with(study: str, **numbers: float) -> Reported:
    """Return ``reported(study)`` with other numbers; ``_34=35`` replaces every 34 by 35."""
    text = msgspec.json.encode(reported(study)).decode()
    for old, new in numbers.items():
        number = re.escape(old.strip("_"))
        text, count = re.subn(rf"(?<=[\[,:]){number}(?=[\],}}])", str(new), text)
        assert count, old
    return msgspec.json.decode(text, type=Reported)


def inputs_of(study: str, *records: Record, source: Reported | None = None) -> Inputs:
    """Return inputs of a study without attachments; ``source`` replaces ``reported(study)``."""
    stored = tuple(factory.stored(record) for record in records)
    return Inputs(
        records=stored,
        reported=source or reported(study),
        reported_file=f"reported/{study}.json",
        devices=_devices(ROOT / "data" / "devices.yaml"),
        attachments={item.file: {} for item in stored},
    )


def compose(study: str, data: Path, papers: Path, stage: Path) -> Path:
    """Compute a study and write its source folder as a build does; return the folder.

    ``papers`` is the folder of the templates; ``stage`` is a folder for intermediate files.
    """
    task = StepTask(f"{study}/study", stage, data, papers, {"use": "", "style": ""})
    for step in (actions.study, actions.figures, actions.write_source):
        step(task)
    return task.source


def findings_of(study: str, *records: Record) -> Findings:
    return find_study(study)(inputs_of(study, *records))


def value_of(quantity: Quantity) -> float:
    """Return the estimate of a quantity; fail if its value is missing."""
    result = estimate(quantity)
    assert isinstance(result, Estimate), result
    return result.value


def verdicts(study: str, inputs: Inputs, *claims: str) -> dict[str, str]:
    """Return claim → verdict of these claims; compute nothing else of the study."""
    declared = copy(import_module(module_of(study)).study)
    declarations = declared._declarations["claims"]
    declared._declarations = {"claims": {claim: declarations[claim] for claim in claims}}
    declared._reconciliations = declared._audits = lambda data: ()
    results = declared.findings(inputs).claims
    return {claim: result.verdict for claim, result in results.items()}


def assert_other_verdicts(study: str, *cases: tuple[str, Inputs, *tuple[str, ...]]) -> None:
    """Assert that every claim of a study has another verdict than the pinned one in some case.

    ``cases``: expected verdict, inputs, and the claims with this verdict.
    """
    pinned, changed = read_pins(study, ROOT / "data"), set[str]()
    assert pinned
    for verdict, inputs, *claims in cases:
        assert verdicts(study, inputs, *claims) == dict.fromkeys(claims, verdict)
        changed |= {claim for claim in claims if pinned.claims[claim]["verdict"] != verdict}
    assert changed == pinned.claims.keys()


def render_paper(study: str, paper: Findings) -> Manuscript:
    """Render the template of a study's paper with ``paper``."""
    return render_manuscript(ROOT / "templates" / "papers" / f"{study}.qmd.j2", paper)


def render_template(folder: Path, template: str, paper: Findings) -> Manuscript:
    """Write the text ``template`` into ``folder`` and render it with ``paper``."""
    path = folder / "study.qmd.j2"
    path.write_text(template, encoding="utf-8")
    return render_manuscript(path, paper)


def assert_whole(study: str, content: Findings | Manuscript) -> str:
    """Check that a paper is complete and well formed; return the manuscript's text.

    No output contains a missing value or nan, every figure has a caption and an alternative text,
    all references of the text exist, and blocks are separated by empty lines.
    """
    paper = content if isinstance(content, Manuscript) else render_paper(study, content)
    text, findings = paper.text, paper.findings
    outputs = [text, json.dumps(findings.as_json(study, ()), allow_nan=False)]
    for table in findings.tables.values():
        outputs += [to_csv(table), to_latex(table)]
    for output in outputs:
        assert not re.search(r"\b(?:(?:nan|inf|None)\b|(?:Missing|Estimate)\()", output)
    for figure in findings.figures.values():
        assert figure.alt.strip() and figure.caption.strip(), figure.id
    references = {*re.findall(r"(?<![\\\w])@((?:tbl|fig|sec|eq)-[\w-]*\w)", text)}
    assert references <= {*re.findall(r"#((?:tbl|fig|sec|eq)-[\w-]*\w)", text)}
    # A figure or div directly after a line of text would become part of the text's paragraph.
    without_tables = re.sub(
        r"^::: \{#tbl-.*?^:::\n(?=\n)", "\n", text, flags=re.DOTALL | re.MULTILINE
    )
    assert not re.search(r"[^\n]\n(!\[|::: )(?!\{\.table-notes)", without_tables)
    return text
