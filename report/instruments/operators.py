"""Per-operator tables of a trace: calls, time, device time, sizes and allocations.

The rows are those of ``key_averages`` of torch.profiler; the counts and sizes of allocations are
those of the memory view of its TensorBoard plugin.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from report.instruments.trace import Trace


@dataclass(frozen=True)
class Sums:
    """What was done in some calls: ns on a device, B given less taken back, B given, how often."""

    device_time: int = 0
    size: int = 0
    allocated: int = 0
    allocations: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.device_time + other.device_time,
            self.size + other.size,
            self.allocated + other.allocated,
            self.allocations + other.allocations,
        )


@dataclass(frozen=True)
class OperatorRow:
    """One operator over all its calls; times in ns.

    ``time`` and ``total`` hold what the operators inside did too, ``self_time`` and ``own`` do not.
    """

    name: str
    calls: int
    time: int
    self_time: int
    total: Sums
    own: Sums

    def __add__(self, other: OperatorRow) -> OperatorRow:
        return OperatorRow(
            self.name,
            self.calls + other.calls,
            self.time + other.time,
            self.self_time + other.self_time,
            self.total + other.total,
            self.own + other.own,
        )


def operator_rows(trace: Trace, *, on_host: bool = True) -> tuple[OperatorRow, ...]:
    """A row an operator by its name, in the order of the first calls; marks are rows too.

    Memory is that of the host, or else of the device.
    """
    calls = _calls(trace)
    own = _own(trace, calls, on_host)
    total, self_time = dict(own), dict.fromkeys(own, 0)
    # Children stand behind their parents, so that backwards every child is whole already.
    for place in sorted(own, reverse=True):
        operator = trace.operators[place]
        self_time[place] += operator.duration
        if operator.parent is not None:
            around = calls[operator.parent]
            total[around] += total[place]
            self_time[around] -= operator.duration
    rows: dict[str, OperatorRow] = {}
    for place in sorted(own):
        name, duration = trace.operators[place].name, trace.operators[place].duration
        row = OperatorRow(name, 1, duration, self_time[place], total[place], own[place])
        rows[name] = rows[name] + row if name in rows else row
    return tuple(rows.values())


def _calls(trace: Trace) -> list[int]:
    """For every operator the place of the call that it is part of, mostly its own.

    An operator that does nothing but call one of the same name is one call with it, as in torch's
    tables (``_remove_dup_nodes``).
    """
    children: dict[int | None, int] = defaultdict(int)
    for operator in trace.operators:
        children[operator.parent] += 1
    calls: list[int] = []
    for place, operator in enumerate(trace.operators):
        parent = operator.parent
        repeats = (
            parent is not None
            and children[parent] == 1
            and trace.operators[parent].name == operator.name
        )
        calls.append(calls[parent] if repeats and parent is not None else place)
    return calls


def _own(trace: Trace, calls: list[int], on_host: bool) -> dict[int, Sums]:
    """What each call did itself: memory events, and kernels that it launched."""
    own = {call: Sums() for call in calls}
    for event in trace.memory:
        if event.operator is not None and event.on_host == on_host:
            given = max(event.change, 0)
            own[calls[event.operator]] += Sums(0, event.change, given, int(given > 0))
    launched_by = {operator.external: place for place, operator in enumerate(trace.operators)}
    for kernel in trace.kernels:
        if kernel.external is not None and kernel.external in launched_by:
            own[calls[launched_by[kernel.external]]] += Sums(device_time=kernel.duration)
    return own
