"""A record's requests of CUDA memory in the model of the allocator, beside its statistics.

The record holds every request since the allocator held nothing, as signed bytes in their order and
with the number of the allocation that each begins or ends; and what the allocator's statistics said
before, after and at the peak of one call.  The model predicts all of these from the requests alone.
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
from report.theory.allocator import SUMS, Allocate, Free, Request, Snapshot, Sum, replay
from report.theory.reconciliation import Reconciliation, Term

Moment: TypeAlias = Literal["before", "after", "peak"]

MOMENTS: Final[tuple[Moment, ...]] = ("before", "after", "peak")

_NO_HISTORY: Final = Missing("the record does not tell every request since nothing was allocated")


@dataclass(frozen=True)
class CallReplay:
    """One call in the model: its requests, and the allocator's states from right before it on."""

    requests: tuple[Request, ...]
    states: tuple[Snapshot, ...]

    def state(self, of: Sum, moment: Moment) -> Snapshot:
        """The allocator before or after the call, or when the sum ``of`` first is at its peak."""
        if moment == "peak":
            return max(self.states, key=attrgetter(of))
        return self.states[0 if moment == "before" else -1]


def requests(changes: Sequence[int], owners: Sequence[int]) -> tuple[Request, ...]:
    """The requests that ``changes`` (B, frees negative) of the allocations ``owners`` mean.

    Raises ``StudyError`` if the two do not belong together.
    """
    if len(changes) != len(owners):
        raise _impossible(f"{len(changes)} requests have {len(owners)} owners")
    sizes: dict[int, int] = {}
    found: list[Request] = []
    for number, (change, owner) in enumerate(zip(changes, owners, strict=True)):
        if owner not in sizes:
            if change < 0:
                raise _impossible(f"request {number} frees what is not allocated")
            sizes[owner] = change
            found.append(Allocate(str(owner), change))
        elif change != -sizes[owner]:
            raise _impossible(f"request {number} frees {-change} B of {sizes[owner]} B")
        else:
            found.append(Free(str(owner)))
    return tuple(found)


def _impossible(found: str) -> StudyError:
    return StudyError(f"memory events: {found}; run the experiment again.")


def replayed(case: Case) -> CallReplay | Missing:
    """The call of a case in the model; missing where the record does not hold its whole history.

    Raises ``StudyError`` for a history that no program can have.
    """
    owners = case.samples("memory_owners")
    before, call = (case.samples(name) for name in ("memory_events_before", "memory_events"))
    if not owners:
        return _NO_HISTORY
    made = requests([int(c) for c in (*before, *call)], [int(owner) for owner in owners])
    start = replay(made[: len(before)])[-1]
    own = made[len(before) :]
    return CallReplay(own, replay(own, start))


def reconciliations(case: Case, id: str, subject: str) -> tuple[Reconciliation, ...]:
    """Each sum at each moment from the replay against the statistics; none without a history.

    Sum and moment are added to ``id`` and ``subject``.
    """
    found = replayed(case)
    if isinstance(found, Missing):
        return ()
    return tuple(
        _reconciled(found.state(of, moment), case, of, moment, id, subject)
        for of in SUMS
        for moment in MOMENTS
    )


def _reconciled(
    state: Snapshot, case: Case, of: Sum, moment: Moment, id: str, subject: str
) -> Reconciliation:
    """From requested bytes rounding leads to allocated ones, and free blocks to reserved ones."""
    evidence = "replay of every request since the allocator held nothing"
    rounding, idle = state.allocated - state.requested, state.reserved - state.allocated
    terms = (
        Term("Allocator rounding", rounding, "blocks − requests", evidence),
        Term("Free blocks in segments", idle, "segments − blocks", evidence),
    )
    # What the allocator's statistics said in every repetition.
    name, words = f"{of}_{moment}", f"{of} {moment}"
    samples = case.samples(name)
    value = identical(samples) if samples else None
    why = f"{words} differed between repetitions" if samples else f"no {words} recorded"
    said: Term | Missing = Missing(why)
    if value is not None:
        said = Term(of.capitalize(), int(value), "the allocator's statistics", name)
    return Reconciliation(
        f"{id}-{of}-{moment}",
        f"{subject}, {words}",
        "B",
        Term("Requested", state.requested, "sum of the live requests", evidence),
        terms[: SUMS.index(of)],
        said,
    )


def replays(run: Run) -> dict[str, Reconciliation]:
    """Every sum of the allocator at every moment of every case, replayed from its requests."""
    found: dict[str, Reconciliation] = {}
    for index, case in enumerate(run.stored.record.cases):
        if case.status == "ok":
            words = ", ".join(f"{name} {level}" for name, level in case.factors.items())
            id = f"replay-{run.key}-{index}"
            found |= {r.id: r for r in reconciliations(case, id, f"{words} on {run.label}")}
    return found
