"""Real signals to a real process: what is finished is kept, and --resume measures the rest."""

from __future__ import annotations

import signal
import time
from datetime import UTC, datetime

import pytest

from report.records.store import read_study
from tests.experiments.conftest import Driver, finished

LIMIT_S = 60


def stopped_at(driver: Driver, size: str, number: int, *words: str) -> tuple[int, str]:
    """Run until the case ``size`` is being measured, send a signal; exit code and messages."""
    already = len(driver.measured())
    process = driver.start(*words, hold=size)
    deadline = time.monotonic() + LIMIT_S
    while size not in driver.measured()[already:]:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, "the case was never reached"
        time.sleep(0.02)
    while driver.finished() < int(size) - 1:
        time.sleep(0.02)
    process.send_signal(number)
    _, messages = process.communicate(timeout=LIMIT_S)
    return process.returncode, messages


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_and_resumed(driver: Driver, number: int, code: int) -> None:
    returned, messages = stopped_at(driver, "3", number)
    assert returned == code
    assert "Traceback" not in messages
    assert (
        "2 of 6 cases are kept (close tiny makes them a record as they are); continue" in messages
    )
    assert "with: python -m experiments run tiny" in messages
    assert messages.rstrip().endswith("--resume")
    assert read_study("tiny", driver.data) == ()
    assert len(driver.journals()) == 1
    returned, messages = finished(driver.start("--resume"))
    assert returned == 0, messages
    (stored,) = read_study("tiny", driver.data)
    assert not stored.edited
    assert [case.factors["size"] for case in stored.record.cases] == [1, 2, 3, 4, 5, 6]
    assert {case.status for case in stored.record.cases} == {"ok"}
    assert "--resume" not in stored.record.command
    assert driver.measured() == ["1", "2", "3", "3", "4", "5", "6"]
    assert driver.journals() == []


def test_a_run_that_is_killed_goes_on_behind_its_last_whole_line(driver: Driver) -> None:
    assert stopped_at(driver, "2", signal.SIGKILL)[0] == -signal.SIGKILL
    (journal,) = driver.journals()
    with journal.open("ab") as stream:
        stream.write(b'{"kind":"fin')  # as if it had been cut off while writing
    returned, messages = finished(driver.start("--resume"))
    assert returned == 0, messages
    (stored,) = read_study("tiny", driver.data)
    assert [case.status for case in stored.record.cases] == ["ok"] * 6
    assert driver.measured() == ["1", "2", "2", "3", "4", "5", "6"]


def test_a_run_whose_machine_is_gone_becomes_a_record_of_what_it_measured(driver: Driver) -> None:
    stopped_at(driver, "3", signal.SIGTERM)
    (journal,) = driver.journals()
    last_outcome = datetime.fromtimestamp(journal.stat().st_mtime, UTC)
    returned, messages = finished(driver.start(command="close"))
    assert returned == 0, messages
    (stored,) = read_study("tiny", driver.data)
    record = stored.record
    assert not stored.edited and driver.journals() == []
    assert [case.status for case in record.cases] == ["ok"] * 2 + ["unavailable"] * 4
    assert record.cases[0].samples("time")
    assert record.cases[5].reason == "The run was ended before this was measured."
    assert record.finished == last_outcome.strftime("%Y-%m-%dT%H:%M:%SZ")
    ended = "the run was ended before this was measured"
    assert record.environment.missing["ceilings.after"] == ended


def test_only_an_unfinished_run_can_be_closed_and_only_when_nobody_is_at_it(driver: Driver) -> None:
    returned, messages = finished(driver.start(command="close"))
    assert returned == 1 and "tiny has no unfinished run in" in messages
    process = driver.start(hold="3")
    deadline = time.monotonic() + LIMIT_S
    while "3" not in driver.measured():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    returned, messages = finished(driver.start(command="close"))
    process.kill()
    process.wait(LIMIT_S)
    assert returned == 1 and "that no process is at (found .2" in messages
