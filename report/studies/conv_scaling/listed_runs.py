"""The full runs of the machines in a paper with what they found, those left out among them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

from report.evidence.runs import labels
from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.findings import Inputs
from report.paper.policies import fault_price, mapping_batches, measured_gain
from report.paper.tables import Cell, Table
from report.quantity.expression import Quantity, absent, exact
from report.quantity.operations import at_least
from report.records.passes import PASSES
from report.studies.conv_scaling.measured import Run
from report.studies.conv_scaling.run_values import middle

#: Where the time of day stands in a record.
_DAY, _IN_YEAR, _MINUTES = slice(0, 10), slice(5, None), slice(11, 16)
#: That a run is older, its date says.
_OLDER: Final = "older and "


class Listed(NamedTuple):
    """One run by itself, and what the paper does with it, in a few words."""

    run: Run
    use: str


def left_runs(inputs: Inputs, used: Sequence[Run]) -> list[Listed]:
    """The full runs of the machines in ``used`` that the paper is not computed from."""
    keys = {run.key for run in used}
    found = ((Run(stored, labels([stored])[0]), why) for stored, why in inputs.left)
    return [Listed(run, f"left out: {_shortened(why)}") for run, why in found if run.key in keys]


def _listed(inputs: Inputs, used: Sequence[Run]) -> list[Listed]:
    own = [
        Listed(alone, "used" if len(parts) == 1 else f"used, pooled ({number} of {len(parts)})")
        for run in used
        for parts in (run.alone(),)
        for number, alone in enumerate(parts, start=1)
    ]
    return sorted(
        (*own, *left_runs(inputs, used)),
        key=lambda each: (each.run.label, each.run.stored.record.started),
    )


def runs_table(inputs: Inputs, used: Sequence[Run]) -> Table:
    """A row a run: when it was made, what became of it, and the numbers that runs differ by."""
    rows = _listed(inputs, used)
    return table(
        "tbl-runs",
        rows,
        [
            Field("Machine", "", lambda each: each.run.label),
            Field("Day, UTC", "", lambda each: f"{_day(each.run)[_IN_YEAR]}, {_when(each.run)}"),
            Field("Use", "", lambda each: each.use),
            Field("Disturbed", "", lambda each: _disturbed(each.run)),
            Field("Slowdown", "1", lambda each: _known(measured_gain(each.run))),
            Field("Page", "s", lambda each: _known(middle(fault_price(each.run))), "µs"),
            Field(
                "Ceiling", "FLOP/s", lambda each: middle(each.run.peak_rate(ARITHMETIC)), "GFLOP/s"
            ),
            Field("Maps from", "1", lambda each: _first_mapping(each.run)),
        ],
        sources=tuple(each.run.file for each in rows),
        wide=True,
    )


ARITHMETIC: Final = "matrix_product"


def _shortened(why: str) -> str:
    """Why a run is left out, in as many words as a table has room for."""
    return "by choice" if why.endswith("names another") else why.removeprefix(_OLDER)


def _day(run: Run) -> str:
    return run.stored.record.started[_DAY]


def _when(run: Run) -> str:
    record = run.stored.record
    started, finished = record.started[_MINUTES], record.finished[_MINUTES]
    return f"{started}–{finished}"


def _known(quantity: Quantity) -> Quantity:
    """A quantity, or that it is missing: one reason for all, since the prose tells why."""
    return absent("quantity", str(quantity.unit), "not recorded") if quantity.missing else quantity


def _disturbed(run: Run) -> Cell:
    rounds = [round_ for case in run.stored.record.cases for round_ in case.rounds]
    number = sum(round_.disturbance is not None for round_ in rounds)
    return f"{number} of {len(rounds)}" if rounds else Missing("not recorded")


def _first_mapping(run: Run) -> Quantity:
    found = mapping_batches(run)
    if not found:
        return absent("batch that maps pages", "1", "not recorded")
    return exact("batch that maps pages", "1", found[0], run.file)


def _apart(run: Run, other: Run) -> Quantity:
    """The largest ratio of the times of two runs, over batch sizes and passes."""
    pairs = ((run.time(b, p), other.time(b, p)) for b in run.timed for p in PASSES)
    ratios = [at_least(a / b, b / a) for a, b in pairs if not (a / b).missing]
    return at_least(*ratios) if ratios else absent("ratio", "1", "the runs share no case")


def left_values(left: Sequence[Run], gpu: Run | None) -> dict[str, Quantity]:
    """How far the runs of the GPU that are left out are from the one that is used."""
    found: dict[str, Quantity] = {}
    if gpu is None or not gpu.timed:
        return found
    for other in left:
        if other.key == gpu.key and other.timed:
            last = gpu.timed[-1]
            found["gpu_apart"] = _apart(gpu, other)
            found["gpu_apart_largest"] = gpu.time(last) / other.time(last)
    return found


def spans(run: Run) -> list[str]:
    """When each run that is pooled here was made."""
    return [f"{_day(a)}, {_when(a)}" for a in run.alone()]


def overlapping(run: Run) -> bool:
    """Whether any two runs that are pooled here were made at the same time, on one machine."""
    records = [alone.stored.record for alone in run.alone()]
    return any(
        one.started < other.finished
        and other.started < one.finished
        and one.environment.host is not None
        and other.environment.host is not None
        and one.environment.host.machine == other.environment.host.machine
        for one, other in combinations(records, 2)
    )
