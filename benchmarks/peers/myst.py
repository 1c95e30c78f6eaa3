"""What the two peers share whose documents are MyST Markdown with code cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from benchmarks.peers.work import Syntax

_CELL: Final = """\
```{{code-cell}} python3
:tags: [remove-input]
{code}
```"""

_TABLES: Final = {"times": "time_table", "memory": "memory_table"}


def code_cells(opening: str, number: Callable[[str], str], heading: str = "#") -> Syntax:
    """Tables and figures by code cells, under an ``opening`` that takes document and title."""
    return Syntax(
        opening=lambda document, title: opening.format(document=document, title=title),
        number=number,
        figure=lambda _, name: _CELL.format(code=f'SVG(svg("{name}", data))'),
        table=lambda _, name: _CELL.format(code=f"Markdown(pipe_table({_TABLES[name]}(data)))"),
        heading=heading,
    )
