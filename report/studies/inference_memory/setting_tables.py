"""The table of operators; its caption stands in the template."""

from __future__ import annotations

from collections.abc import Sequence

from report.paper.declared import Field, table
from report.paper.tables import Table
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import LAYOUT_NAMES
from report.studies.inference_memory.traces import KINDS, Traced


def operator_table(run: Run, traced: Sequence[Traced]) -> Table:
    """The share of each kind of work in the time of one call."""

    def share(kind: str) -> Field[Traced]:
        return Field(kind, "1", lambda row: row.times()[kind] / row.total if row.total else 0, "%")

    return table(
        "tbl-operators",
        traced,
        [
            Field("Network", "", lambda row: row.call.network),
            Field("Batch", "1", lambda row: row.call.batch),
            Field("Layout", "", lambda row: LAYOUT_NAMES[row.call.layout]),
            Field("Operators", "s", lambda row: row.total / 1e9, "ms"),
            *(share(kind) for kind, _ in KINDS),
        ],
        sources=(run.file,),
        wide=True,
    )
