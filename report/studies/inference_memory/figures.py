"""The figures of inference_memory; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from figures.points import Points
from figures.scaling import Scaling
from report.missing import Missing
from report.paper.plots import points, theory_line
from report.quantity.evaluation import number
from report.quantity.expression import Quantity, exact
from report.statistics.estimates import Estimate
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import PRECISIONS, TILED, Call

_X: Final = "Batch size (images)"
#: The networks of the first figure; the others lie between two of them.
_DRAWN: Final = ("VGG-16", "AlexNet", "ResNet-110", "ResNet-20", "LeNet-5")
#: Of so many calls the batch sizes span three decades, and every other tick has room.
_MANY: Final = 25
_TICKS: Final = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)


def peaks(run: Run) -> Iterator[Scaling]:
    """Measured peaks of a CPU on the lines that theory predicts."""
    drawn: tuple[Points, ...] = ()
    curves = []
    for series, network in enumerate(_DRAWN):
        calls = run.chosen(network=network, layout="contiguous", precision="float32", tile=None)
        shown = [c for c in calls if c.image == calls[0].image and c.batch <= _TICKS[-2]]
        measured = {c.batch: run.peak(c) for c in shown}
        found = {c.batch: run.predicted(c) for c in shown}
        theory = {b: p.total for b, p in found.items() if not isinstance(p, Missing)}
        drawn += points(network, measured, "MB", series=series)
        if theory:
            over = {b: exact("predicted peak", "B", size) for b, size in theory.items()}
            curves.append(theory_line("", over, "MB"))
    yield Scaling(_X, "Peak memory (MB)", drawn, tuple(curves), x_ticks=_TICKS[:-1], direct=True)


def workspace(found: Mapping[str, Sequence[tuple[Run, Call]]]) -> Iterator[Scaling]:
    """What a call allocates an image on a GPU, a panel for each network, beside its tensors."""
    for network, calls in found.items():
        drawn: tuple[Points, ...] = ()
        for series, precision in enumerate(PRECISIONS):
            own = {c.batch: run.per_image(c) for run, c in calls if c.precision == precision}
            drawn += points(precision, own, "MB", series=series, joined=True)
        curves = []
        for precision, name in (("float32", "Tensors, 32 bits"), ("bfloat16", "Tensors, 16 bits")):
            needed = {
                c.batch: run.needed_per_image(c) for run, c in calls if c.precision == precision
            }
            if needed and not any(each.missing for each in needed.values()):
                curves.append(theory_line(name, needed, "MB", part=precision != "float32"))
        powers = range(3, 10, 2) if len(calls) > _MANY else range(3, 7)
        yield Scaling(
            _X, "Allocated (MB an image)", drawn, tuple(curves), title=network,
            x_ticks=tuple(float(4**n) for n in powers),
        )  # fmt: skip


def tiling(runs: Sequence[Run]) -> Iterator[Scaling]:
    """Time over peak of tiled calls, both relative to whole maps, a panel for each machine."""
    for run in runs:
        drawn = []
        for series, (form, name) in enumerate(TILED.items()):
            ratios = [
                (run.peak(c) / run.peak(whole), run.time(c) / run.time(whole))
                for c in sorted(run.chosen(execution=form), key=lambda call: call.tile or 0)
                for whole in [replace(c, execution="eager", tile=None)]
            ]
            known = [(_value(x), _value(y)) for x, y in ratios]
            xy = [(100 * x, y) for x, y in known if x is not None and y is not None]
            if xy:
                x, y = zip(*xy, strict=True)
                drawn.append(Points(name, x, y, series=series, joined=True))
        if drawn:
            yield Scaling(
                "Peak (% of whole maps)", "Time over whole maps", tuple(drawn),
                title=run.short, x_scale="linear",
            )  # fmt: skip


def _value(quantity: Quantity) -> float | None:
    found = number(quantity)
    if isinstance(found, Missing):
        return None
    return found.value if isinstance(found, Estimate) else float(found)
