"""One figure, for print and for the page."""

from __future__ import annotations

from figures.drawing.render import render
from report.engine.graph import drawing_file
from report.engine.kept import kept
from report.engine.task import Done, Task


def perform(task: Task) -> Done:
    """Draw the figure that the parameter ``name`` names."""
    name = task.parameters["name"]
    rendered = render(kept(task.stage / drawing_file(task.study, name)), f"{task.study}/fig-{name}")
    folder = task.source / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.pdf").write_bytes(rendered.pdf)
    (folder / f"{name}.svg").write_bytes(rendered.svg)
    place = folder.relative_to(task.stage).as_posix()
    return Done((f"{place}/{name}.pdf", f"{place}/{name}.svg"))
