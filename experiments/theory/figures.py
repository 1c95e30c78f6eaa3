"""A network's roofline and its memory over the operators, as files."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Final

from experiments.theory.roofs import NamedRoof
from figures.canvas import Drawing
from figures.drawing.render import render
from figures.roofline import Marks, Roofline
from figures.timeline import Lane, Level, Span, Timeline
from report.paper.roofs import GIGA, roof_line
from report.records.operations import Phase
from report.theory.network import Theory

_PHASES: Final[tuple[Phase, ...]] = ("forward", "backward", "update")
_MEGA: Final = 1e6


def write_figures(found: Theory, folder: Path, roof: NamedRoof | None) -> tuple[Path, ...]:
    """Write ``memory`` and, with a roof, ``roofline``, each as SVG and PDF; returns their paths."""
    drawings = {"memory": memory(found)}
    if roof is not None:
        drawings["roofline"] = roofline(found, roof)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, drawing in drawings.items():
        rendered = render(drawing, name)
        for suffix, content in ((".svg", rendered.svg), (".pdf", rendered.pdf)):
            path = folder / f"{name}{suffix}"
            path.write_bytes(content)
            paths.append(path)
    return tuple(paths)


def memory(found: Theory) -> Drawing:
    """What is alive, operator by operator, with the phases above."""
    moments = found.moments
    spans = []
    for phase, group in groupby(enumerate(moments), lambda pair: pair[1].operator.phase):
        numbers = [number for number, _ in group]
        spans.append(Span(numbers[0], numbers[-1] + 1, _PHASES.index(phase)))
    panel = Timeline(
        lanes=(Lane("Phase", tuple(spans)),),
        kinds=_PHASES,
        x_label="Operators",
        level=Level(
            "Alive (MB)",
            tuple(map(float, range(len(moments)))),
            tuple(moment.total / _MEGA for moment in moments),
        ),
    )
    return Drawing((panel,), wide=True, height=panel.height)


def roofline(found: Theory, roof: NamedRoof) -> Drawing:
    """The kinds of operators that have multiply-adds, at the rates that the roof allows them."""
    marks = tuple(
        Marks(
            row.name,
            (row.intensity,),
            ((row.rate or 0.0) / GIGA,),
            series=number,
        )
        for number, row in enumerate(row for row in found.by_kind if row.multiply_adds)
    )
    line = roof_line(roof.roof, roof.name, roof.look, GIGA)
    panel = Roofline("Intensity (FLOP/B)", "Attainable rate (GFLOP/s)", (line,), marks)
    return Drawing((panel,), height=2.9)
