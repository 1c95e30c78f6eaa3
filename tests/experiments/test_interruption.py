"""Real signals to real processes: what is finished is kept, resumed, closed, and never doubled."""

from __future__ import annotations

import signal
import subprocess
import time
from datetime import UTC, datetime

import pytest

from report.records.pooling import missing_shards, runs_of, whole
from report.records.record import Record
from report.records.store import read_study
from tests.experiments.conftest import Driver, finished

LIMIT_S = 120
SIZES = ["1", "2", "3", "4", "5", "6"]


def held_at(driver: Driver, size: str, *words: str, kept: int) -> subprocess.Popen[str]:
    """A run that waits in the case ``size``, with ``kept`` further cases on the disk."""
    before, already = driver.finished(), len(driver.measured())
    process = driver.start(*words, hold=size)
    deadline = time.monotonic() + LIMIT_S
    while size not in driver.measured()[already:] or driver.finished() < before + kept:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the case was never reached"
        time.sleep(0.02)
    return process


def stopped_at(driver: Driver, size: str, number: int, *words: str, kept: int) -> tuple[int, str]:
    """Send a signal to a run in the case ``size``; exit code and messages."""
    process = held_at(driver, size, *words, kept=kept)
    process.send_signal(number)
    return finished(process)


def record_of(driver: Driver) -> Record:
    """The only run, of all its shards."""
    (run,) = runs_of(read_study("tiny", driver.data))
    assert missing_shards(run) == ()
    return whole(run).record


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)]
)
def test_stopped_and_resumed(driver: Driver, number: int, code: int) -> None:
    returned, messages = stopped_at(driver, "3", number, kept=2)
    assert returned == code and "Traceback" not in messages
    if number == signal.SIGKILL:
        (journal,) = driver.journals()
        with journal.open("ab") as stream:
            stream.write(b'{"kind":"fin')  # as if it had been cut off while writing
    else:
        assert "2 of 6 cases are kept (close tiny makes them a record" in messages
        assert "continue with: python -m experiments run tiny" in messages
        assert messages.rstrip().endswith("--resume")
    assert read_study("tiny", driver.data) == () and len(driver.journals()) == 1
    returned, messages = finished(driver.start("--resume"))
    assert returned == 0, messages
    record = record_of(driver)
    assert [(case.factors["size"], case.status) for case in record.cases] == [
        (size, "ok") for size in range(1, 7)
    ]
    assert "--resume" not in record.command
    assert driver.measured() == ["1", "2", "3", "3", "4", "5", "6"] and driver.journals() == []


def test_a_run_whose_machine_is_gone_becomes_a_record_of_what_it_measured(driver: Driver) -> None:
    returned, messages = finished(driver.start(command="close"))
    assert returned == 1 and "tiny has no unfinished run in" in messages
    process = held_at(driver, "3", kept=2)
    returned, messages = finished(driver.start(command="close"))
    assert returned == 1 and "that no process is at (found .2" in messages
    process.kill()
    process.wait(LIMIT_S)
    (journal,) = driver.journals()
    last_outcome = datetime.fromtimestamp(journal.stat().st_mtime, UTC)
    returned, messages = finished(driver.start(command="close"))
    assert returned == 0, messages
    record = record_of(driver)
    assert driver.journals() == []
    assert [case.status for case in record.cases] == ["ok"] * 2 + ["unavailable"] * 4
    assert record.cases[0].samples("time")
    assert record.cases[5].reason == "The run was ended before this was measured."
    assert record.finished == last_outcome.strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = "the run was ended before this was measured"
    assert record.environment.missing["ceilings.after"] == ended


def test_an_interrupted_shard_goes_on_as_that_shard(sharded: Driver) -> None:
    returned, messages = stopped_at(sharded, "4", signal.SIGTERM, "--shard", "2/2", kept=1)
    assert returned == 143
    assert "1 of 3 cases are kept" in messages and "--shard 2/2" in messages
    code, messages = finished(sharded.start("--shard", "1/2", "--resume"))
    assert code == 1 and "shard.number 2, now 1" in messages
    for words in (("--shard", "2/2", "--if-missing"), ("--shard", "1/2")):
        code, messages = finished(sharded.start(*words))
        assert code == 0, messages
    assert sorted(sharded.measured()) == sorted([*SIZES, "4"])
    code, messages = finished(sharded.start("--shard", "2/2", "--if-missing"))
    assert code == 0 and "Already measured" in messages
    assert all(case.status == "ok" for case in record_of(sharded).cases)


def test_all_shards_whose_machines_are_gone_are_closed(sharded: Driver) -> None:
    # The last one measured nothing, so that its journal is gone.
    for shard, size, kept in (("1/3", "4", 1), ("2/3", "5", 1), ("3/3", "3", 0)):
        stopped_at(sharded, size, signal.SIGTERM, "--shard", shard, kept=kept)
    code, messages = finished(sharded.start(command="close"))
    assert code == 0 and "merged from 2 of 3 shards, missing 3" in messages
    (run,) = runs_of(read_study("tiny", sharded.data))
    assert missing_shards(run) == (3,) and sharded.journals() == []
    measured = [case.status for case in whole(run).record.cases]
    assert measured == ["ok"] * 2 + ["unavailable"] * 4
