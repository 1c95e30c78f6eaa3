"""The figures of inference_memory; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from figures.panels import Points, Scaling
from report.core.missing import Missing
from report.paper.plots import points, theory_line
from report.quantity.evaluation import point
from report.studies.inference_memory.results import Allocated
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import (
    LAYOUTS,
    PRECISIONS,
    SHOWN,
    TILED,
    Call,
    InferencePrecision,
    small,
)

_X: Final = "Batch size (images)"
#: Labels of the lines of tensors.
_TENSORS: Final[dict[InferencePrecision, str]] = {
    "float32": "Tensors, 32 bits",
    "bfloat16": "16 bits",
}
#: The networks whose workspaces are drawn: of small maps, and of large ones.
_DRAWN: Final = (SHOWN, "VGG-16")
#: Up to so many images every power of four has a tick, beyond every other.
_TICKS: Final = 4**6


def peaks(run: Run) -> Iterator[Scaling]:
    """Measured peaks of ResNet-20 on a CPU, an image, on the lines that theory predicts."""
    drawn: tuple[Points, ...] = ()
    curves = []
    for series, layout in enumerate(LAYOUTS):
        calls = [c for n in range(11) if (c := small(SHOWN, 2**n, layout=layout)) in run.calls]
        measured = {c.batch: run.per_image(c) for c in calls}
        drawn += points(layout.replace("_", " "), measured, "MB", series=series)
        theory = {c.batch: (run.predicted_peak(c) - run.held(c, "before")) / c.batch for c in calls}
        if calls and not any(size.missing for size in theory.values()):
            curves.append(theory_line("", theory, "MB"))
    ticks = tuple(float(4**n) for n in range(6))
    yield Scaling(_X, "Allocated (MB an image)", drawn, tuple(curves), x_ticks=ticks, direct=True)


def workspace(allocated: Allocated) -> Iterator[Scaling]:
    """Allocated bytes of a call on a GPU over its tensors in float32, by network."""
    for network in _DRAWN:
        by_precision = {p: _over(allocated.by_call, network, p) for p in PRECISIONS}
        if not any(by_precision.values()):
            continue
        drawn: tuple[Points, ...] = ()
        curves = []
        for series, (precision, runs) in enumerate(by_precision.items()):
            full = {
                call: run.needed_per_image(replace(call, precision="float32"))
                for call, run in runs.items()
            }
            over = {c.batch: run.per_image(c) / full[c] for c, run in runs.items()}
            # The half precisions lie on each other; one shows as a ring around the other.
            hollow = precision == "bfloat16"
            drawn += points(precision, over, "1", series=series, hollow=hollow, joined=True)
            needed = {c.batch: run.needed_per_image(c) / full[c] for c, run in runs.items()}
            known = needed and not any(size.missing for size in needed.values())
            if precision in _TENSORS and known:
                curves.append(theory_line(_TENSORS[precision], needed, "1", part=hollow))
        most = max(call.batch for runs in by_precision.values() for call in runs)
        powers = range(3, 10, 2) if most > _TICKS else range(3, 7)
        yield Scaling(
            _X, "Over float32 tensors", drawn, tuple(curves), title=network,
            x_ticks=tuple(float(4**n) for n in powers), y_bottom=0.4, y_top=5.0,
        )  # fmt: skip


def _over(
    allocated: Mapping[Call, Run], network: str, precision: InferencePrecision
) -> dict[Call, Run]:
    """Sort the contiguous calls of a network from the first tick on by batch."""
    shown = sorted(
        (c for c in allocated if c == small(network, c.batch, precision) and c.batch >= 4**3),
        key=lambda call: call.batch,
    )
    return {call: allocated[call] for call in shown}


def tiling(run: Run) -> Iterator[Scaling]:
    """Time against peak of tiled calls, both relative to whole maps."""
    drawn: list[Points] = []
    for series, (form, name) in enumerate(TILED.items()):
        times, sizes = {}, {}
        for call in sorted(run.chosen(execution=form), key=lambda call: call.tile or 0):
            whole = replace(call, execution="eager", tile=None)
            size = point(run.peak(call) / run.peak(whole))
            if not isinstance(size, Missing):
                times[call.tile or 0] = run.time(call) / run.time(whole)
                sizes[call.tile or 0] = 100 * size
        for line in points(name, times, "1", series=series, joined=True) if times else ():
            drawn.append(replace(line, x=tuple(sizes[int(tile)] for tile in line.x)))
    if drawn:
        yield Scaling(
            "Peak (% of whole maps)", "Time over whole maps", tuple(drawn), x_scale="linear",
            y_bottom=1.0, y_top=16.0,
        )  # fmt: skip
