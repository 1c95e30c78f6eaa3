"""The tables of inference_memory; their captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from report.paper.audit_table import audit_table
from report.paper.environments import setup
from report.paper.findings import Inputs
from report.paper.tables import Table
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory_tables import (
    agreement_table,
    limit_table,
    peak_table,
)
from report.studies.inference_memory.network_tables import network_table
from report.studies.inference_memory.source import checks


def all_tables(inputs: Inputs, runs: Sequence[Run], primary: Run | None) -> Iterator[Table]:
    """Every table that the data have; those without a row are left out."""
    yield network_table(inputs, runs)
    yield setup(inputs, runs)
    yield audit_table("tbl-audit", "", checks(inputs.reported), (inputs.reported_file,))
    found = [limit_table(runs)]
    if primary is not None:
        found += [peak_table(primary), agreement_table(primary)]
    yield from (each for each in found if each.rows)
