"""Where memory runs out: calls under a limit, and those that failed without one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from figures.canvas import Drawing
from figures.scaling import Absent, Band, Curve, Points, Scaling
from report.missing import Missing, present
from report.paper import Figure
from report.studies.inference_memory.batches import series
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory import parts
from report.studies.inference_memory.subject import Call
from report.tables import Cell, Column, Table

_MEGA: Final = 1e-6
_MEBI: Final = 2**20
_DID_NOT_FIT: Final = Missing("out of memory: the limit was reached, and the call ended there")


def limit_table(run: Run) -> Table | None:
    """Peaks of calls that ran within a limit, a dash where memory ran out; None without limits."""
    limited = limited_calls(run)
    if not limited:
        return None
    batches = sorted({call.batch for call in limited})
    rows = tuple(
        (name, setting, *(_limit_cell(run, calls.get(batch)) for batch in batches))
        for (name, setting), calls in _by_setting(limited).items()
    )
    return Table(
        "tbl-limit",
        f"Peak memory of calls on {run.label} that may take no more than "
        f"{limited[0].memory_limit} MiB beyond what the process has, by batch size; the peak is "
        "that of the same call without a limit.",
        (
            Column("Network"),
            Column("Setting"),
            *(Column(f"Batch {batch:,}", "B", "MB") for batch in batches),
        ),
        rows,
        notes=_predicted_notes(run, limited),
        sources=(run.file,),
        wide=True,
    )


def limited_calls(run: Run) -> tuple[Call, ...]:
    """The calls whose process may take only so much memory."""
    return tuple(call for call in run.calls if call.memory_limit is not None)


def _by_setting(limited: Sequence[Call]) -> dict[tuple[str, str], dict[int, Call]]:
    """The limited calls by network and setting, then by batch."""
    found: dict[tuple[str, str], dict[int, Call]] = {}
    for call in limited:
        found.setdefault((call.network, call.setting), {})[call.batch] = call
    return found


def unlimited(call: Call) -> Call:
    """The same call without a limit."""
    return replace(call, memory_limit=None)


def _limit_cell(run: Run, call: Call | None) -> Cell:
    if call is None:
        return Missing(f"not part of the run on {run.label}")
    return _DID_NOT_FIT if run.ran_out(call) else limited_peak(run, call)


def limited_peak(run: Run, call: Call) -> int | Missing:
    """The peak of a limited call that ran: of the same call without limit, else the prediction."""
    outcome = run.case(call.factors)
    if isinstance(outcome, Missing):
        return outcome
    measured = run.peak(unlimited(call))
    return measured if isinstance(measured, int) else predicted_total(run, call)


def predicted_total(run: Run, call: Call) -> int | Missing:
    """The predicted peak of a call, limited or not."""
    at = run.predicted(call)
    return at if isinstance(at, Missing) else at.total


def _predicted_notes(run: Run, limited: Sequence[Call]) -> tuple[str, ...]:
    """Which peaks are predicted, because the same call was not measured without a limit."""
    settings = dict.fromkeys(
        call.setting
        for call in limited
        if not run.ran_out(call) and isinstance(run.peak(unlimited(call)), Missing)
    )
    return (f"Predicted where it was not measured: {'; '.join(settings)}.",) * bool(settings)


def fitted_by_theory(run: Run) -> tuple[int, int]:
    """Limited calls whose outcome the predicted growth foretells, and all that have one.

    A call fits if what it takes beyond parameters and input is at most the limit.
    """
    right = total = 0
    for call in limited_calls(run):
        at, ran_out = run.predicted(call), run.ran_out(call)
        if isinstance(at, Missing) or (isinstance(run.case(call.factors), Missing) and not ran_out):
            continue
        total += 1
        right += (at.total - parts(at)[0] <= (call.memory_limit or 0) * _MEBI) != ran_out
    return right, total


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


def limit_figure(run: Run) -> Figure | None:
    """Peaks within a limit over the batch size, crosses where memory ran out, a panel a setting."""
    limited = limited_calls(run)
    if not limited:
        return None
    settings = tuple(dict.fromkeys(call.setting for call in limited))
    panels = tuple(_limit_panel(run, [c for c in limited if c.setting == s]) for s in settings)
    return Figure(
        "fig-limit",
        f"Peak memory on {run.label} under a limit of {limited[0].memory_limit} MiB beyond what "
        "the process has, a panel a setting: points where the call ran, crosses at the upper edge "
        "where memory ran out, dotted what theory predicts.",
        _limit_alt(run, limited),
        Drawing(panels, wide=len(panels) > 1, height=2.7),
        (run.file,),
    )


def _limit_panel(run: Run, limited: Sequence[Call]) -> Scaling:
    limit = (limited[0].memory_limit or 0) * _MEBI * _MEGA
    points: list[Points] = []
    curves: list[Curve] = []
    absent: list[Absent] = []
    for index, name in enumerate(run.networks(limited)):
        calls = [call for call in limited if call.network == name]
        points += series(name, calls, lambda call: limited_peak(run, call), _MEGA, index)
        line = present({call.batch: predicted_total(run, call) for call in calls})
        if line:
            y = tuple(size * _MEGA for size in line.values())
            curves.append(Curve("" if curves else "predicted", tuple(line), y, "fit", index))
        failed = tuple(float(call.batch) for call in calls if run.ran_out(call))
        if failed:
            absent.append(Absent("" if absent else "out of memory", failed, index))
    return Scaling(
        "Batch size (images)",
        "Peak memory (MB)",
        tuple(points),
        tuple(curves),
        (Band("limit", limit, limit, limit, 4),),
        tuple(float(b) for b in sorted({call.batch for call in limited})),
        title=limited[0].setting,
        absent=tuple(absent),
    )


def _limit_alt(run: Run, limited: Sequence[Call]) -> str:
    failed = [f"{c.network} at batch {c.batch}" for c in limited if run.ran_out(c)]
    told = ", ".join(failed) or "no call"
    return f"Log-log peak memory over batch size. Memory ran out for {told}."
