"""The figures of conv_profiling; captions stand in its template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from figures.canvas import Panel
from figures.dots import Dots, DotSeries
from figures.timeline import Lane, Level, Span, Timeline
from report.instruments.trace import Operator, Trace
from report.missing import Missing
from report.studies.conv_profiling.runs import Call
from report.theory.reconciliation import Reconciliation

#: The share of a call from which on an operator is wide enough to be seen.
_SEEN: Final = 0.005
_MILLI, _MEGA = 1e6, 1e6  # ns in a ms, B in a MB
_ENGINE: Final = "autograd::engine::evaluate_function: "
_KINDS: Final = ("Forward", "Backward")


def rules(
    counts: Mapping[Call, Reconciliation], peaks: Mapping[Call, Reconciliation]
) -> Iterator[Panel]:
    """What the rules give and what was recorded, of work and of bytes, a row a call."""
    calls = [call for call in counts if call in peaks]
    if not calls:
        return
    names = tuple(f"{call.name}{' (held out)' if call.held_out else ''}" for call in calls)
    for found, label in ((counts, "Multiply-adds ÷ theory"), (peaks, "Peak ÷ output")):
        rows = [found[call] for call in calls]
        named = found is counts  # one legend is enough
        yield Dots(
            names,
            (
                DotSeries(
                    "By the rules" * named, tuple(r.end / r.start.amount for r in rows), 1, True
                ),
                _recorded("Recorded" * named, calls, rows),
            ),
            label,
            reference=1.0,
            named=named,
        )


def _recorded(label: str, calls: list[Call], rows: list[Reconciliation]) -> DotSeries:
    """What was recorded of the calls, over where theory starts."""
    ratios = (
        None if isinstance(r.measured, Missing) else r.measured.amount / r.start.amount
        for r in rows
    )
    return DotSeries(label, tuple(ratios), 0)


def timeline(trace: Trace) -> Timeline:
    """What ran when, and the memory that was live on the host."""
    inside = [trace.operators[place] for place in trace.top]
    length = max(o.end for o in inside) - min(o.start for o in inside)
    live = trace.live()
    level = Level(
        "Live (MB)",
        tuple(moment / _MILLI for moment, _ in live),
        tuple(size / _MEGA for _, size in live),
    )
    return Timeline(
        _nested_lanes(trace, _SEEN * length),
        _KINDS,
        "Time since the call began (ms)",
        level if live else None,
    )


def _nested_lanes(trace: Trace, least: float) -> tuple[Lane, ...]:
    """A lane a level of nesting: what an operator calls stands below it.

    Levels whose operators all take less than ``least`` (ns) would seem empty and are left out.
    """
    marks = sum(o.mark for o in trace.operators)
    levels: dict[int, list[Operator]] = {}
    for operator in trace.operators:
        if not operator.mark:
            above = sum(trace.operators[place].mark for place in trace.ancestors(operator))
            levels.setdefault(operator.depth - min(above, marks), []).append(operator)
    return tuple(
        Lane(f"Level {level + 1}", tuple(map(_span, operators)))
        for level, operators in sorted(levels.items())
        if max(operator.duration for operator in operators) >= least
    )


def _span(operator: Operator) -> Span:
    label = operator.name.removeprefix(_ENGINE).removeprefix("torch::autograd::")
    kind = int("backward" in operator.name.lower() or operator.name.startswith(_ENGINE))
    start, end = operator.start / _MILLI, operator.end / _MILLI
    return Span(start, end, kind, label.removeprefix("aten::"))
