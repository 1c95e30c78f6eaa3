"""Peak memory: what theory predicts from shapes beside what was measured, and where it ran out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Absent, Band, Curve, Points, Scaling
from report.liveness import (
    INPUT,
    PARAMETERS,
    PENDING,
    READ,
    STATISTICS,
    WRITTEN,
    Held,
    reconciled_peak,
)
from report.missing import Missing, present
from report.paper import Figure
from report.reconciliation import Reconciliation, Term
from report.studies.inference_memory.batches import series, sweep, ticks
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.subject import LAYOUT_NAMES, LAYOUTS, Call
from report.tables import Cell, Column, Table
from report.workspaces import WORKSPACES, Layout

#: Theory and measurement agree within this share, from this batch on.
TOLERANCE: Final = 0.02
FROM_BATCH: Final = 8

_MEGA: Final = 1e-6
_MEBI: Final = 2**20
_BEFORE: Final = (PARAMETERS, STATISTICS, INPUT)
_TENSORS: Final = (READ, WRITTEN, PENDING)
_DID_NOT_FIT: Final = Missing("out of memory: the limit was reached, and the call ended there")


def reconciliation(run: Run, call: Call) -> Reconciliation | Missing:
    """The predicted peak of a call, led to the measured one."""
    at = run.predicted(call)
    if isinstance(at, Missing):
        return at
    measured = run.peak(call)
    found = measured if isinstance(measured, Missing) else _measured(measured)
    id_ = f"peak-{run.key}-{call.network}-{call.batch}-{call.layout}-{call.precision}"
    subject = f"Peak memory of {call.network} at batch {call.batch}, {call.setting}, {run.label}"
    return reconciled_peak(id_, subject, at, found)


def _measured(size: int) -> Term:
    return Term("Measured", size, "most bytes in live blocks", "the allocator's events")


def compared(run: Run) -> tuple[Call, ...]:
    """The plain float32 calls in both layouts whose peak is both predicted and measured."""
    calls = (c for layout in LAYOUTS for n in run.networks() for c in sweep(run, n, layout))
    return tuple(
        call
        for call in calls
        if not isinstance(run.peak(call), Missing) and not isinstance(run.predicted(call), Missing)
    )


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
    at, measured = run.predicted(call), run.peak(call)
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


def limit_table(run: Run) -> Table | None:
    """Peaks within a limit, and a dash where memory ran out; None if nothing was limited."""
    limited = _limited(run)
    if not limited:
        return None
    batches = sorted({call.batch for call in limited})
    by_place = {(call.network, call.batch): call for call in limited}
    rows = tuple(
        (name, *(_limit_cell(run, by_place.get((name, batch))) for batch in batches))
        for name in run.networks(limited)
    )
    return Table(
        "tbl-limit",
        f"Peak memory on {run.label} where the process may take no more than "
        f"{limited[0].memory_limit} MiB beyond what it has, by batch size; contiguous, float32.",
        (Column("Network"), *(Column(f"Batch {batch:,}", "B", "MB") for batch in batches)),
        rows,
        sources=(run.file,),
    )


def _limited(run: Run) -> tuple[Call, ...]:
    return tuple(call for call in run.calls if call.memory_limit is not None)


def _limit_cell(run: Run, call: Call | None) -> Cell:
    if call is None:
        return Missing(f"not part of the run on {run.label}")
    return _DID_NOT_FIT if run.ran_out(call) else run.peak(call)


def fitted_by_theory(run: Run) -> tuple[int, int]:
    """Limited calls whose outcome the predicted growth foretells, and all that have one.

    A call fits if what it takes beyond parameters and input is at most the limit.
    """
    right = total = 0
    for call in _limited(run):
        growth = _growth(run, call)
        peak = run.peak(call)
        if growth is None or (isinstance(peak, Missing) and not run.ran_out(call)):
            continue
        total += 1
        right += (growth <= (call.memory_limit or 0) * _MEBI) != run.ran_out(call)
    return right, total


def _growth(run: Run, call: Call) -> int | None:
    """What theory says a call takes beyond what is there before it; its outcome does not matter."""
    twin = Call(call.network, call.image, call.batch, call.layout)
    at = run.predicted(twin)
    return None if isinstance(at, Missing) else at.total - parts(at)[0]


def failures_table(run: Run) -> Table | None:
    """Every unlimited call that ran out of memory, with the reason that it gave."""
    failed = [call for call in run.chosen() if run.ran_out(call)]
    if not failed:
        return None
    rows = tuple(
        (call.network, call.batch, call.setting, _reason(run.case(call.factors))) for call in failed
    )
    return Table(
        "tbl-failures",
        f"Calls that ran out of memory on {run.label} without a limit.",
        (Column("Network"), Column("Batch", "1"), Column("Setting"), Column("Outcome")),
        rows,
        sources=(run.file,),
        wide=True,
    )


def _reason(case: object) -> str:
    return case.reason if isinstance(case, Missing) else ""


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
        pairs = [(_total(run, call), run.peak(call)) for call in calls]
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


def limit_figure(run: Run) -> Figure | None:
    """Peaks within a limit over the batch size, crosses where memory ran out."""
    limited = _limited(run)
    if not limited:
        return None
    limit = (limited[0].memory_limit or 0) * _MEBI * _MEGA
    points: list[Points] = []
    curves: list[Curve] = []
    absent: list[Absent] = []
    for index, name in enumerate(run.networks(limited)):
        calls = [call for call in limited if call.network == name]
        points += series(name, calls, run.peak, _MEGA, index)
        line = present({c.batch: _predicted_total(run, c) for c in calls})
        if line:
            y = tuple(size * _MEGA for size in line.values())
            curves.append(Curve("" if curves else "predicted", tuple(line), y, "fit", index))
        failed = tuple(float(call.batch) for call in calls if run.ran_out(call))
        if failed:
            absent.append(Absent("" if absent else "out of memory", failed, index))
    panel = Scaling(
        "Batch size (images)",
        "Peak memory (MB)",
        tuple(points),
        tuple(curves),
        (Band("Limit", limit, limit, limit, 4),),
        tuple(float(b) for b in sorted({call.batch for call in limited})),
        absent=tuple(absent),
    )
    return Figure(
        "fig-limit",
        f"Peak memory on {run.label} under a limit of {limited[0].memory_limit} MiB beyond what "
        "the process has: points where the call ran, crosses at the upper edge where memory ran "
        "out, dotted what theory predicts.",
        _limit_alt(run, limited),
        Drawing((panel,), height=3.1),
        (run.file,),
    )


def _predicted_total(run: Run, call: Call) -> int | Missing:
    at = run.predicted(Call(call.network, call.image, call.batch, call.layout))
    return at if isinstance(at, Missing) else at.total


def _limit_alt(run: Run, limited: Sequence[Call]) -> str:
    failed = [f"{c.network} at batch {c.batch}" for c in limited if run.ran_out(c)]
    told = ", ".join(failed) or "no call"
    return f"Log-log peak memory over batch size. Memory ran out for {told}."
