"""The gates: what passes, what is printed as a range, not pooled, or makes a record a problem."""

from __future__ import annotations

import msgspec
import pytest

from report.instruments import gates
from report.records.record import Case, Record, Round
from tests import factory

TWO_GROUPS = (1.35, 1.36, 1.4, 2.16, 2.2, 2.31)


@pytest.mark.parametrize(
    ("medians", "bimodal"),
    [
        (TWO_GROUPS, True),
        ((10.0, 12.0, 15.0, 2275.0, 9000.0, 13525.0), True),
        ((0.0, 0.0, 5000.0, 5100.0), True),
        ((0.0, 0.0, 3.0, 4.0), False),  # so few page faults are none
        ((1.0, 1.1, 1.2, 1.4, 1.6, 1.9), False),  # wide, and without a gap
        ((1.0, 1.0, 1.0, 1.0, 1.0, 2.0), False),  # one that is slow by itself
        ((*(1.0,) * 46, 1.3, 1.3), False),
        ((1.0, 1.3), True),
        ((1.0,), False),
    ],
)
def test_two_groups_further_apart_than_a_quarter(medians: tuple[float, ...], bimodal: bool) -> None:
    assert gates.is_bimodal(medians) is bimodal


def test_runs_agree_up_to_a_fifth() -> None:
    assert gates.agree((1.0, 1.1), (1.2, 1.3))
    assert not gates.agree((1.0, 1.0), (1.21, 1.21)) and not gates.agree((1.21,), (1.0,))


# ---------------------------------------------------------------------------------------- records


def round_of(time: float, **changes: object) -> Round:
    plain = Round(process=1, policy="retained", series={"time": (time,)})
    return msgspec.structs.replace(plain, **changes)


def record(*rounds: Round, **change: object) -> Record:
    case = Case(factors={"size": 1}, rounds=rounds)
    return factory.measurement(cases=(case,), **change)


def test_only_what_was_watched_counts_as_undisturbed() -> None:
    failed = round_of(1.0, status="failed", reason="It broke.", series={})
    loud, unwatched = round_of(1.0, disturbance="a test"), round_of(1.0, policy=None)
    assert gates.disturbed([record(round_of(1.0), loud, failed, unwatched)]) == (1, 2)
    assert gates.disturbed([record(unwatched, failed)]) is None
    blind = factory.environment(missing={"disturbance": "there is no /proc"})
    assert gates.disturbed([record(round_of(1.0), environment=blind)]) is None


def test_series_in_which_two_runs_disagree_are_counted() -> None:
    one, other = (record(*(round_of(t, process=n) for n in (1, 2))) for t in (1.0, 1.3))
    assert gates.disagreeing(one, one) == 0
    assert gates.disagreeing(one, other) == gates.disagreeing(other, one) == 1


@pytest.mark.parametrize(
    ("rates", "why"),
    [
        ((100e9,), None),
        ((), None),
        ((250e9,), "a ceiling of 250 GFLOP/s is more than the cores can compute, 198"),
        # No case is faster than the best ceiling.
        ((1.0,), "computes 0 GFLOP/s, the best ceiling 0"),
    ],
)
def test_a_rate_that_no_processor_reaches_is_a_problem(
    rates: tuple[float, ...], why: str | None
) -> None:
    machine = factory.environment(host=factory.SERVER, threads=1)
    assert gates.most_possible(machine) == pytest.approx(198.4e9)
    plain = factory.ceiling("matrix_product", "before", 1.0)
    ceilings = tuple(msgspec.structs.replace(plain, work=10**9, samples=(1e9 / r,)) for r in rates)
    found = gates.problem(factory.measurement(environment=machine, ceilings=ceilings))
    assert found == why or (why and found and found.endswith(why))
