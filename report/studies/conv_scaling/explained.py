"""Every reconciliation of the paper, in named groups by the level of what was varied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from report.evidence.device_counts import replays
from report.evidence.executed import residual
from report.paper.findings import Inputs
from report.quantity.expression import Quantity
from report.studies.conv_scaling.device import device_work
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.reconciled import (
    all_executed,
    peaks,
    reported_reserved,
    reported_work,
)
from report.studies.conv_scaling.source import reported_batches
from report.studies.conv_scaling.variants import variants
from report.theory.reconciliation import Reconciliation


class Group(NamedTuple):
    """Reconciliations of one unit, by level, and the file that what was measured is from."""

    found: Mapping[Any, Reconciliation]
    unit: str
    file: str

    @property
    def residual(self) -> Quantity:
        """The residual that is furthest from 0."""
        return residual(self.found.values(), self.unit, self.file)


def all_groups(inputs: Inputs, run: Run | None, gpu: Run | None) -> dict[str, Group]:
    """All groups; those of a run are empty without one, those of a GPU are not there."""
    source, file = inputs.reported_file, run.file if run else ""
    batches = reported_batches(inputs)
    own = {
        "work": Group(reported_work(inputs), "FLOP", source),
        "reserved": Group(reported_reserved(inputs), "B", source),
        "executed": Group(all_executed(run), "MAC", file),
        "variants": Group(variants(run) if run else {}, "MAC", file),
        "peak": Group(peaks(run, batches) if run else {}, "B", file),
    }
    return {**own, **(_device(gpu) if gpu is not None else {})}


def _device(run: Run) -> dict[str, Group]:
    return {
        "device_work": Group(device_work(run), "FLOP", run.file),
        "replay": Group(replays(run), "B", run.file),
    }


def listed(groups: Mapping[str, Group]) -> dict[str, Reconciliation]:
    """Every reconciliation under a name; of a GPU's many replays those that do not agree."""
    return {
        f"peak-contiguous-{level}" if name == "peak" else found.id: found
        for name, group in groups.items()
        for level, found in group.found.items()
        if name != "replay" or not found.explained
    }
