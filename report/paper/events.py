"""The events of an allocator as a reader sees them."""

from __future__ import annotations

from report.evidence.events import Explanation
from report.paper.tables import Column, Table


def event_table(found: Explanation, id: str, caption: str, sources: tuple[str, ...] = ()) -> Table:
    """A row an event."""
    columns = (Column("Event", "1"), Column("Change", "B"), Column("Live", "B"), Column("Is"))
    rows = tuple((e.number, e.change, e.live, e.name) for e in found.events)
    return Table(id, caption, columns, rows, sources=sources)
