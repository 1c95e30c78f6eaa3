"""A network's roofline and its memory over the operators, as files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Final

from experiments.theory.roofs import NamedRoof
from figures.canvas import Drawing
from figures.points import Points
from figures.render import render
from figures.roofline import Roofline
from figures.scaling import Band, Scaling
from figures.timeline import Lane, Level, Span, Timeline
from report.paper.plots import GIGA, roof_line
from report.records.operations import Phase
from report.theory.fits import Fits, least
from report.theory.network import Theory

_PHASES: Final[tuple[Phase, ...]] = ("forward", "backward", "update")
_MEGA: Final = 1e6


def write(folder: Path, drawings: Mapping[str, Drawing]) -> None:
    """Write each drawing as SVG and PDF under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        rendered = render(drawing, name)
        (folder / f"{name}.svg").write_bytes(rendered.svg)
        (folder / f"{name}.pdf").write_bytes(rendered.pdf)


def fits_figure(found: Fits, limit: str) -> Drawing:
    """The peak over the batch, with the line of the limit."""
    batches = sorted(found.predicted)
    sizes = tuple(least(found.predicted[batch]) / _MEGA for batch in batches)
    line = Band(limit, *[found.limit / _MEGA] * 3, series=1)
    peaks = Points("Peak at least", tuple(map(float, batches)), sizes, joined=True)
    panel = Scaling("Batch size", "Memory (MB)", (peaks,), bands=(line,))
    return Drawing((panel,))


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
        Points(
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
