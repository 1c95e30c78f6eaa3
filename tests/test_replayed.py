"""Requests of a record in the model of the allocator: sums that its rules fix, and what is odd."""

from __future__ import annotations

import pytest

from report.errors import StudyError
from report.evidence.allocator_replay import (
    MOMENTS,
    SUMS,
    CallReplay,
    reconciliations,
    replayed,
    requests,
)
from report.missing import Missing
from report.records.record import Case
from report.theory.allocator import Allocate, Free
from tests import factory

MIB = 2**20
SMALL, LARGE = 2 * MIB, 20 * MIB

#: Parameters of 1000 B and an input of 3 MiB; a call takes a workspace of 12 MiB + 1 B and leaves a
#: result of 700 B; one warm-up call before.
BEFORE = (1000, 3 * MIB, 12 * MIB + 1, 700, -(12 * MIB + 1), -700)
CALL = (12 * MIB + 1, 700, -(12 * MIB + 1))
OWNERS = (0, 1, 2, 3, 2, 3, 4, 5, 4)
#: By hand from the rules: blocks are multiples of 512 B; small ones have a segment of 2 MiB; the
#: input has one of 20 MiB, of which 17 MiB stay free, so that the workspace finds room there.
TRUE = {
    "requested_before": 1000 + 3 * MIB,
    "requested_after": 1700 + 3 * MIB,
    "requested_peak": 1700 + 15 * MIB + 1,
    "allocated_before": 1024 + 3 * MIB,
    "allocated_after": 2048 + 3 * MIB,
    "allocated_peak": 2048 + 15 * MIB + 512,
    "reserved_before": SMALL + LARGE,
    "reserved_after": SMALL + LARGE,
    "reserved_peak": SMALL + LARGE,
}


def case(**change: tuple[int, ...]) -> Case:
    found = {
        "memory_events_before": BEFORE,
        "memory_events": CALL,
        "memory_owners": OWNERS,
        **{name: (size,) * 3 for name, size in TRUE.items()},
        **change,
    }
    return factory.case(1, memory={name: samples for name, samples in found.items() if samples})


def test_the_sums_of_a_call_follow_from_the_rules() -> None:
    call = replayed(case())
    assert isinstance(call, CallReplay)
    found = {
        f"{of}_{moment}": getattr(call.state(of, moment), of) for of in SUMS for moment in MOMENTS
    }
    assert found == TRUE
    assert call.requests == (Allocate("4", 12 * MIB + 1), Allocate("5", 700), Free("4"))


def test_what_the_model_does_not_foresee_is_a_residual() -> None:
    found = reconciliations(case(reserved_after=(SMALL + 2 * LARGE,) * 3), "r", "a call")
    left = {r.id: r.residual for r in found if not r.explained}
    assert left == {"r-reserved-after": LARGE}


def test_statistics_that_differ_or_lack_are_missing() -> None:
    odd = reconciliations(case(allocated_peak=(1, 2, 1), reserved_peak=()), "r", "a call")
    reasons = {r.id: r.measured.reason for r in odd if isinstance(r.measured, Missing)}
    assert reasons == {
        "r-allocated-peak": "allocated peak differed between repetitions",
        "r-reserved-peak": "no reserved peak recorded",
    }


@pytest.mark.parametrize("gone", [("memory_owners", "memory_events_before"), ("memory_owners",)])
def test_without_the_whole_history_there_is_nothing_to_replay(gone: tuple[str, ...]) -> None:
    short = case(**dict.fromkeys(gone, ()))
    assert isinstance(replayed(short), Missing)
    assert reconciliations(short, "r", "a call") == ()


@pytest.mark.parametrize(
    ("changes", "owners", "said"),
    [
        ((5,), (0, 1), "1 requests have 2 owners"),
        ((-5,), (0,), "request 0 frees what is not allocated"),
        ((5, -4), (0, 0), "request 1 frees 4 B of 5 B"),
        ((5, 5), (0, 0), "request 1 frees -5 B of 5 B"),
    ],
)
def test_a_history_that_no_program_has_is_refused(
    changes: tuple[int, ...], owners: tuple[int, ...], said: str
) -> None:
    with pytest.raises(StudyError, match=said):
        requests(changes, owners)
