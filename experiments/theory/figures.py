"""A network's roofline and its memory over the operators, as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from figures.panels import Band, Drawing, Points, RoofLine, Roofline, Scaling
from figures.render import render
from report.theory.fits import Fits, least
from report.theory.network import Theory
from report.theory.roofline import Roof

_MEGA: Final = 1e6
_GIGA: Final = 1e9


def write(folder: Path, drawings: Mapping[str, Drawing]) -> None:
    """Write each drawing as SVG and PDF under its name."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, drawing in drawings.items():
        rendered = render(drawing, name)
        (folder / f"{name}.svg").write_bytes(rendered.svg)
        (folder / f"{name}.pdf").write_bytes(rendered.pdf)


def of_fits(frontier: Fits, limit: str) -> dict[str, Drawing]:
    """Draw the peak over the batch, with the limit as a line."""
    batches = sorted(frontier.predicted)
    sizes = tuple(least(frontier.predicted[batch]) / _MEGA for batch in batches)
    height = frontier.limit / _MEGA
    line = Band(limit, height, height, height, series=1)
    peaks = Points("Peak at least", tuple(map(float, batches)), sizes, joined=True)
    panel = Scaling("Batch size", "Memory (MB)", (peaks,), bands=(line,))
    return {"fits": Drawing((panel,))}


def of_network(theory: Theory) -> dict[str, Drawing]:
    """Draw the memory over the operators, and with a roof their attainable rates."""
    drawn = {"memory": _memory(theory)}
    return drawn | {"roofline": _roofline(theory, theory.roof)} if theory.roof else drawn


def _memory(theory: Theory) -> Drawing:
    """Draw the bytes alive at each operator, one colour for a phase."""
    phases = []
    for number, phase in enumerate(("forward", "backward", "update")):
        alive = [
            (float(place), moment.total / _MEGA)
            for place, moment in enumerate(theory.moments)
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


def _roofline(theory: Theory, roof: Roof) -> Drawing:
    """Draw the kinds of operators that have multiply-adds at their attainable rates."""
    counted = [row for row in theory.by_kind if row.multiply_adds]
    marks = tuple(
        Points(row.name, (row.intensity,), ((row.rate or 0.0) / _GIGA,), series=number)
        for number, row in enumerate(counted)
    )
    peak, bandwidth = ((rate.value / _GIGA,) * 3 for rate in (roof.peak, roof.bandwidth))
    line = RoofLine(roof.device, peak, bandwidth)
    panel = Roofline("Intensity (FLOP/B)", "Attainable rate (GFLOP/s)", (line,), marks)
    return Drawing((panel,), height=2.9)
