"""Where memory runs out: calls under a limit, and those that failed without one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from figures.canvas import Drawing
from figures.scaling import Absent, Band, Curve, Points, Scaling
from report.evidence.runs import remembered
from report.missing import Missing, present
from report.paper.findings import Figure
from report.paper.tables import Cell, Column, Table
from report.studies.inference_memory.batches import Known, series
from report.studies.inference_memory.measured import Run
from report.studies.inference_memory.memory import parts
from report.studies.inference_memory.subject import Call

_MEGA: Final = 1e-6
_MEBI: Final = 2**20
_LIMIT_LOOK: Final = 4
_DID_NOT_FIT: Final = Missing("out of memory: the limit was reached, and the call ended there")

#: Bytes of a call, measured or predicted.
_Bytes: TypeAlias = Callable[[Run, Call], int | Missing]
_Measured: TypeAlias = Callable[[Run, Call], Known]


def limit_table(run: Run) -> Table | None:
    """Growth of calls that ran within a limit, a dash where memory ran out; None without one."""
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
        f"What calls on {run.label} allocate at most beyond what was there, where their process "
        f"may take no more than {_limit_text(limited)}, by batch size; measured on the same call "
        "without a limit.",
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


def _limit_text(limited: Sequence[Call]) -> str:
    """The limit in the units of its choice and of the table."""
    size = limited[0].memory_limit or 0
    return f"{size} MiB ({size * _MEBI * _MEGA:.4g} MB) more"


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
    return _DID_NOT_FIT if run.ran_out(call) else limited_growth(run, call)


def limited_growth(run: Run, call: Call) -> int | Missing:
    """The growth of a limited call that ran, measured without its limit, else predicted."""
    outcome = run.case(call.factors)
    if isinstance(outcome, Missing):
        return outcome
    measured = run.growth(unlimited(call))
    return measured if isinstance(measured, int) else predicted_growth(run, call)


def predicted_growth(run: Run, call: Call) -> int | Missing:
    """What theory says a call allocates beyond parameters, statistics and input."""
    at = run.predicted(call)
    return at if isinstance(at, Missing) else at.total - parts(at)[0]


def _predicted_notes(run: Run, limited: Sequence[Call]) -> tuple[str, ...]:
    """Which peaks are predicted, because the same call was not measured without a limit."""
    settings = dict.fromkeys(
        call.setting
        for call in limited
        if not run.ran_out(call) and isinstance(run.growth(unlimited(call)), Missing)
    )
    return (f"Predicted where it was not measured: {'; '.join(settings)}.",) * bool(settings)


def foretold(run: Run) -> dict[Call, bool]:
    """For each limited call with an outcome whether theory foretells it.

    A call fits if what it takes beyond parameters and input is at most the limit.
    """
    found = {}
    for call in limited_calls(run):
        growth, ran_out = predicted_growth(run, call), run.ran_out(call)
        unknown = isinstance(run.case(call.factors), Missing) and not ran_out
        if not isinstance(growth, Missing) and not unknown:
            found[call] = (growth <= (call.memory_limit or 0) * _MEBI) != ran_out
    return found


def margin(run: Run, call: Call) -> float:
    """How far the predicted growth of a limited call is off its limit, as a share of the limit."""
    growth = predicted_growth(run, call)
    limit = (call.memory_limit or 0) * _MEBI
    return 0.0 if isinstance(growth, Missing) or not limit else abs(growth - limit) / limit


@remembered
def failed_calls(run: Run) -> tuple[Call, ...]:
    """The calls that ran out of memory without a limit."""
    return tuple(call for call in run.chosen() if run.ran_out(call))


def failures_table(run: Run) -> Table | None:
    """Every unlimited call that ran out of memory, with what it needs and what there is."""
    failed = failed_calls(run)
    if not failed:
        return None
    return Table(
        "tbl-failures",
        f"Calls that ran out of memory on {run.label} without a limit: the peak that theory "
        "predicts, the memory of the machine, and what the call ended with.",
        (
            Column("Network"),
            Column("Batch", "1"),
            Column("Setting"),
            Column("Predicted peak", "B", "GB"),
            Column("Memory", "B", "GB"),
            Column("Outcome"),
        ),
        tuple(_failure_row(run, call) for call in failed),
        sources=(run.file,),
        wide=True,
    )


def _failure_row(run: Run, call: Call) -> tuple[Cell, ...]:
    case = run.case(call.factors)
    reason = case.reason.partition(": ")[2] if isinstance(case, Missing) else ""
    return (
        call.network,
        call.batch,
        call.setting,
        predicted_peak(run, call),
        run.machine_memory,
        reason,
    )


def predicted_peak(run: Run, call: Call) -> int | Missing:
    """What theory says a call allocates in all."""
    at = run.predicted(call)
    return at if isinstance(at, Missing) else at.total


def too_large(run: Run) -> bool:
    """Whether theory predicts more than there is for every call that ran out without a limit."""
    found = [predicted_peak(run, call) for call in failed_calls(run)]
    return bool(found) and all(
        not isinstance(size, Missing) and size > run.machine_memory for size in found
    )


# ------------------------------------------------------------------------------------- figures


def limit_figure(run: Run) -> Figure | None:
    """Where memory runs out over the batch size: a panel a limited setting, and one without."""
    limited, failed = limited_calls(run), failed_calls(run)
    if not limited and not failed:
        return None
    settings = dict.fromkeys(call.setting for call in limited)
    panels = [_limit_panel(run, [c for c in limited if c.setting == s]) for s in settings]
    if failed:
        panels.append(_machine_panel(run, failed))
    return Figure(
        "fig-limit",
        _limit_caption(run, limited, failed),
        _limit_alt(run, (*limited, *failed)),
        Drawing(tuple(panels), wide=len(panels) > 1, height=2.7),
        (run.file,),
    )


def _limit_caption(run: Run, limited: Sequence[Call], failed: Sequence[Call]) -> str:
    within = (
        "what a call allocates beyond what was there, where its process may take no more than "
        f"{_limit_text(limited)} (the line across), a panel a setting"
        if limited
        else ""
    )
    names = ", ".join(run.networks(failed))
    how = ", ".join(dict.fromkeys(call.setting for call in failed))
    without = f"and the peak of {names} ({how}) without one, where the line is the machine's memory"
    told = "; ".join(part for part in (within, without * bool(failed)) if part)
    return (
        f"Where memory runs out on {run.label}: {told}. Points where the call ran, crosses at the "
        "upper edge where memory ran out, dotted the prediction."
    )


def _limit_panel(run: Run, limited: Sequence[Call]) -> Scaling:
    limit = (limited[0].memory_limit or 0) * _MEBI * _MEGA
    panel = _panel(run, limited, limited_growth, predicted_growth)
    return replace(
        panel,
        y_label="Growth of memory (MB)",
        bands=(Band("limit", limit, limit, limit, _LIMIT_LOOK),),
        title=limited[0].setting,
    )


def _machine_panel(run: Run, failed: Sequence[Call]) -> Scaling:
    """All batches of the networks of which a call failed without a limit."""
    settings = dict.fromkeys((c.network, c.layout, c.precision, c.execution) for c in failed)
    calls = [
        call
        for network, layout, precision, execution in settings
        for call in run.chosen(
            network=network, layout=layout, precision=precision, execution=execution, tile=None
        )
    ]
    panel = _panel(run, calls, Run.peak, predicted_peak)
    there = run.machine_memory * _MEGA
    return replace(
        panel,
        y_label="Peak memory (MB)",
        bands=(Band("memory", there, there, there, _LIMIT_LOOK),),
        title="no limit",
    )


def _panel(run: Run, calls: Sequence[Call], measured: _Measured, predicted: _Bytes) -> Scaling:
    """Points where calls ran, crosses where they failed, the prediction through both."""
    points: list[Points] = []
    curves: list[Curve] = []
    absent: list[Absent] = []
    for index, name in enumerate(run.networks(calls)):
        of_network = [call for call in calls if call.network == name]
        points += series(name, of_network, lambda call: measured(run, call), _MEGA, index)
        line = present({call.batch: predicted(run, call) for call in of_network})
        if line:
            y = tuple(size * _MEGA for size in line.values())
            curves.append(Curve("" if curves else "predicted", tuple(line), y, "fit", index))
        failed = tuple(float(call.batch) for call in of_network if run.ran_out(call))
        if failed:
            absent.append(Absent("" if absent else "out of memory", failed, index))
    return Scaling(
        "Batch size (images)",
        "",
        tuple(points),
        tuple(curves),
        x_ticks=tuple(float(b) for b in sorted({call.batch for call in calls})),
        absent=tuple(absent),
    )


def _limit_alt(run: Run, calls: Sequence[Call]) -> str:
    failed = [f"{c.network} at batch {c.batch} ({c.setting})" for c in calls if run.ran_out(c)]
    told = ", ".join(failed) or "no call"
    return f"Log-log memory over batch size. Memory ran out for {told}."
