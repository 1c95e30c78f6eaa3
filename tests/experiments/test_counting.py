"""Counting as the last step of a run: with a tool that is played, and with the real valgrind."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import counted_study
import pytest

from experiments import registry
from experiments.harness import counting, machine
from experiments.harness.journal import Count
from experiments.harness.study import CounterChoice, Session
from experiments.harness.worker import Task
from tests.experiments.conftest import FOLDER, Notes, counted_run, journal_to_count, make_header

STUDY = counted_study.STUDY
NAME = "lackey_multiply_adds"


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.STUDIES, "counted", "counted_study")


class Played:
    """A tool that counts a hundred for each size up to 5, and can be made to fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.refusal: str | None = None
        self.raising: dict[int, BaseException] = {}
        self.asked: list[list[int]] = []
        tool = replace(
            counting.LACKEY,
            unavailable=lambda: self.refusal,
            calls=lambda work: int(work <= 5),
            count=self.count,
        )
        monkeypatch.setitem(counting.TOOLS, "cpu", tool)

    def count(self, task: Task) -> Generator[Count, None, None]:
        self.asked.append([case for case, _ in task.cases])
        for case, factors in task.cases:
            if case in self.raising:
                raise self.raising.pop(case)
            if factors["size"] == 4:
                yield Count(case=case, missing={NAME: "no luck"})
                continue
            samples = (100 * int(factors["size"]),)
            yield Count(case=case, series={NAME: samples})


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(monkeypatch)


@pytest.fixture
def run(tmp_path: Path, notes: Notes) -> Callable[..., tuple[dict[int, float], dict[str, str]]]:
    """Counts what is left of a run of sizes 1 to 6, of which size 2 failed."""
    path = journal_to_count(tmp_path / ".run.journal.jsonl", make_header(STUDY), {1: "failed"})

    def go(counters: CounterChoice = "auto") -> tuple[dict[int, float], dict[str, str]]:
        cases, missing, _ = counted_run(STUDY, path, notes, counters)
        assert cases[0].samples("time") == (0.5,)
        return {n: c.samples(NAME)[0] for n, c in enumerate(cases) if c.samples(NAME)}, missing

    return go


def test_cases_that_ended_well_are_counted_longest_first_and_once(
    run: Callable[..., tuple[dict[int, float], dict[str, str]]], played: Played
) -> None:
    played.raising = {2: KeyboardInterrupt()}
    with pytest.raises(KeyboardInterrupt):
        run()
    counted = {0: 100, 2: 300, 4: 500}, {f"cases[3].{NAME}": "no luck"}
    assert run() == counted
    assert run() == counted
    # Size 6 takes too long, size 2 failed; then what the interruption left, then nothing.
    assert played.asked == [[4, 3, 2, 0], [2, 0]]


def test_nothing_is_counted_without_reason_given(
    run: Callable[..., tuple[dict[int, float], dict[str, str]]], played: Played
) -> None:
    played.refusal = "valgrind is not installed; install it with: apt-get install valgrind"
    assert run() == ({}, {NAME: played.refusal})
    figures, missing = run("none")
    assert figures == {} and "--counters none" in missing[NAME]


# ------------------------------------------------------------------------------ the program


SIZES = (10, 1000, 0, -1, -9)


def test_lackey_counts_every_multiply_add_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    if (reason := counting.lackey_unavailable()) is not None:
        pytest.skip(reason)
    if "fma" not in machine.cpuinfo().get("flags", "").split():
        pytest.skip("this processor has no fused multiply-add")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(FOLDER / "stand_in"), str(FOLDER))))
    task = Task(
        role="lackey",
        module="counted_study",
        session=Session("cpu", STUDY.full.protocol),
        forks=True,
        cases=tuple((case, {"size": size}) for case, size in enumerate(SIZES)),
        at_once=2,
    )
    counts = list(counting.count_with_lackey(task))
    found = {count.case: count for count in counts}
    assert [found[case].series[NAME] for case in (0, 1, 2)] == [(10,), (1000,), (0,)]
    assert found[3].missing == {NAME: "ValueError: no such size in file.py"}
    assert "killed" in found[4].missing[NAME]
    assert len(counts) == len(SIZES)
