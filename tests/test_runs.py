"""What is asked of a run: found once, and what a frame of its cases would tell."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from report.evidence.runs import Run, remembered
from report.records.frames import case_frame, select
from report.records.record import Factor
from report.statistics.estimates import median_interval
from tests import factory

FIRST = factory.stored(factory.record(factory.layer_cases((1, 4, 16))))
OTHER = factory.stored(
    factory.record(
        [
            factory.case(8, time=(0.5, 0.25)),
            factory.case(16, status="out_of_memory", reason="Memory ran out."),
        ]
    )
)
FORWARD = {"subject": "layer", "batch": 4, "pass": "forward", "layout": "contiguous"}


@dataclass(frozen=True)
class Counting(Run):
    """Counts how often it computes."""

    asked: tuple[list[object], ...] = ([],)

    @remembered
    def twice(self, number: int, *, plus: int = 0) -> int:
        self.asked[0].append((number, plus))
        return 2 * number + plus


def test_each_question_is_answered_once_for_each_run() -> None:
    one, other = (Counting(FIRST, "a", ([],)) for _ in range(2))
    assert [one.twice(3), one.twice(3), one.twice(3, plus=1), one.twice(3, plus=1)] == [6, 6, 7, 7]
    assert one.asked[0] == [(3, 0), (3, 1)]
    assert other.twice(3) == 6
    assert other.asked[0] == [(3, 0)]
    assert Counting.twice.__name__ == "twice"


def test_functions_of_a_run_remember_apart() -> None:
    @remembered
    def first(run: Run, name: str) -> str:
        return f"first {name}"

    @remembered
    def second(run: Run, name: str) -> str:
        return f"second {name}"

    run = Run(FIRST, "a")
    assert [first(run, "x"), second(run, "x"), first(run, "y")] == [
        "first x",
        "second x",
        "first y",
    ]


factors = st.sampled_from(["batch", "pass", "layout", "subject", "colour"])
wanted = st.dictionaries(
    factors, st.sampled_from([1, 4, 16, "forward", "contiguous", "layer", "blue"]), max_size=2
)


@settings(deadline=None)  # the first frame imports pandas
@given(st.sampled_from([FIRST, OTHER]), factors, wanted)
def test_levels_are_those_of_a_frame(
    stored: factory.Stored, factor: str, where: dict[str, Factor]
) -> None:
    frame = select(case_frame((stored,)), **where)
    told = sorted(set(frame[factor].tolist())) if factor in frame.columns else []
    assert list(Run(stored, "a").levels(factor, **where)) == told


def test_levels_keep_their_type_where_other_cases_have_none() -> None:
    cases = [factory.case(8), factory.case(2)]
    record = factory.record([*cases, *factory.layer_cases((4,))])
    found = Run(factory.stored(record), "a").levels("batch")
    assert found == (2, 4, 8)
    assert {type(level) for level in found} == {int}


def test_a_median_is_that_of_the_samples() -> None:
    run = Run(FIRST, "a")
    samples = next(c for c in FIRST.record.cases if c.factors == FORWARD).samples("time")
    assert run.median("time", FORWARD) == median_interval(samples)
    assert run.median("time", FORWARD) is run.median("time", dict(reversed(FORWARD.items())))
