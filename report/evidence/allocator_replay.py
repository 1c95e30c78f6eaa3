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

from report.errors import StudyError
from report.missing import Missing
from report.records.record import Case
from report.statistics.estimates import identical
from report.theory.allocator import Allocate, Free, Replay, Request, Snapshot, replay
from report.theory.reconciliation import Reconciliation, Term

Sum: TypeAlias = Literal["requested", "allocated", "reserved"]
Moment: TypeAlias = Literal["before", "after", "peak"]

SUMS: Final[tuple[Sum, ...]] = ("requested", "allocated", "reserved")
MOMENTS: Final[tuple[Moment, ...]] = ("before", "after", "peak")

_NO_HISTORY: Final = Missing("the record does not tell every request since nothing was allocated")


@dataclass(frozen=True)
class CallReplay:
    """One call in the model: its requests, and the allocator's states from right before it on."""

    requests: tuple[Request, ...]
    states: Replay

    def state(self, of: Sum, moment: Moment) -> Snapshot:
        """The allocator before or after the call, or when the sum ``of`` first is at its peak."""
        if moment == "peak":
            return max((self.states.start, *self.states.steps), key=attrgetter(of))
        return self.states.start if moment == "before" else self.states.last


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
    start = replay(made[: len(before)]).last
    own = made[len(before) :]
    return CallReplay(own, replay(own, start))


def statistic(case: Case, of: Sum, moment: Moment) -> int | Missing:
    """What the allocator's statistics said in every repetition (B)."""
    name = f"{of}_{moment}"
    words, samples = name.replace("_", " "), case.samples(name)
    if not samples:
        return Missing(f"no {words} recorded")
    value = identical(samples)
    return Missing(f"{words} differed between repetitions") if value is None else int(value)


def reconciliations(case: Case, id: str, subject: str) -> tuple[Reconciliation, ...]:
    """Each sum at each moment from the replay against the statistics; none without a history.

    From requested bytes rounding leads to allocated ones, and free blocks to reserved ones.
    """
    found = replayed(case)
    if isinstance(found, Missing):
        return ()
    return tuple(
        reconciled(found, case, of, moment, id, f"{subject}, {of} {moment}")
        for of in SUMS
        for moment in MOMENTS
    )


def reconciled(
    call: CallReplay, case: Case, of: Sum, moment: Moment, id: str, subject: str
) -> Reconciliation:
    """One sum at one moment of ``call``; sum and moment are added to ``id``."""
    state = call.state(of, moment)
    evidence = "replay of every request since the allocator held nothing"
    rounding = Term(
        "Allocator rounding", state.allocated - state.requested, "blocks − requests", evidence
    )
    idle = Term(
        "Free blocks in segments", state.reserved - state.allocated, "segments − blocks", evidence
    )
    terms = {"requested": (), "allocated": (rounding,), "reserved": (rounding, idle)}[of]
    said = statistic(case, of, moment)
    return Reconciliation(
        f"{id}-{of}-{moment}",
        subject,
        "B",
        Term("Requested", state.requested, "sum of the live requests", evidence),
        terms,
        said
        if isinstance(said, Missing)
        else Term(of.capitalize(), said, "the allocator's statistics", f"{of}_{moment}"),
    )
