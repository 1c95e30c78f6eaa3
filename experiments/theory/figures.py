"""A network's roofline and its memory over the operators, as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from figures.panels import Band, Drawing, Points, Roofline, Scaling
from figures.render import render
from report.paper.plots import GIGA, roof_line
from report.theory.fits import Fits, least
from report.theory.network import Theory
from report.theory.roofline import Roof

_MEGA: Final = 1e6


def write(folder: Path, drawings: Mapping[str, Drawing]) -> None:
    """Write each drawing as SVG and PDF under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        rendered = render(drawing, name)
        (folder / f"{name}.svg").write_bytes(rendered.svg)
        (folder / f"{name}.pdf").write_bytes(rendered.pdf)


def of_fits(found: Fits, limit: str) -> dict[str, Drawing]:
    """The peak over the batch, with the line of the limit."""
    batches = sorted(found.predicted)
    sizes = tuple(least(found.predicted[batch]) / _MEGA for batch in batches)
    line = Band(limit, *[found.limit / _MEGA] * 3, series=1)
    peaks = Points("Peak at least", tuple(map(float, batches)), sizes, joined=True)
    panel = Scaling("Batch size", "Memory (MB)", (peaks,), bands=(line,))
    return {"fits": Drawing((panel,))}


def of_network(found: Theory) -> dict[str, Drawing]:
    """The memory over the operators, and with a roof the rates that it allows them."""
    drawn = {"memory": _memory(found)}
    return drawn | {"roofline": _roofline(found, found.roof)} if found.roof else drawn


def _memory(found: Theory) -> Drawing:
    """What is alive, operator by operator, a colour a phase."""
    phases = []
    for number, phase in enumerate(("forward", "backward", "update")):
        alive = [
            (float(place), moment.total / _MEGA)
            for place, moment in enumerate(found.moments)
            if moment.operator.phase == phase
        ]
        if alive:
            x, y = zip(*alive, strict=True)
            phases.append(Points(phase, x, y, series=number, many=True))
    panel = Scaling(
        "Operators", "Alive (MB)", tuple(phases),
        x_scale="linear", y_scale="linear", y_from_zero=True,
    )  # fmt: skip
    return Drawing((panel,), wide=True)


def _roofline(found: Theory, roof: Roof) -> Drawing:
    """The kinds of operators that have multiply-adds, at the rates that the roof allows them."""
    marks = tuple(
        Points(row.name, (row.intensity,), ((row.rate or 0.0) / GIGA,), series=number)
        for number, row in enumerate(row for row in found.by_kind if row.multiply_adds)
    )
    line = roof_line(roof, roof.device, GIGA)
    panel = Roofline("Intensity (FLOP/B)", "Attainable rate (GFLOP/s)", (line,), marks)
    return Drawing((panel,), height=2.9)
