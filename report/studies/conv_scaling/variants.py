"""The layer changed in one respect at a time, led from theory to what was counted of it."""

from __future__ import annotations

from collections.abc import Iterable

from report.evidence.executed import COUNTED, explained
from report.records.layers import Convolution
from report.records.record import Case, Record
from report.studies.conv_scaling.measured import Run
from report.text.format import NO_BREAK
from report.theory.reconciliation import Reconciliation


def variants(run: Run) -> dict[str, Reconciliation]:
    """What was counted of other convolutions than the study's, by name and batch size."""
    return {
        _unbroken(f"{case.factors['variant']}, batch {case.factors['batch']}"): _variant(run, case)
        for case in _counted_variants(run.stored.record)
        if isinstance(case.layers[0], Convolution)
    }


def _unbroken(name: str) -> str:
    """A name that stays on one line of a table."""
    return name.replace(" ", NO_BREAK)


def _counted_variants(record: Record) -> Iterable[Case]:
    return (
        case
        for case in record.cases
        if case.factors.get("subject") == "variant" and case.layers and case.samples(COUNTED)
    )


def _variant(run: Run, case: Case) -> Reconciliation:
    name, build = case.factors["variant"], run.stored.record.environment.torch.build
    return explained(
        f"variant-{run.key}-{name}-{case.factors['batch']}",
        f"Executed multiply-adds of {name} on {run.label}",
        case.layers[0],
        build,
        int(case.samples(COUNTED)[-1]),
    )
