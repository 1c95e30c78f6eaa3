"""The figures of a paper, for print and for the page, with their data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from figures.canvas import COLUMNS, Drawing
from figures.characters import visible
from figures.render import Rendered, render
from report.engine.graph import DRAWINGS, OPENED
from report.engine.task import Done, Task, files_in, load
from report.system.outputs import write_json
from report.system.spreadsheet import csv_of


def perform(task: Task) -> Done:
    """Draw the figures that the study describes, and write what they draw."""
    drawings: dict[str, Drawing] = load(task.artifacts / DRAWINGS)
    folder, opened = task.source / "figures", {}
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        rendered = render(drawing, f"{task.study}/fig-{name}")
        (folder / f"{name}.pdf").write_bytes(rendered.pdf)
        (folder / f"{name}.svg").write_bytes(rendered.svg)
        if data := list(drawing.data()):
            content = visible(csv_of([COLUMNS, *data])).encode()
            (folder / f"{name}.csv").write_bytes(content)
        opened[name] = _opened(drawing, rendered)
    write_json(opened, task.artifacts / OPENED)
    shown = (task.artifacts / OPENED).relative_to(task.stage).as_posix()
    return Done((*files_in(task.stage, folder), shown))


def _opened(drawing: Drawing, rendered: Rendered) -> dict[str, Any]:
    """What the page shows of a figure that is opened; the drawing itself where it has series."""
    series = [asdict(each) for each in rendered.series]
    return {
        "place": drawing.place,
        **({"series": series, "svg": rendered.svg.decode()} if series else {}),
    }
