"""The figures of conv_profiling over batch sizes and dimensions; ``figures/`` draws them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from figures.canvas import Drawing
from figures.dots import Dots, DotSeries
from figures.scaling import Curve, Points, Scaling
from report.missing import Missing
from report.paper.findings import Figure, Inputs
from report.paper.reconciliations import as_figure, as_sentence
from report.studies.conv_profiling.measured import Run
from report.studies.conv_profiling.reconciled import changed, reported_estimate
from report.studies.conv_profiling.source import CONVOLUTION, MB, operator_bytes, value
from report.studies.conv_profiling.subject import BASE
from report.studies.conv_profiling.tables import measured_work
from report.theory.memory import layer_memory
from report.theory.reconciliation import Reconciliation

_GIGA: Final = 1e9
_X: Final = "Batch size (images)"
#: The colour of what the source reports, in all figures; runs take the others.
_REPORTED: Final = 1
_PLANNED: Final = tuple(2**n for n in range(10))


def _series(index: int) -> int:
    return 0 if index == 0 else index + _REPORTED


def _batches(runs: Sequence[Run]) -> tuple[int, ...]:
    return tuple(sorted({batch for run in runs for batch in run.batches()})) or _PLANNED


def _ticks(batches: Sequence[int]) -> tuple[float, ...]:
    return tuple(batches[::2]) if len(batches) > 6 else tuple(batches)


def _known(of: Callable[[int], int | Missing], batches: Sequence[int]) -> dict[int, int]:
    found = {batch: of(batch) for batch in batches}
    return {batch: size for batch, size in found.items() if not isinstance(size, Missing)}


def work(runs: Sequence[Run]) -> Figure:
    """Estimated and measured work over the batch size (left) and their ratio (right)."""
    batches = _batches(runs)
    measured = [_known(partial(measured_work, run), run.batches()) for run in runs]
    points, ratios, told = [], [], []
    for index, (run, found) in enumerate(zip(runs, measured, strict=True)):
        if not found:
            continue
        ratio = {batch: BASE.operations(batch) / size for batch, size in found.items()}
        points.append(_points(run.label, {b: s / _GIGA for b, s in found.items()}, index))
        ratios.append(_points(run.label, ratio, index))
        told.append(
            f"{run.label}: estimated over measured lies between {min(ratio.values()):.6g} and "
            f"{max(ratio.values()):.6g} at batch sizes {min(ratio)} to {max(ratio)}."
        )
    theory = tuple(BASE.operations(batch) / _GIGA for batch in batches)
    one = (Curve("Theory is met", tuple(batches), (1.0,) * len(batches)),)
    return Figure(
        "fig-work",
        "Work of one forward call over the batch size: estimated from shapes (line) and measured "
        "by counting (left), and the estimate over the measurement (right).",
        "Left, log-log: the line of the estimate. " + (" ".join(told) or "Nothing was counted."),
        Drawing(
            (
                Scaling(
                    _X,
                    "Work of a call (GFLOP)",
                    tuple(points),
                    (Curve("Estimated", tuple(batches), theory),),
                    x_ticks=_ticks(batches),
                ),
                Scaling(
                    _X,
                    "Estimated ÷ measured",
                    tuple(ratios),
                    one if ratios else (),
                    x_ticks=_ticks(batches),
                    y_scale="linear",
                    y_from_zero=True,
                ),
            ),
            wide=True,
        ),
        tuple(run.file for run in runs),
    )


def _points(label: str, found: dict[int, float], index: int, *, hollow: bool = False) -> Points:
    x, y = tuple(map(float, found)), tuple(found.values())
    return Points(label, x, y, series=_series(index), hollow=hollow)


def memory(inputs: Inputs, runs: Sequence[Run]) -> Figure:
    """Memory over the batch size: both rules of estimation, own measurements, the source."""
    batches = _batches(runs)
    image = layer_memory(BASE.layer(1)).parameters_and_output
    once = tuple(layer_memory(BASE.layer(b)).parameters_and_output / MB for b in batches)
    x = tuple(map(float, batches))
    batch = value(inputs.reported, "profiled_batch")
    source = operator_bytes(inputs.reported, CONVOLUTION, "allocation_size") / MB
    points = [
        Points("Allocated, source", (float(batch),), (source,), series=_REPORTED, hollow=True)
    ]
    for index, run in enumerate(runs):
        held, peak = _known(run.held, run.batches()), _known(run.peak, run.batches())
        if held:
            scaled = {b: size / MB for b, size in held.items()}
            points.append(_points(f"Held, {run.label}", scaled, index))
        if peak:
            scaled = {b: size / MB for b, size in peak.items()}
            points.append(_points(f"Peak, {run.label}", scaled, index, hollow=True))
    return Figure(
        "fig-memory",
        "Memory of one forward call over the batch size: estimated with the parameters counted for "
        "every image and counted once, what the call leaves allocated (held), its peak, and the "
        "one number of the source.",
        f"Log-log: both estimates grow with the batch size, the one with parameters for every "
        f"image lies above; the source's {source:.3g} MB at batch {batch} lie above both. "
        + " ".join(_memory_told(run) for run in runs),
        Drawing(
            (
                Scaling(
                    _X,
                    "Memory (MB)",
                    tuple(points),
                    (
                        Curve("Parameters for every image", x, tuple(b * image / MB for b in x)),
                        Curve("Parameters once", x, once, "part"),
                    ),
                    x_ticks=tuple(batches),
                ),
            ),
            wide=True,
            height=2.8,
        ),
        (inputs.reported_file, *(run.file for run in runs)),
    )


def _memory_told(run: Run) -> str:
    held, peak = _known(run.held, run.batches()), _known(run.peak, run.batches())
    if not held or not peak:
        return f"{run.label}: not measured."
    return (
        f"{run.label}: held {min(held.values()) / MB:.3g} to {max(held.values()) / MB:.3g} MB, "
        f"peak {min(peak.values()) / MB:.3g} to {max(peak.values()) / MB:.3g} MB."
    )


def changed_dimensions(runs: Sequence[Run]) -> Figure | None:
    """Measured over theoretical work of all dimensions, and what the terms say it should be."""
    told: dict[str, Reconciliation] = {}
    run = next((run for run in runs if changed(run)), None)
    if run is None:
        return None
    told = changed(run)
    measured = tuple(
        _share(r.measured.amount, r) for r in told.values() if not isinstance(r.measured, Missing)
    )
    explained = tuple(_share(r.end, r) for r in told.values())
    drawn = Dots(
        tuple(told),
        (
            DotSeries("Theory and terms", explained, series=_REPORTED, hollow=True),
            DotSeries("Measured", measured, series=0),
        ),
        "Multiply-adds executed ÷ theory",
        reference=1.0,
    )
    off = [name for name, r in told.items() if not r.explained]
    return Figure(
        "fig-changed",
        f"Multiply-adds executed on {run.label} over those of theory, for all dimensions of the "
        "layer (channels, kernel, input extent, batch): measured, and as theory and terms say. "
        "The broken line is theory alone.",
        f"A row for each of {len(told)} cases; ratios from {min(measured):.4g} to "
        f"{max(measured):.4g}. "
        + (f"Points differ in {', '.join(off)}." if off else "Both points agree in every row."),
        Drawing((drawn,), wide=True, height=drawn.height),
        (run.file,),
    )


def _share(amount: int, told: Reconciliation) -> float:
    return amount / told.start.amount


def estimate(inputs: Inputs) -> Figure:
    """From the source's estimate of memory to its measurement."""
    told = reported_estimate(inputs)
    drawn = as_figure(told)
    return Figure(
        "fig-estimate",
        "From the source's estimate of memory to what its profiler saw.",
        f"Bars from estimate to measurement. {as_sentence(told)}",
        Drawing((drawn,), height=drawn.height),
        (inputs.reported_file,),
    )
