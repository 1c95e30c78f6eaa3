"""Functions in processes of their own: what they return, and how they can end."""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import pytest

from experiments.harness import isolated
from experiments.harness.outcomes import OutcomeError, UnavailableError, outcome_of
from experiments.harness.study import QUICK, CaseFile, Session
from tests.experiments.conftest import FOLDER


def echo(what: str, session: Session) -> tuple[int, Session, CaseFile]:
    """What the tests call in another process."""
    match what:
        case "raise":
            raise UnavailableError("This cannot be done here.")
        case "no memory":
            raise RuntimeError(
                "DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes."
            )
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            sys.exit(3)
    print("what a library prints comes not between")
    content = os.environ["ECHO"].encode() + b"\xff"
    return os.getpid(), session, CaseFile("a.bin", "any bytes", content)


def ask(what: str, limit_s: float = 60) -> tuple[int, Session, CaseFile]:
    call = partial(echo, what, Session("cpu", QUICK.protocol, Path("images")))
    return isolated.run(call, {"ECHO": "heard", "PYTHONPATH": str(FOLDER)}, limit_s)


def test_a_call_runs_in_a_process_of_its_own() -> None:
    (first, session, file), (second, _, _) = ask("tell"), ask("tell")
    assert len({first, second, os.getpid()}) == 3
    assert session == Session("cpu", QUICK.protocol, Path("images").resolve())
    assert file == CaseFile("a.bin", "any bytes", b"heard\xff")


@pytest.mark.parametrize(
    ("what", "status", "reason"),
    [
        ("raise", "unavailable", "This cannot be done here."),
        ("no memory", "out_of_memory", "Memory ran out when 8 B more were asked for."),
        ("die", "failed", "killed, most likely for lack of memory"),
        ("exit", "failed", "ended with exit code 3"),
    ],
)
def test_outcomes_of_a_process_are_passed_on(what: str, status: str, reason: str) -> None:
    with pytest.raises(OutcomeError) as caught:
        ask(what)
    found_status, found_reason = outcome_of(caught.value)
    assert found_status == status and reason in found_reason


def test_a_process_that_hangs_is_ended() -> None:
    with pytest.raises(OutcomeError, match=r"did not end within 0\.01 s"):
        ask("tell", limit_s=0.01)
