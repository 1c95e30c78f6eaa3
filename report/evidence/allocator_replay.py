"""Replay of a record's requests of CUDA memory in the allocator's model, beside its statistics.

The record holds every request since the allocator was empty: signed bytes in their order, with the
number of the allocation that each begins or ends.  It also holds the allocator's statistics before,
after and at the peak of one call.  The model predicts these statistics from the requests alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, Literal, TypeAlias

from report.core.errors import StudyError
from report.core.missing import Missing
from report.core.records.record import Case
from report.core.statistics.estimates import identical
from report.evidence.runs import Run
from report.theory.allocator import SUMS, Allocate, Free, MemoryRequest, Snapshot, Sum, replay
from report.theory.reconciliation import Reconciliation, Term

CallMoment: TypeAlias = Literal["before", "after", "peak"]

MOMENTS: Final[tuple[CallMoment, ...]] = ("before", "after", "peak")

_NO_HISTORY: Final = Missing("the record does not tell every request since nothing was allocated")


@dataclass(frozen=True)
class CallReplay:
    """One call in the model: its requests, and the allocator's states from right before it on."""

    requests: tuple[MemoryRequest, ...]
    states: tuple[Snapshot, ...]

    def state(self, of: Sum, moment: CallMoment) -> Snapshot:
        """The allocator before or after the call, or when the sum ``of`` first is at its peak."""
        if moment == "peak":
            return max(self.states, key=attrgetter(of))
        return self.states[0 if moment == "before" else -1]


def requests(changes: Sequence[int], owners: Sequence[int]) -> tuple[MemoryRequest, ...]:
    """Read requests from ``changes`` (B, frees negative) of the allocations ``owners``.

    Raises ``StudyError`` if the two do not belong together.
    """
    if len(changes) != len(owners):
        raise _impossible(f"{len(changes)} requests have {len(owners)} owners")
    sizes: dict[int, int] = {}
    result: list[MemoryRequest] = []
    for number, (change, owner) in enumerate(zip(changes, owners, strict=True)):
        if owner not in sizes:
            if change < 0:
                raise _impossible(f"request {number} frees what is not allocated")
            sizes[owner] = change
            result.append(Allocate(str(owner), change))
        elif change != -sizes[owner]:
            raise _impossible(f"request {number} frees {-change} B of {sizes[owner]} B")
        else:
            result.append(Free(str(owner)))
    return tuple(result)


def _impossible(fault: str) -> StudyError:
    return StudyError(f"memory events: {fault}; run the experiment again.")


def replayed(case: Case) -> CallReplay | Missing:
    """Replay the call of a case in the model; missing if its record lacks part of the history.

    Raises ``StudyError`` for a history that no program can have.
    """
    owners = case.samples("memory_owners")
    before, call = (case.samples(name) for name in ("memory_events_before", "memory_events"))
    if not owners:
        return _NO_HISTORY
    history = requests([int(c) for c in (*before, *call)], [int(owner) for owner in owners])
    start = replay(history[: len(before)])[-1]
    events = history[len(before) :]
    return CallReplay(events, replay(events, start))


def reconciliations(case: Case, id: str, subject: str) -> tuple[Reconciliation, ...]:
    """Reconcile each sum at each moment with the statistics; none without a history.

    Sum and moment are added to ``id`` and ``subject``.
    """
    call = replayed(case)
    if isinstance(call, Missing):
        return ()
    return tuple(
        _reconciled(call.state(of, moment), case, of, moment, id, subject)
        for of in SUMS
        for moment in MOMENTS
    )


def _reconciled(
    state: Snapshot, case: Case, of: Sum, moment: CallMoment, id: str, subject: str
) -> Reconciliation:
    """Reconcile one sum: rounding adds to requested bytes, free blocks to allocated ones."""
    evidence = "replay of every request since the allocator held nothing"
    rounding, idle = state.allocated - state.requested, state.reserved - state.allocated
    terms = (
        Term("Allocator rounding", rounding, "blocks − requests", evidence),
        Term("Free blocks in segments", idle, "segments − blocks", evidence),
    )
    # The allocator's statistics, which must be the same in every repetition.
    name, words = f"{of}_{moment}", f"{of} {moment}"
    samples = case.samples(name)
    value = identical(samples) if samples else None
    why = f"{words} differed between repetitions" if samples else f"no {words} recorded"
    measured: Term | Missing = Missing(why)
    if value is not None:
        measured = Term(of.capitalize(), int(value), "the allocator's statistics", name)
    return Reconciliation(
        f"{id}-{of}-{moment}",
        f"{subject}, {words}",
        "B",
        Term("Requested", state.requested, "sum of the live requests", evidence),
        terms[: SUMS.index(of)],
        measured,
    )


def replays(run: Run) -> dict[str, Reconciliation]:
    """Reconcile every sum of the allocator at every moment of every case, by id."""
    by_id: dict[str, Reconciliation] = {}
    for index, case in enumerate(run.stored.record.cases):
        if case.status == "ok":
            words = ", ".join(f"{name} {level}" for name, level in case.factors.items())
            id = f"replay-{run.key}-{index}"
            by_id |= {r.id: r for r in reconciliations(case, id, f"{words} on {run.label}")}
    return by_id
