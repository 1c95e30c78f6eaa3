"""perf as a program: with a stand-in that keeps to its protocol, and with the real one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import FOLDER

from experiments.harness.counters import perf
from experiments.harness.counters.plan import Counted, Job, Plan
from experiments.harness.counters.tools import TOOLS
from report.instruments.counters import perf as logs

#: Obeys --control as perf does: answers each command, and counts 7 for every one.
STAND_IN = """\
#!{python}
import os, subprocess, sys
words = sys.argv[1:]
names = words[words.index("-e") + 1].split(",")
target = words[words.index("-o") + 1]
control = [word for word in words if word.startswith("--control=fd:")]
told = []
if control:
    assert "--delay=-1" in words
    commands, answers = map(int, control[0].removeprefix("--control=fd:").split(","))
    program = words[words.index(control[0]) + 1 :]
    child = subprocess.Popen(program, close_fds=False)
    for _ in range(2):
        told.append(os.read(commands, 32).decode().strip())
        os.write(answers, b"ack\\n")
    assert told == ["enable", "disable"], told
    assert child.wait() == 0
{counts}
with open(target, "w") as stream:
    stream.write("# started on Sat Nov 21 05:00:32 2026\\n\\n")
    for name in names:
        stream.write(f"{{count}},,{{name}},509691,100.00,,\\n")
"""
COUNTING = "count = 7"
REFUSING = (
    'print("Error:\\nAccess to performance monitoring and observability operations is limited.", '
    "file=sys.stderr); sys.exit(255)"
)
PLAN = Plan(
    module="counted_study",
    warm_up={"size": 1},
    at_once=1,
    jobs=(
        Job(case=3, factors={"size": 5}, calls=1, multiply_adds=5),
        Job(case=4, factors={"size": 6}, calls=1, multiply_adds=6),
    ),
)


@pytest.fixture
def zen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor whose events are known."""
    info = {"vendor_id": "AuthenticAMD", "cpu family": "25", "model": "1"}
    monkeypatch.setattr(perf, "cpuinfo", lambda: info)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(FOLDER / "stand_in"), str(FOLDER))))


def put(monkeypatch: pytest.MonkeyPatch, folder: Path, counts: str) -> None:
    import sys

    program = folder / "perf"
    program.write_text(STAND_IN.format(python=sys.executable, counts=counts))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_one_warm_call_of_each_case_is_counted(
    zen: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, tmp_path, COUNTING)
    assert perf.unavailable() is None
    found = [event for event in perf.count(PLAN) if isinstance(event, Counted)]
    assert [(event.case, event.reason) for event in found] == [(3, None), (4, None)]
    (series,) = logs.series_of(found[0].logs, "case 3")
    assert (series.quantity, series.samples) == ("perf_flops", (21,))
    assert found[0].logs["events"].split()[0] == "fp_ret_sse_avx_ops.mac_flops"


def test_a_refusal_is_told_in_perf_s_words(
    zen: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, tmp_path, REFUSING)
    assert perf.unavailable() == (
        "perf: Access to performance monitoring and observability operations is limited; "
        "allow it with: sysctl kernel.perf_event_paranoid=1"
    )


def test_a_case_that_cannot_be_run_says_why(
    zen: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(monkeypatch, tmp_path, 'sys.exit("no room for the case in /home/somebody/x")')
    (first, _) = perf.count(PLAN)
    assert isinstance(first, Counted)
    assert (first.reason, first.logs) == ("perf: no room for the case in x", {})


def test_without_perf_the_line_that_installs_it_is_told(
    zen: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert (
        perf.unavailable() == "perf is not installed; install it with: apt-get install linux-perf"
    )


@pytest.mark.parametrize(
    ("info", "reason"),
    [
        ({}, "the system does not name its processor's family and model"),
        (
            {"vendor_id": "GenuineIntel", "cpu family": "6", "model": "151"},
            "no floating-point events are known for GenuineIntel family 6 model 151",
        ),
    ],
)
def test_an_unknown_processor_is_named(
    info: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(perf, "cpuinfo", lambda: info)
    assert perf.unavailable() == reason


def test_the_real_perf_counts_or_says_why_not() -> None:
    if shutil.which("perf") is None:
        pytest.skip("perf is not installed")
    (tool,) = (tool for tool in TOOLS if tool.name == "perf")
    reason = tool.unavailable()
    assert reason is None or (reason.strip() == reason and "\n" not in reason)
