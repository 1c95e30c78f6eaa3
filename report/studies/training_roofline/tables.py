"""The tables of training_roofline; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from report.evidence.audit import Check
from report.paper.audit_table import audit_table
from report.paper.declared import Field, table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.tables import Table
from report.studies.training_roofline.corrected import corrected
from report.studies.training_roofline.measured import Run
from report.studies.training_roofline.paradox import corrections
from report.studies.training_roofline.source import source_setup
from report.studies.training_roofline.source_audit import telling
from report.studies.training_roofline.source_tables import (
    complexity_table,
    corrected_table,
    intensity_table,
    kept_table,
    paradox_table,
)
from report.studies.training_roofline.theory import Complexity


def all_tables(
    inputs: Inputs,
    runs: Sequence[Run],
    complexities: dict[str, Complexity],
    by_kind: Mapping[str, Sequence[Check]],
) -> Iterator[Table]:
    """Every table that the data have."""
    yield setup(inputs, runs, source_setup(inputs.reported))
    yield complexity_table(inputs, complexities)
    yield intensity_table(inputs, complexities)
    checks = tuple(chain.from_iterable(by_kind.values()))
    yield audit_table("tbl-audit", "", checks, (inputs.reported_file,))
    yield _telling(inputs, telling(by_kind))
    cases = corrected(inputs, complexities)
    yield corrected_table(inputs, cases)
    yield paradox_table(corrections(inputs, cases))
    yield kept_table(complexities)


def _telling(inputs: Inputs, checks: Sequence[Check]) -> Table:
    """The numbers of the source that differ, as printed and computed again."""
    return table(
        "tbl-telling",
        checks,
        [
            Field("Printed where", "", lambda check: check.derived.place),
            Field("Computed from", "", lambda check: check.formula),
            Field("Printed", "", lambda check: f"{check.derived.text} {_unit(check)}".strip()),
            Field("Recomputed", "", lambda check: f"{float(check.recomputed):.3g} {_unit(check)}"),
            Field("Ratio", "", lambda check: f"{check.factor:.2f}" if check.factor else "none"),
        ],
        sources=(inputs.reported_file,),
        wide=True,
    )


def _unit(check: Check) -> str:
    return "" if check.derived.unit == "1" else check.derived.unit
