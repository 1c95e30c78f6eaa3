"""Counting as the last step of a run: with a tool that is played, and with the real valgrind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import counted_study
import pytest

from experiments import registry
from experiments.harness import counting, machine
from experiments.harness.counting import Tool
from experiments.harness.journal import Count, read_run_log
from experiments.harness.study import CounterChoice, Session
from experiments.harness.worker import Task
from report.instruments.counters.lackey import series_of
from report.instruments.counters.logs import unpack
from report.records.record import Series
from report.records.store import digest
from tests.experiments.conftest import FOLDER, Notes, count, make_header, only_to_count

STUDY = counted_study.STUDY


def series(logs: object, place: str) -> tuple[Series, ...]:
    """What the played tool printed is its figure."""
    figure = int(dict(logs)["figure"])  # type: ignore[call-overload]
    return (Series(quantity="lackey_multiply_adds", unit="MAC", samples=(figure,)),)


class Played:
    """A tool that counts a hundred for each size, and can be made to fail."""

    def __init__(self) -> None:
        self.refusal: str | None = None
        self.raising: dict[int, BaseException] = {}
        self.asked: list[list[int]] = []

    def count(self, task: Task) -> Iterator[Count | None]:
        self.asked.append([case for case, _ in task.cases])
        yield None
        for case, factors in task.cases:
            if case in self.raising:
                raise self.raising.pop(case)
            reason = "no luck" if factors["size"] == 4 else None
            logs = {} if reason else {"figure": str(100 * int(factors["size"]))}
            yield Count(tool="lackey", case=case, logs=logs, reason=reason)

    @property
    def tool(self) -> Tool:
        return Tool(
            name="lackey",
            role="lackey",
            device="cpu",
            quantities=("lackey_multiply_adds",),
            meaning="figures",
            unavailable=lambda: self.refusal,
            count=self.count,
            twice=5,
            once=5,
            series=series,
        )


@pytest.fixture
def played() -> Played:
    return Played()


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.STUDIES, "counted", "counted_study")


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A run of sizes 1 to 6 that has only to be counted; size 2 failed."""
    return only_to_count(tmp_path / ".run.journal.jsonl", make_header(STUDY), {1: "failed"})


def run(
    path: Path, played: Played, notes: Notes, counters: CounterChoice = "auto"
) -> counting.Outcome:
    return count(STUDY, path, notes, counters, played.tool)


def figures(outcome: counting.Outcome) -> dict[int, float]:
    return {case: found[0].samples[0] for case, found in outcome.series.items()}


# ---------------------------------------------------------------------------------- the step


def test_cases_that_ended_well_are_counted_longest_first(
    journal: Path, played: Played, notes: Notes
) -> None:
    outcome = run(journal, played, notes)
    assert played.asked == [[4, 3, 2, 0]]  # size 6 is left out, size 2 failed
    assert figures(outcome) == {0: 100, 2: 300, 4: 500}
    assert outcome.missing == {"cases[3].lackey_multiply_adds": "no luck"}
    (attachment,) = outcome.attachments
    assert (attachment.name, attachment.meaning) == ("lackey.json.gz", "figures")
    assert attachment.sha256 == digest(outcome.files["lackey.json.gz"])
    kept = unpack(outcome.files["lackey.json.gz"], "lackey", "a file")
    assert {item.case: item.logs["figure"] for item in kept} == {0: "100", 2: "300", 4: "500"}
    cases = outcome.added(read_run_log(journal).finished.values())
    assert cases[0].samples("time") == (0.5,)
    assert cases[0].samples("lackey_multiply_adds") == (100,)
    assert cases[5].samples("lackey_multiply_adds") == ()
    assert figures(run(journal, played, notes, "all"))[5] == 600, "on demand"


def test_an_interrupted_count_goes_on_where_it_stopped(
    journal: Path, played: Played, notes: Notes
) -> None:
    played.raising = {2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run(journal, played, notes)
    outcome = run(journal, played, notes)
    assert played.asked == [[4, 3, 2, 0], [2, 0]]
    assert figures(outcome) == {0: 100, 2: 300, 4: 500}
    again = run(journal, played, notes)
    assert played.asked[2:] == [], "all is in the journal"
    assert again.files == outcome.files


def test_nothing_is_counted_without_reason_given(
    journal: Path, played: Played, notes: Notes
) -> None:
    played.refusal = "valgrind is not installed; install it with: apt-get install valgrind"
    outcome = run(journal, played, notes)
    assert (outcome.series, outcome.files, outcome.attachments) == ({}, {}, ())
    assert outcome.missing == {"lackey_multiply_adds": played.refusal}
    assert run(journal, played, notes, "none").missing == {
        "lackey_multiply_adds": "the run was not asked to count executed work (--counters none)"
    }


# ------------------------------------------------------------------------------ the program


SIZES = (10, 1000, 10, -1, -9)
TASK = Task(
    role="lackey",
    module="counted_study",
    session=Session("cpu", STUDY.full.protocol),
    cases=tuple((case, {"size": size}) for case, size in enumerate(SIZES)),
    calls=(2, 2, 1, 2, 1),
    at_once=2,
)


@pytest.fixture(scope="module")
def counted() -> dict[int, Count]:
    """What the real valgrind counts of cases whose work is known."""
    if (reason := counting.lackey_unavailable()) is not None:
        pytest.skip(reason)
    if "fma" not in machine.cpuinfo().get("flags", "").split():
        pytest.skip("this processor has no fused multiply-add")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join((str(FOLDER / "stand_in"), str(FOLDER))))
        events = list(counting.count_with_lackey(TASK))
    return {event.case: event for event in events if isinstance(event, Count)}


@pytest.mark.parametrize(
    ("case", "size", "roles"),
    [(0, 10, "base first second"), (1, 1000, "base first second"), (2, 10, "base first")],
)
def test_every_multiply_add_is_counted_and_nothing_else(
    counted: dict[int, Count], case: int, size: int, roles: str
) -> None:
    found = {item.quantity: item.samples[0] for item in series_of(counted[case].logs, "log")}
    assert found["lackey_multiply_adds_first"] == size
    assert found.get("lackey_multiply_adds", size) == size
    assert sorted(counted[case].logs) == roles.split()
    text = counted[case].logs["base"]
    assert "Command: " in text
    assert str(Path.home()) not in text and "/bin/python" not in text


def test_a_case_that_fails_says_why_and_the_others_go_on(counted: dict[int, Count]) -> None:
    assert sorted(counted) == [0, 1, 2, 3, 4]
    assert counted[3].reason == "ValueError: no such size in file.py"
    assert (
        counted[4].reason == "first call: Its process was killed, most likely for lack of memory."
    )
    assert counted[3].logs == counted[4].logs == {}
