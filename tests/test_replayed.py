"""Requests of a record in the model of the allocator: real sums to the byte, and what is odd."""

from __future__ import annotations

from pathlib import Path

import msgspec
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
from report.records.store import read_record
from report.theory.allocator import Allocate, Free

DATA = Path(__file__).parents[1] / "data"
#: A layer on an H100, whose statistics PyTorch's allocator told.
H100 = DATA / "conv_scaling" / "20261122T102337Z-nvidia-h100-80gb-hbm3-1de971c8.zip"
CASES = read_record(H100, DATA).record.cases


def case(**change: tuple[int, ...]) -> Case:
    series = {name: samples for name, samples in {**CASES[0].series, **change}.items() if samples}
    return msgspec.structs.replace(CASES[0], series=series)


def test_the_sums_of_every_call_follow_from_the_rules() -> None:
    names = {f"{of}_{moment}": (of, moment) for of in SUMS for moment in MOMENTS}
    assert len(CASES) == 44 and len(names) == 9
    for each in CASES:
        call = replayed(each)
        assert isinstance(call, CallReplay)
        for name, (of, moment) in names.items():
            assert set(each.samples(name)) == {getattr(call.state(of, moment), of)}, name
        assert all(found.explained for found in reconciliations(each, "r", "a call"))


def test_what_the_model_does_not_foresee_is_a_residual() -> None:
    (reserved, *_) = CASES[0].samples("reserved_after")
    found = reconciliations(case(reserved_after=(reserved + 7,) * 3), "r", "a call")
    left = {r.id: r.residual for r in found if not r.explained}
    assert left == {"r-reserved-after": 7}


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
    assert requests((5, 7, -5), (0, 1, 0)) == (Allocate("0", 5), Allocate("1", 7), Free("0"))
    with pytest.raises(StudyError, match=said):
        requests(changes, owners)
