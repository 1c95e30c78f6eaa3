"""Peak memory: what theory predicts from shapes beside what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Band, Curve, Points, Scaling
from report.evidence.runs import remembered
from report.missing import Missing
from report.paper.findings import Figure
from report.paper.tables import Cell, Column, Table
from report.studies.inference_memory.batches import sweep, ticks
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, Call
from report.studies.inference_memory.verdicts import listed
from report.theory.liveness import (
    INPUT,
    PARAMETERS,
    PENDING,
    READ,
    STATISTICS,
    WRITTEN,
    Held,
    reconciled_peak,
)
from report.theory.reconciliation import Reconciliation, Term
from report.theory.workspaces import WORKSPACES, Layout

#: Theory and measurement agree within this share, from this batch on.
TOLERANCE: Final = 0.02
FROM_BATCH: Final = 8

_MEGA: Final = 1e-6
_BEFORE: Final = (PARAMETERS, STATISTICS, INPUT)
_TENSORS: Final = (READ, WRITTEN, PENDING)


@remembered
def reconciliation(run: Run, call: Call) -> Reconciliation | Missing:
    """The predicted peak of a call, led to the measured one."""
    at = run.predicted(call)
    if isinstance(at, Missing):
        return at
    measured = _measured_peak(run, call)
    found = measured if isinstance(measured, Missing) else _measured(measured)
    id_ = f"peak-{run.key}-{call.network}-{call.batch}-{call.layout}-{call.precision}"
    subject = f"Peak memory of {call.network} at batch {call.batch}, {call.setting}, {run.label}"
    return reconciled_peak(id_, subject, at, found)


def _measured_peak(run: Run, call: Call) -> int | Missing:
    return run.fixed("allocated_peak", call.factors)


def _measured(size: int) -> Term:
    return Term("Measured", size, "most bytes in live blocks", "the allocator's events")


@remembered
def compared(run: Run) -> tuple[Call, ...]:
    """The plain float32 calls in both layouts whose peak is both predicted and measured."""
    calls = (c for layout in LAYOUTS for n in run.networks() for c in sweep(run, n, layout))
    return tuple(
        call
        for call in calls
        if not run.peak(call).missing and not isinstance(run.predicted(call), Missing)
    )


@remembered
def judged(run: Run) -> tuple[Call, ...]:
    """Those of them that the rule of agreement is about."""
    return tuple(call for call in compared(run) if call.batch >= FROM_BATCH)


def residuals(run: Run, calls: Sequence[Call]) -> dict[Call, tuple[int, float]]:
    """Measured minus predicted peak, in B and as a share of the measured one."""
    found = {}
    for call in calls:
        this = reconciliation(run, call)
        if isinstance(this, Missing):
            continue
        residual, share = this.residual, this.residual_share
        if not isinstance(residual, Missing) and not isinstance(share, Missing):
            found[call] = (residual, share)
    return found


def missed(run: Run) -> str:
    """The calls below the batch of the rule whose peak is not predicted to the byte, in words."""
    batches: dict[str, list[int]] = {}
    for call, (residual, _) in residuals(run, compared(run)).items():
        if residual and call.batch < FROM_BATCH:
            name = f"{call.network}, {LAYOUT_NAMES[call.layout]}"
            batches.setdefault(name, []).append(call.batch)
    return "; ".join(f"{name}, at batch {listed(found, 'and')}" for name, found in batches.items())


# -------------------------------------------------------------------------------------- tables


def peak_table(run: Run) -> Table:
    """The parts of the predicted peak of each network at its largest batch, both layouts."""
    calls = [calls[-1] for n in run.networks() for y in LAYOUTS if (calls := _known(run, n, y))]
    return Table(
        "tbl-peaks",
        f"Predicted and measured peak of each network at its largest batch on {run.label}, "
        "float32, eager. Before: parameters, statistics and input, which are there before the "
        "call; tensors: what the layer at the peak reads and writes; held: what later layers and "
        "the callers keep; workspace: what its implementation takes.",
        (
            Column("Network"),
            Column("Batch", "1"),
            Column("Layout"),
            Column("At layer"),
            Column("Before", "B", "MB"),
            Column("Tensors", "B", "MB"),
            Column("Held", "B", "MB"),
            Column("Workspace", "B", "MB"),
            Column("Sum", "B", "MB"),
            Column("Measured", "B", "MB"),
            Column("Residual", "B"),
        ),
        tuple(_peak_row(run, call) for call in calls),
        notes=_unknown_notes(run, calls),
        sources=(run.file,),
        wide=True,
    )


def _unknown_notes(run: Run, calls: Sequence[Call]) -> tuple[str, ...]:
    """Where the layer at the peak takes a workspace that no rule gives."""
    unknown = [
        f"{call.network}, {LAYOUT_NAMES[call.layout]}"
        for call in calls
        if isinstance(at := run.predicted(call), Held) and not at.complete
    ]
    return (f"The layer's workspace is unknown and left out: {'; '.join(unknown)}.",) * bool(
        unknown
    )


def _known(run: Run, network: str, layout: Layout) -> list[Call]:
    calls = sweep(run, network, layout)
    return [call for call in calls if not isinstance(run.predicted(call), Missing)]


def _peak_row(run: Run, call: Call) -> tuple[Cell, ...]:
    at, measured = run.predicted(call), _measured_peak(run, call)
    assert not isinstance(at, Missing)
    residual = measured if isinstance(measured, Missing) else measured - at.total
    return (
        call.network,
        call.batch,
        LAYOUT_NAMES[call.layout],
        at.layer,
        *parts(at),
        at.total,
        measured,
        residual,
    )


def parts(at: Held) -> tuple[int, int, int, int]:
    """What was there before, tensors of the layer, held tensors, workspaces and casts (B)."""
    before = sum(map(at.amount, _BEFORE))
    tensors = sum(map(at.amount, _TENSORS))
    work = sum(t.amount for t in at.terms if t.name in WORKSPACES or t.name.startswith("Cast"))
    return before, tensors, at.total - before - tensors - work, work


def agreement_table(run: Run) -> Table:
    """How far theory is off, for each network and layout over its batch sizes."""
    rows = [
        row
        for network in run.networks()
        for layout in LAYOUTS
        if (row := _agreement_row(run, network, layout))
    ]
    return Table(
        "tbl-agreement",
        f"Measured minus predicted peak over the batch sizes on {run.label}, float32, eager: the "
        "residual furthest from zero among all batch sizes of a row.",
        (
            Column("Network"),
            Column("Layout"),
            Column("Smallest", "1"),
            Column("Largest", "1"),
            Column("Cases", "1"),
            Column("Exact", "1"),
            Column("Residual", "B"),
            Column("Of measured", "1", "%"),
        ),
        tuple(rows),
        sources=(run.file,),
        wide=True,
    )


def _agreement_row(run: Run, network: str, layout: Layout) -> tuple[Cell, ...] | None:
    calls = [c for c in compared(run) if (c.network, c.layout) == (network, layout)]
    found = residuals(run, calls)
    if not found:
        return None
    worst = max(found.values(), key=lambda pair: abs(pair[1]))
    exact = sum(residual == 0 for residual, _ in found.values())
    batches = [call.batch for call in found]
    share: Cell = worst[1] if worst[1] else 0
    return (
        network,
        LAYOUT_NAMES[layout],
        batches[0],
        batches[-1],
        len(found),
        exact,
        worst[0],
        share,
    )


# ------------------------------------------------------------------------------------- figures


def agreement_figure(run: Run) -> Figure:
    """Measured over predicted peaks, and the residual over the batch size."""
    panels = (_identity(run), _residual_panel(run))
    found = residuals(run, compared(run))
    worst = max((abs(share) for _, share in found.values()), default=0.0)
    return Figure(
        "fig-agreement",
        f"Measured over predicted peak memory of every network, batch size and layout on "
        f"{run.label} (left; the line is equality), and the residual over the batch size (right; "
        "the band is the rule of agreement).",
        f"Left, log-log: {len(found)} points on the line of equality as far as the eye can tell. "
        f"Right: residuals within {100 * worst:.3g} per cent of the measured peak.",
        Drawing(panels, wide=True, height=2.5),
        (run.file,),
    )


def _identity(run: Run) -> Scaling:
    points, extremes = [], [1.0]
    for index, layout in enumerate(LAYOUTS):
        calls = [call for call in compared(run) if call.layout == layout]
        pairs = [(_total(run, call), _measured_peak(run, call)) for call in calls]
        x = tuple(a * _MEGA for a, _ in pairs)
        y = tuple(b * _MEGA for _, b in pairs if not isinstance(b, Missing))
        extremes += x
        if x:
            points.append(Points(LAYOUT_NAMES[layout], x, y, series=index, hollow=index > 0))
    ends = (min(extremes), max(extremes))
    return Scaling(
        "Predicted peak (MB)",
        "Measured peak (MB)",
        tuple(points),
        (Curve("Equality", ends, ends),),
        x_ticks=_powers(*ends),
    )


def _total(run: Run, call: Call) -> int:
    at = run.predicted(call)
    return 0 if isinstance(at, Missing) else at.total


def _powers(low: float, high: float) -> tuple[float, ...]:
    """Powers of ten between two numbers."""
    return tuple(10.0**n for n in range(-3, 7) if low <= 10.0**n <= high)


def _residual_panel(run: Run) -> Scaling:
    points = []
    for index, layout in enumerate(LAYOUTS):
        calls = [call for call in compared(run) if call.layout == layout]
        found = residuals(run, calls)
        x = tuple(float(call.batch) for call in found)
        y = tuple(100 * share for _, share in found.values())
        if x:
            points.append(Points(LAYOUT_NAMES[layout], x, y, series=index, hollow=index > 0))
    bound = 100 * TOLERANCE
    return Scaling(
        "Batch size (images)",
        "Residual (% of measured)",
        tuple(points),
        bands=(Band("Rule of agreement", -bound, 0, bound, 2),),
        x_ticks=ticks(sorted({int(x) for p in points for x in p.x})),
        y_scale="linear",
    )
