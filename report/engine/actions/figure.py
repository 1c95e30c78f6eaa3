"""One figure, for print and for the page, with its data."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from figures.canvas import Drawing
from figures.characters import visible
from figures.data import COLUMNS, rows
from figures.drawing.render import Rendered, render
from report.engine.graph import drawing_file, opened_file
from report.engine.task import Done, Task, load
from report.system.outputs import write_json
from report.system.spreadsheet import csv_of


def perform(task: Task) -> Done:
    """Draw the figure that the parameter ``name`` names, and write what it draws."""
    name = task.parameters["name"]
    drawing: Drawing = load(task.stage / drawing_file(task.study, name))
    rendered = render(drawing, f"{task.study}/fig-{name}")
    folder = task.source / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    data = list(rows(drawing))
    files = {"pdf": rendered.pdf, "svg": rendered.svg}
    if data:
        files["csv"] = visible(csv_of([COLUMNS, *data])).encode()
    for ending, content in files.items():
        (folder / f"{name}.{ending}").write_bytes(content)
    place, opened = folder.relative_to(task.stage).as_posix(), opened_file(task.study, name)
    write_json(_opened(drawing, rendered), task.stage / opened)
    return Done((*(f"{place}/{name}.{ending}" for ending in files), opened))


def _opened(drawing: Drawing, rendered: Rendered) -> dict[str, Any]:
    """What the page shows of a figure that is opened; the drawing itself where it has series."""
    series = [asdict(each) for each in rendered.series]
    return {
        "place": drawing.place,
        **({"series": series, "svg": rendered.svg.decode()} if series else {}),
    }
