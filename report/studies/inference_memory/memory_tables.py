"""The tables of memory; their captions stand in the template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from report.paper.declared import Field, table
from report.paper.tables import Cell, Table
from report.quantity.evaluation import point
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import (
    LEARNED,
    at_least,
    exact_peaks,
    largest_measured,
    off,
    predicted_growth,
    reconciled,
    reduced,
    rightly_predicted,
)
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, Call
from report.studies.inference_memory.sweeps import limited_calls
from report.theory.peaks import Peak

#: The networks whose peaks are taken apart: of one block, the shallowest and the deepest; and the
#: one with the largest maps.
_SHOWN: Final = ("ResNet-20", "ResNet-110", "VGG-16")


def peak_table(run: Run) -> Table:
    """The parts of the predicted peak of three networks at their largest batch, both layouts."""
    found = (largest_measured(run, n, y) for n in _SHOWN for y in LAYOUTS)

    def part(name: str, get: Callable[[Peak], int]) -> Field[Call]:
        def of(call: Call) -> int:
            at = run.predicted(call)
            assert isinstance(at, Peak)
            return get(at)

        return Field(name, "B", of, "MB")

    return table(
        "tbl-peaks",
        [call for call in found if call is not None],
        [
            Field("Network", "", lambda call: call.network),
            Field("Batch", "1", lambda call: call.batch),
            Field("Layout", "", lambda call: LAYOUT_NAMES[call.layout]),
            part("Before", lambda p: p.before),
            part("Maps", lambda p: p.maps),
            part("Workspace", lambda p: p.workspace),
            Field("Measured", "B", run.peak, "MB"),
        ],
        sources=(run.file,),
        wide=True,
    )


def agreement_table(run: Run) -> Table:
    """How far theory is off, by network, layout and precision over the batch sizes."""
    found = {**reconciled(run), **reduced(run)}
    by_row: dict[tuple[str, str, str], list[Call]] = {}
    for call in found:
        by_row.setdefault((call.precision, call.network, call.layout), []).append(call)

    def worst(calls: Sequence[Call]) -> Call:
        return max(calls, key=lambda call: abs(point(off(run, found[call])) or 0))  # type: ignore[arg-type]

    def prediction(calls: Sequence[Call]) -> str:
        origin = "learned" if calls[0].network in LEARNED else "held out"
        return f"{origin}, at least" if any(at_least(run, call) for call in calls) else origin

    return table(
        "tbl-agreement",
        list(by_row.values()),
        [
            Field("Network", "", lambda row: row[0].network),
            Field("Precision", "", lambda row: row[0].precision),
            Field("Layout", "", lambda row: LAYOUT_NAMES[row[0].layout]),
            Field("Rules", "", prediction),
            Field("Cases", "1", lambda row: sum(1 for _ in row)),
            Field("Exact", "1", lambda row: exact_peaks(found[call] for call in row)),
            Field("Residual", "B", lambda row: found[worst(row)].residual),
            Field("Of measured", "1", lambda row: off(run, found[worst(row)]), "%"),
        ],
        sources=(run.file,),
        wide=True,
    )


def limit_table(runs: Sequence[Run]) -> Table:
    """What calls under a limit allocate on each processor, and whether they fit as predicted."""
    rows = [(run, call) for run in runs if not run.on_gpu for call in limited_calls(run)]

    def outcome(row: tuple[Run, Call]) -> Cell:
        run, call = row
        if run.ran_out(call):
            return "out of memory"
        return "ran" if call in rightly_predicted(run) else "–"

    def right(row: tuple[Run, Call]) -> str:
        found = rightly_predicted(row[0]).get(row[1])
        return "–" if found is None else "yes" if found else "no"

    return table(
        "tbl-limit",
        rows,
        [
            Field("Machine", "", lambda row: row[0].label),
            Field("Network", "", lambda row: row[1].network),
            Field("Setting", "", lambda row: row[1].setting),
            Field("Batch", "1", lambda row: row[1].batch),
            Field("Predicted growth", "B", lambda row: predicted_growth(*row), "MB"),
            Field("Outcome", "", outcome),
            Field("As predicted", "", right),
        ],
        sources=tuple(dict.fromkeys(run.file for run, _ in rows)),
        wide=True,
    )
