"""Fixtures for tests of measuring: a study without torch, and runs of command lines."""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
import tiny_study

from experiments import registry
from experiments.__main__ import main, parser, request_of
from experiments.harness import ceilings as ceiling_programs
from experiments.harness import rounds
from experiments.harness import run as run_module
from experiments.harness.journal import Header
from experiments.harness.progress import Observer
from experiments.harness.study import CeilingSize, Experiment
from report.core.records.record import SCHEMA_VERSION, Code, Environment, Outcome
from report.core.records.store import Stored, read_records
from tests import factory

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent


class Notes(Observer):
    """Observer that stores messages, and the ended cases with their shares of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []
        self.ended: list[tuple[str, float]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def debug(self, text: str) -> None: ...

    def progressed(self, text: str, done: float) -> None:
        self.ended.append((text, done))


@pytest.fixture
def notes() -> Notes:
    return Notes()


#: Function that runs ``python -m experiments`` with the given words in this process.  Returns the
#: exit code, the standard output and the standard error.
Ask: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str]) -> Ask:
    def run(*words: object) -> tuple[int, str, str]:
        capsys.readouterr()
        return main([*map(str, words)]), *capsys.readouterr()

    return run


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Register the tiny study under the name ``tiny``."""
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_study")
    monkeypatch.setenv("PYTHONPATH", str(FOLDER))
    return tiny_study.STUDY


HOST = msgspec.structs.replace(factory.SERVER, microcode="0x1", c_library="glibc 2.36")


def make_environment(**changes: object) -> Environment:
    """Return the environment of a CPU; ``changes`` overrides fields."""
    environment = factory.environment(
        "some-cpu-2t",
        missing={"name": "the run was given no --label", "cpu.governor": "there is none"},
        host=HOST,
        variables={"OMP_NUM_THREADS": "2"},
    )
    return msgspec.structs.replace(environment, **changes)


def make_header(study: Experiment, **changes: object) -> Header:
    """Return a journal's header for all cases of a study; ``changes`` overrides fields."""
    values: dict[str, Any] = {
        "schema": SCHEMA_VERSION,
        "study": study.name,
        "started": "2026-11-20T10:00:00Z",
        "finished": "2026-11-20T10:00:00Z",
        "command": ("python", "-m", "experiments", "run", study.name),
        "code": Code(commit=None, tree_clean=None, measuring_code="0" * 64),
        "protocol": study.plan.full,
        "environment": make_environment(),
        "attachments": (),
        "cases": study.cases({f.name: f.levels for f in study.factors}),
        **changes,
    }
    values["cases"] = tuple(Outcome(factors=factors) for factors in values["cases"])
    return Header(**values)


def measure_study(study: str, records: Path, *words: str, ceilings: bool = False) -> Stored:
    """Run a study quickly with one process; check that only its record remains, and return it.

    Disturbed cases are not repeated, since parallel tests disturb all cases; ``test_samples`` tests
    repetition and several processes.  With ``ceilings``, short programs measure the machine's peak
    rates.
    """
    import torch  # imported here, so that processes of the driver start fast

    options = parser().parse_args(["run", study, "--quick", *words, "--records", str(records)])
    protocol = {"processes": {"retained": 1}, "case_budget_s": 0.02, "minimum_samples": 3}
    size: CeilingSize = "small" if ceilings else "none"
    request = replace(request_of(options), changes=protocol, ceilings=size)
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            patch.setenv(variable, "1")  # the run sets both; the context restores them
        patch.setattr(rounds, "MAX_REPEATS", 0)
        patch.setattr(rounds, "_MAX_RECHECKS", 0)
        patch.setitem(ceiling_programs.TIMED_CALLS, "small", 2)
        patch.setattr(ceiling_programs, "working_sets", lambda *_: (2**22,))
        run_module.run(request, Notes())
    torch.set_num_threads(threads)
    (stored,) = read_records(study, records)
    assert not stored.edited
    assert list((records / study).glob(".*")) == []
    return stored


class Driver:
    """Runs ``python -m experiments`` with the tiny study in a separate process (``driver.py``).

    ``data`` is the folder of records.  The study logs the size of each case that it measures.
    """

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.log = folder / "measured.txt"
        self.log.touch()

    def start(self, *words: str, hold: str = "", command: str = "run") -> subprocess.Popen[str]:
        """Start a command; the study waits for a minute in the case of size ``hold``, if any."""
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(FOLDER))),
            "TINY_LOG": str(self.log),
            "TINY_HOLD": hold,
        }
        return subprocess.Popen(
            [sys.executable, FOLDER / "driver.py", command, "tiny", *words, "--records", self.data],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def measured_sizes(self) -> list[str]:
        """Return the sizes of the measured cases, in the order in which they began."""
        return self.log.read_text().split()

    def saved_cases(self) -> int:
        """Return the number of finished cases in the journals."""
        return sum(path.read_bytes().count(b'"finish"') for path in self.journals())

    def journals(self) -> list[Path]:
        """Return the files of unfinished runs, which contain the finished cases."""
        return sorted((self.data / "tiny").glob(".*.journal.jsonl"))


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


def wait_for(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a command; return its exit code and all output."""
    out, messages = process.communicate(timeout=120)
    return process.returncode, out + messages


@pytest.fixture
def without_gpu() -> None:
    """Skip the test if PyTorch can use a GPU."""
    if pytest.importorskip("torch").cuda.is_available():
        pytest.skip("PyTorch can use a GPU on this machine")
