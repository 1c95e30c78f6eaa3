"""Papers of made-up records: their inputs, and checks that every paper must pass."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from itertools import combinations
from math import isclose
from pathlib import Path
from typing import Any

import msgspec
from pytest import approx

from report.core.records.devices import read_devices
from report.core.records.record import Record
from report.core.records.reported import Reported, read_reported
from report.core.statistics.estimates import Estimate
from report.engine import actions
from report.engine.actions import StepTask
from report.engine.steps import ROOT
from report.paper.findings import Findings, Inputs
from report.paper.latex_table import to_latex
from report.paper.manuscript import Manuscript, render_manuscript
from report.paper.tables import Column, Table, TableCell, to_csv
from report.quantity.evaluation import estimate
from report.quantity.expression import Quantity
from report.studies import find_study
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


def assert_distinct(study: str, paper: Findings, equal: Collection[tuple[str, ...]] = ()) -> None:
    """Made-up data are distinct, so that a test notices if two numbers or columns are swapped.

    Values from a record differ by a hundredth, and so do columns.  No interval is symmetric.
    ``equal`` are the exceptions, by theory or an identity: two values, or a table and two of its
    headings.
    """
    records = f"{study}/"
    values = [v for v in paper.values.values() if any(f.startswith(records) for f in v.sources)]
    alike: set[tuple[str, ...]] = {
        (one.id, other.id)
        for one, other in combinations(values, 2)
        if one.unit == other.unit and _close(one.number, other.number)
    }
    columns = [(t.id, c, cells) for t in paper.tables.values() for c, cells in _columns(t)]
    alike |= {
        (table, one.name, other.name)
        for (table, one, cells), (same, other, others) in combinations(columns, 2)
        if table == same and one.unit == other.unit and all(map(_close, cells, others))
    }
    assert alike == {*equal}
    numbers = {value.id: value.number for value in paper.values.values()}
    cells = {f"{id}, {c.name}, {n}": x for id, c, xs in columns for n, x in enumerate(xs)}
    assert [where for where, number in {**numbers, **cells}.items() if _symmetric(number)] == []


def _columns(table: Table) -> Iterator[tuple[Column, tuple[TableCell, ...]]]:
    return zip(table.columns, zip(*table.rows, strict=True), strict=True)


def _close(one: TableCell, other: TableCell) -> bool:
    first, second = (n.value if isinstance(n, Estimate) else n for n in (one, other))
    if isinstance(first, int | float) and isinstance(second, int | float):
        return isclose(first, second, rel_tol=0.01)
    return first == second


def _symmetric(number: TableCell) -> bool:
    """Return whether both ends of an interval of samples are equally far from its value."""
    if not isinstance(number, Estimate) or not number.n or number.low == number.high:
        return False
    return isclose(number.value - number.low, number.high - number.value, rel_tol=1e-3)


def assert_both_sides(
    full: Findings,
    other: Mapping[str, Mapping[str, Findings]],
    beside: Collection[str] = (),
) -> None:
    """Each claim not ``beside`` has the opposite verdict in ``other``, by verdict and claim."""
    expected = {id: verdict for verdict, claims in other.items() for id in claims}
    assert expected.keys() == full.claims.keys() - {*beside}
    for id, verdict in expected.items():
        judged = other[verdict][id].claims[id], full.claims[id]
        assert [claim.verdict for claim in judged] == [verdict, _OPPOSITE[verdict]], judged


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
