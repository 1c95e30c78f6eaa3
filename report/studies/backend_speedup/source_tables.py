"""The table of the source; its caption stands in the template."""

from __future__ import annotations

from report.evidence.audit import printed_value
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.tables import Table
from report.studies.backend_speedup.source import (
    OPERATION_ROWS,
    PERFORMANCE_ROWS,
    SIDES,
    cell,
    text,
)


def source_performance_table(inputs: Inputs) -> Table:
    """The source's Tables 3 and 4 in one, with the decimals of the print."""
    names = ("total_time_cpu", "total_time_gpu", "total_speedup")
    totals = [text(printed_value(inputs.reported, name)) for name in names]
    rows: list[tuple[str, ...]] = [("Whole training, s", *totals)]
    for of, printed in (("3", PERFORMANCE_ROWS), ("4", OPERATION_ROWS)):
        for row, name in printed.items():
            cells = (cell(inputs.reported, of, row, side) for side in (*SIDES, "speedup"))
            rows.append((f"{name}, ms", *map(text, cells)))
    return table(
        "tbl-source-performance",
        rows,
        [
            Field("Quantity", "", lambda row: row[0]),
            Field("CPU, NumPy", "", lambda row: row[1]),
            Field("GPU, CuPy", "", lambda row: row[2]),
            Field("Speed-up", "1", lambda row: row[3]),
        ],
        sources=(inputs.reported_file,),
    )
