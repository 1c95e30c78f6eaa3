"""The figures of inference_memory; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from figures.points import Points
from figures.scaling import Scaling
from report.missing import Missing
from report.paper.plots import points, theory_line
from report.quantity.evaluation import point
from report.quantity.expression import exact
from report.studies.inference_memory.runs import Run
from report.studies.inference_memory.subject import PRECISIONS, TILED, Call, Precision, small

_X: Final = "Batch size (images)"
#: The networks of the first figure; the others lie between two of them.
_DRAWN: Final = ("VGG-16", "AlexNet", "ResNet-110", "ResNet-20", "LeNet-5")
#: What the lines of tensors are called.
_TENSORS: Final[dict[Precision, str]] = {"float32": "Tensors, 32 bits", "bfloat16": "16 bits"}
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


def workspace(allocated: Mapping[Call, Run], networks: Sequence[str]) -> Iterator[Scaling]:
    """What a call allocates an image on a GPU, a panel for each network, beside its tensors."""
    for network in networks:
        found = {p: _over(allocated, network, p) for p in PRECISIONS}
        if not any(found.values()):
            continue
        drawn: tuple[Points, ...] = ()
        for series, (precision, runs) in enumerate(found.items()):
            over = {call.batch: run.per_image(call) for call, run in runs.items()}
            drawn += points(precision, over, "MB", series=series, joined=True)
        curves = []
        for precision, name in _TENSORS.items():
            needed = {c.batch: run.needed_per_image(c) for c, run in found[precision].items()}
            if needed and not any(each.missing for each in needed.values()):
                curves.append(theory_line(name, needed, "MB", part=precision != "float32"))
        powers = range(3, 10, 2) if len(found["float32"]) > _MANY else range(3, 7)
        yield Scaling(
            _X, "Allocated (MB an image)", drawn, tuple(curves), title=network,
            x_ticks=tuple(float(4**n) for n in powers),
        )  # fmt: skip


def _over(allocated: Mapping[Call, Run], network: str, precision: Precision) -> dict[Call, Run]:
    """The contiguous calls of a network from the first tick on, by batch."""
    shown = sorted(
        (c for c in allocated if c == small(network, c.batch, precision) and c.batch >= 4**3),
        key=lambda call: call.batch,
    )
    return {call: allocated[call] for call in shown}


def tiling(run: Run) -> Iterator[Scaling]:
    """Time against peak of tiled calls, both relative to whole maps."""
    drawn = []
    for series, (form, name) in enumerate(TILED.items()):
        ratios = [
            (run.peak(c) / run.peak(whole), run.time(c) / run.time(whole))
            for c in sorted(run.chosen(execution=form), key=lambda call: call.tile or 0)
            for whole in [replace(c, execution="eager", tile=None)]
        ]
        known = [(point(x), point(y)) for x, y in ratios]
        xy = [
            (100 * x, y)
            for x, y in known
            if not isinstance(x, Missing) and not isinstance(y, Missing)
        ]
        if xy:
            peak, time = zip(*xy, strict=True)
            drawn.append(Points(name, peak, time, series=series, joined=True))
    if drawn:
        yield Scaling(
            "Peak (% of whole maps)", "Time over whole maps", tuple(drawn), x_scale="linear",
            direct=True,
        )  # fmt: skip
