"""The figures of conv_scaling; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from figures.panels import Points, Scaling
from report.core.records.record import Policy
from report.paper.plots import points, theory_line
from report.quantity.expression import Quantity
from report.studies.conv_scaling import theory
from report.studies.conv_scaling.runs import Run

_X: Final = "Batch size (images)"
_TICKS: Final = (1.0, 4.0, 16.0, 64.0, 256.0, 1024.0)
#: Policy → its name, in the order of colours.
_KINDS: Final[Mapping[Policy, str]] = {"retained": "Memory kept", "default": "Memory returned"}
_RAISED: Final[Mapping[Policy, str]] = {
    "thresholds": "both raised",
    "default": "neither",
    "mmap_threshold": "mapping alone",
    "trim_threshold": "trimming alone",
}


def cliff(runs: Sequence[Run]) -> Iterator[Scaling]:
    """Time of an image over pages that it maps, a column for each run."""
    for run in runs:
        times = _panel(run, _KINDS, Run.time, "Time of an image (µs)", "µs")
        yield replace(times, title=run.short)
    for run in runs:
        yield _panel(run, _KINDS, Run.faults, "Pages an image", "1")


def thresholds(run: Run) -> Iterator[Scaling]:
    """Pages and time of an image with each threshold raised alone, and both."""
    if {*_RAISED} <= {*run.policies}:
        yield _panel(run, _RAISED, Run.faults, "Pages an image", "1")
        yield _panel(run, _RAISED, Run.time, "Time of an image (µs)", "µs")


def _panel(
    run: Run,
    names: Mapping[Policy, str],
    get: Callable[[Run, int], Quantity],
    label: str,
    unit: str,
) -> Scaling:
    drawn: tuple[Points, ...] = ()
    for number, (policy, name) in enumerate(names.items()):
        over = {b: get(run.under(policy), b) / b for b in run.powers}
        drawn += points(name, over, unit, series=number, joined=True)
    return Scaling(
        _X, label, drawn, x_ticks=_TICKS, y_scale="linear", y_from_zero=True, direct=True
    )


def start(run: Run) -> Iterator[Scaling]:
    """Draw the free memory at the top of the heap, the threshold, and the returned memory."""
    small = [batch for batch in run.timed if batch <= 16]
    returned = [(b, n / 1e6) for b in small for n in run.returned(b)]
    over = {b: run.threshold(b) - theory.RESERVE for b in small}
    if not returned or any(quantity.missing for quantity in over.values()):
        return
    x, y = zip(*returned, strict=True)
    threshold = points("Threshold less reserve, traced", over, "MB", series=0, joined=True)
    outputs = {b: 2 * theory.output_bytes(b) for b in small}
    both = {b: theory.free(b) for b in small}
    yield Scaling(
        _X,
        "Free memory (MB)",
        (*threshold, Points("Returned, traced", x, y, series=1, hollow=True)),
        (
            theory_line("Outputs", outputs, "MB"),
            theory_line("Outputs and copy of the input", both, "MB", part=True),
        ),
        x_ticks=tuple(map(float, small)),
    )


def cost(run: Run) -> Iterator[Scaling]:
    """Draw the time that returning memory adds to an image, and its explanation."""
    over = run.doubled
    drawn = points("Added", {b: run.lost(b) / b for b in over}, "µs", series=0)
    priced = {b: run.priced(b) / b for b in over}
    drawn += points("Pages", priced, "µs", series=1, hollow=True)
    both = {b: (run.priced(b) + run.returning(b)) / b for b in over}
    drawn += points("Pages and unmapping", both, "µs", series=2, hollow=True)
    ticks = tuple(map(float, over))
    yield Scaling(_X, "Time of an image (µs)", drawn, x_ticks=ticks, y_scale="linear")
