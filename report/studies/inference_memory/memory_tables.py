"""The tables of memory; their captions stand in the template."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from report.missing import Missing
from report.paper.declared import Field, table
from report.paper.tables import Cell, Table
from report.quantity.evaluation import point
from report.quantity.expression import Quantity, recorded
from report.studies.inference_memory import faults
from report.studies.inference_memory.columns import BATCH, LAYOUT, NETWORK, SETTING
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.peaks import (
    LEARNED,
    Parts,
    at_least,
    exact_peaks,
    foretold,
    largest_predicted,
    limit,
    off,
    parts,
    predicted_growth,
    predicted_peak,
    reconciled,
)
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, Call
from report.studies.inference_memory.sweeps import best_call, failed_calls, limited_calls
from report.theory.liveness import Held
from report.theory.workspaces import Layout


def peak_table(run: Run) -> Table:
    """The parts of the predicted peak of each network at its largest batch, both layouts."""
    found = (largest_predicted(run, n, y) for n in run.networks() for y in LAYOUTS)
    calls = [call for call in found if call is not None]

    def held(call: Call) -> Held:
        at = run.predicted(call)
        assert isinstance(at, Held)
        return at

    def part(name: str, get: Callable[[Parts], int]) -> Field[Call]:
        return Field(name, "B", lambda call: get(parts(held(call))), "MB")

    def measured(call: Call) -> int | Missing:
        return run.fixed("allocated_peak", call.factors)

    def left(call: Call) -> Cell:
        size = measured(call)
        return size if isinstance(size, Missing) else size - held(call).total

    unknown = [f"{c.network}, {LAYOUT_NAMES[c.layout]}" for c in calls if not held(c).complete]
    note = f"The layer's workspace is unknown and left out: {'; '.join(unknown)}."
    return table(
        "tbl-peaks",
        calls,
        [
            NETWORK,
            BATCH,
            LAYOUT,
            Field("At layer", "", lambda call: held(call).layer),
            part("Before", lambda p: p.before),
            part("Tensors", lambda p: p.tensors),
            part("Held", lambda p: p.held),
            part("Workspace", lambda p: p.workspace),
            Field("Sum", "B", lambda call: held(call).total, "MB"),
            Field("Measured", "B", measured, "MB"),
            Field("Residual", "B", left),
        ],
        notes=(note,) * bool(unknown),
        sources=(run.file,),
        wide=True,
    )


def agreement_table(run: Run) -> Table:
    """How far theory is off, for each network and layout over its batch sizes."""
    by_row: dict[tuple[str, Layout], list[Call]] = {}
    for call in reconciled(run):
        by_row.setdefault((call.network, call.layout), []).append(call)

    def worst(calls: Sequence[Call]) -> Call:
        return max(calls, key=lambda call: abs(point(off(run, reconciled(run)[call])) or 0))  # type: ignore[arg-type]

    def prediction(calls: Sequence[Call]) -> str:
        origin = "learned" if calls[0].network in LEARNED else "held out"
        return f"{origin}, at least" if any(at_least(run, call) for call in calls) else origin

    rows = [row for n in run.networks() for y in LAYOUTS if (row := by_row.get((n, y)))]
    return table(
        "tbl-agreement",
        rows,
        [
            Field("Network", "", lambda row: row[0].network),
            Field("Layout", "", lambda row: LAYOUT_NAMES[row[0].layout]),
            Field("Rules", "", prediction),
            Field("Smallest", "1", lambda row: row[0].batch),
            Field("Largest", "1", lambda row: row[-1].batch),
            Field("Cases", "1", lambda row: sum(1 for _ in row)),
            Field("Exact", "1", lambda row: exact_peaks(reconciled(run)[call] for call in row)),
            Field("Residual", "B", lambda row: reconciled(run)[worst(row)].residual),
            Field("Of measured", "1", lambda row: off(run, reconciled(run)[worst(row)]), "%"),
        ],
        sources=(run.file,),
        wide=True,
    )


def limit_table(run: Run) -> Table:
    """What calls under a limit allocate, and whether they fit as predicted."""
    right = foretold(run)

    def outcome(call: Call) -> Cell:
        return "out of memory" if run.ran_out(call) else "ran" if call in right else "–"

    return table(
        "tbl-limit",
        limited_calls(run),
        [
            NETWORK,
            SETTING,
            BATCH,
            Field("Limit", "B", limit, "MB"),
            Field("Predicted growth", "B", lambda call: predicted_growth(run, call), "MB"),
            Field("Outcome", "", outcome),
            Field("Foretold", "", lambda c: {True: "yes", False: "no"}.get(right.get(c), "–")),  # type: ignore[arg-type]
        ],
        sources=(run.file,),
        wide=True,
    )


def failure_table(run: Run) -> Table:
    """Every unlimited call that ran out of memory, with what it needs and what there is."""
    return table(
        "tbl-failures",
        failed_calls(run),
        [
            NETWORK,
            BATCH,
            SETTING,
            Field("Predicted peak", "B", lambda call: predicted_peak(run, call), "GB"),
            Field("Memory", "B", lambda _: run.machine_memory, "GB"),
        ],
        sources=(run.file,),
    )


def fault_table(run: Run) -> Table:
    """Predicted and counted page faults of each call with large blocks."""
    returned = run.returned()

    def slower(call: Call) -> Quantity:
        return returned.image_time_ratio(call, best_call(run, call.network))

    def ratio(call: Call) -> Quantity:
        expected = recorded("pages of the blocks", "1", faults.predicted_faults(run, call))
        return faults.counted_faults(run, call) / expected

    return table(
        "tbl-faults",
        faults.told(run),
        [
            NETWORK,
            BATCH,
            SETTING,
            Field("Blocks", "1", lambda call: len(faults.large_blocks(run, call))),
            Field("Predicted", "1", lambda call: faults.predicted_faults(run, call)),
            Field("Counted ÷ predicted", "1", ratio),
            Field("Time of an image", "1", slower),
        ],
        sources=(run.file,),
        wide=True,
    )
