"""Shards of a tiny plan, measured by several processes at once: nothing is lost or doubled."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from report.records.record import Record
from report.records.shards import missing_shards, runs_of, whole
from report.records.store import read_study
from tests.experiments.conftest import Driver, finished

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


def interrupted(driver: Driver, shard: str, hold: str) -> str:
    """A shard that is ended in one of its cases; what it said."""
    kept = driver.finished() + (int(hold) - 1) // int(shard.partition("/")[2])
    process = driver.start("--shard", shard, hold=hold)
    deadline = time.monotonic() + LIMIT_S
    while hold not in driver.measured() or driver.finished() < kept:
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
    assert "1 of 3 cases are kept" in messages and "--shard 2/2" in messages
    code, messages = finished(driver.start("--shard", "1/2", "--resume"))
    assert code == 1
    assert "shard.number 2, now 1" in messages
    for words in (("--shard", "2/2", "--if-missing"), ("--shard", "1/2")):
        code, messages = finished(driver.start(*words))
        assert code == 0, messages
    assert sorted(driver.measured()) == sorted([*SIZES, "4"])
    code, messages = finished(driver.start("--shard", "2/2", "--if-missing"))
    assert code == 0, messages
    assert "Already measured" in messages
    assert all(case.status == "ok" for case in the_run(driver.data).cases)
