"""Shards of a tiny plan, measured by several processes at once: nothing is lost or doubled."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from conftest import Driver, finished

from experiments.harness.rounds import turns
from report.records.record import Record
from report.records.shards import missing_shards, runs_of, whole
from report.records.store import read_study

SHARDS = 4
LIMIT_S = 120
SIZES = ["1", "2", "3", "4", "5", "6"]


@pytest.fixture
def driver(sharded: Driver) -> Driver:
    return sharded


def the_run(data: Path) -> Record:
    """The only run, of all its shards."""
    (run,) = runs_of(read_study("tiny", data))
    assert missing_shards(run) == ()
    return whole(run).record


def found(record: Record) -> dict[str, object]:
    """All samples of every case: those it has once, and those of each process."""
    return {
        str(case.factors): (
            case.samples("allocated_peak"),
            sorted((str(r.policy), r.process, r.samples("time")) for r in case.rounds),
        )
        for case in record.cases
    }


def test_shards_that_are_measured_at_once_make_the_run_of_one_process(
    driver: Driver, tmp_path: Path
) -> None:
    parts = [driver.start("--shard", f"{n}/{SHARDS}") for n in range(1, SHARDS + 1)]
    for part in parts:
        code, messages = finished(part)
        assert code == 0, messages
    assert driver.journals() == []
    assert sorted(driver.measured()) == SIZES, "each case by itself in one shard only"
    sharded = the_run(driver.data)

    (tmp_path / "whole").mkdir()
    other = Driver(tmp_path / "whole")
    code, messages = finished(other.start())
    assert code == 0, messages
    (single,) = read_study("tiny", other.data)
    assert found(sharded) == found(single.record)
    planned = Counter((t.policy, t.process) for t in turns(single.record.protocol.processes))
    for case in sharded.cases:
        assert Counter((r.policy, r.process) for r in case.rounds) == planned
    assert (sharded.command, sharded.shard) == (single.record.command, None)


def interrupted(driver: Driver, shard: str, hold: str) -> str:
    """A shard that is ended in one of its cases; what it said."""
    process = driver.start("--shard", shard, hold=hold)
    deadline = time.monotonic() + LIMIT_S
    while hold not in driver.measured():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    code, messages = finished(process)
    assert code == 143
    return messages


def test_all_shards_whose_machines_are_gone_are_closed(driver: Driver) -> None:
    interrupted(driver, "1/3", hold="4")
    interrupted(driver, "2/3", hold="5")
    interrupted(driver, "3/3", hold="3")  # measured nothing, so that its journal is gone
    code, messages = finished(driver.start(command="close"))
    assert code == 0, messages
    assert driver.journals() == []
    (run,) = runs_of(read_study("tiny", driver.data))
    assert missing_shards(run) == (3,)
    assert "merged from 2 of 3 shards, missing 3" in messages
    measured = [case.status for case in whole(run).record.cases]
    assert measured == ["ok"] * 2 + ["unavailable"] * 4


def test_an_interrupted_shard_goes_on_as_that_shard(driver: Driver) -> None:
    messages = interrupted(driver, "2/2", hold="4")
    assert "Interrupted: 1 of 3 cases are kept" in messages
    assert "--shard 2/2" in messages
    code, messages = finished(driver.start("--shard", "1/2", "--resume"))
    assert code == 1
    assert "has no unfinished run" in messages
    for words in (("--shard", "2/2", "--if-missing"), ("--shard", "1/2")):
        code, messages = finished(driver.start(*words))
        assert code == 0, messages
    assert sorted(driver.measured()) == sorted([*SIZES, "4"])
    code, messages = finished(driver.start("--shard", "2/2", "--if-missing"))
    assert code == 0, messages
    assert "measured already" in messages
    assert all(case.status == "ok" for case in the_run(driver.data).cases)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("5/9", "9 shards"),
        ("0/4", "'0/4' is no shard; write 1/4 for the first of four"),
        ("4", "'4' is no shard"),
    ],
)
def test_what_is_no_shard_is_refused(driver: Driver, words: str, sentence: str) -> None:
    code, messages = finished(driver.start("--shard", words))
    assert code == 2
    assert sentence in messages
    assert driver.journals() == []
