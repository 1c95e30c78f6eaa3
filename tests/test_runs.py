"""What is asked of a run: found once, and what a frame of its cases would tell."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from report.evidence.runs import Run, remembered
from report.missing import Missing
from report.records.frames import case_frame, select
from report.records.record import Factor, Round
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


def in_rounds(*rounds: Round) -> Run:
    """The run of the forward pass in these rounds."""
    case = msgspec.structs.replace(factory.case(4), rounds=rounds)
    return Run(factory.stored(factory.record([case])), "a")


def test_a_series_is_told_process_by_process() -> None:
    bytes_ = {"allocated_peak": [7]}
    run = in_rounds(
        factory.round_(2, {"time": [0.5, 0.25], **bytes_}),
        factory.round_(1, {"time": [0.75]}),
        factory.round_(3, {}, status="failed", reason="It broke."),
    )
    found = run.by_process("time", FORWARD)
    assert not isinstance(found, Missing)
    assert [(p.name, p.samples) for p in found] == [("2", (0.5, 0.25)), ("1", (0.75,))]
    assert run.samples("time", FORWARD) == (0.5, 0.25, 0.75)
    # Only one process measured it.
    assert run.fixed("allocated_peak", FORWARD) == 7
    assert isinstance(run.by_process("cpu_time", FORWARD), Missing)


def test_a_series_of_the_run_itself_has_a_process_without_name() -> None:
    found = Run(FIRST, "a").by_process("time", FORWARD)
    assert not isinstance(found, Missing)
    assert [process.name for process in found] == [""]


def test_bytes_that_differ_between_processes_are_not_fixed() -> None:
    rounds = (factory.round_(i, {"allocated_peak": [i]}) for i in (1, 2))
    found = in_rounds(*rounds).fixed("allocated_peak", FORWARD)
    assert isinstance(found, Missing)
    assert "differed between repetitions" in found.reason


def test_a_median_is_that_of_the_samples() -> None:
    run = Run(FIRST, "a")
    samples = next(c for c in FIRST.record.cases if c.factors == FORWARD).samples("time")
    assert run.median("time", FORWARD) == median_interval(samples)
    assert run.median("time", FORWARD) is run.median("time", dict(reversed(FORWARD.items())))
