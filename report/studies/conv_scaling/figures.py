"""The figures of conv_scaling; captions stand in its template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from figures.panels import Points, Scaling
from report.core.records.record import Policy
from report.paper.plots import points
from report.quantity.expression import Quantity
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
