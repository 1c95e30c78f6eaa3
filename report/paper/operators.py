"""The operators of a trace as a reader sees them."""

from __future__ import annotations

from report.instruments.operators import OperatorRow
from report.paper.tables import Column, Table


def operator_table(
    rows: tuple[OperatorRow, ...], id: str, caption: str, *, sources: tuple[str, ...] = ()
) -> Table:
    """All that is known of each operator; device time only where a device worked."""
    device = any(row.total.device_time for row in rows)
    columns = (
        Column("Operator"),
        Column("Calls", "1"),
        Column("Time", "s", "µs"),
        Column("Self time", "s", "µs"),
        *((Column("Device time", "s", "µs"),) if device else ()),
        Column("Size", "B"),
        Column("Self size", "B"),
        Column("Given", "B"),
        Column("Self given", "B"),
        Column("Times", "1"),
        Column("Self times", "1"),
    )
    cells = tuple(
        (
            row.name,
            row.calls,
            row.time / 1e9,
            row.self_time / 1e9,
            *((row.total.device_time / 1e9,) if device else ()),
            *(row.total.size, row.own.size, row.total.allocated, row.own.allocated),
            *(row.total.allocations, row.own.allocations),
        )
        for row in rows
    )
    return Table(id, caption, columns, cells, sources=sources, wide=True)
