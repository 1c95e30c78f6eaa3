"""Fixtures of the measuring side: a study that needs no torch, and records of what is reported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
import tiny_study

from experiments import registry
from experiments.harness.journal import Header
from experiments.harness.study import Factors, Study
from report.records.record import Cache, Case, Code, Cpu, Environment, Host, Precision, Torch
from report.records.store import Stored, read_study

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent


class Notes:
    """An observer that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.began_with: int | None = None
        self.ended_cases: list[int] = []
        self.errors: list[Exception] = []
        self.closed = 0
        self.counted: list[tuple[str, float, str]] = []

    def note(self, text: str) -> None:
        self.notes.append(text)

    def began(self, cases: tuple[Factors, ...], finished: Mapping[int, Case], study: Study) -> None:
        self.began_with = len(finished)

    def case_began(self, index: int) -> None:
        pass

    def case_ended(self, index: int, case: Case) -> None:
        self.ended_cases.append(index)

    def case_raised(self, index: int, error: Exception) -> None:
        self.errors.append(error)

    def ended(self) -> None:
        self.closed += 1

    def progressed(self, text: str | None, done: float, left: str) -> None:
        if text is not None:
            self.counted.append((text, done, left))


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Study:
    """The tiny study, known to the command under its name."""
    monkeypatch.setitem(registry.STUDIES, "tiny", "tiny_study")
    return tiny_study.STUDY


HOST = Host(
    vendor="AuthenticAMD",
    family=25,
    model=1,
    stepping=1,
    microcode="0x1",
    flags=("avx2", "fma"),
    caches=(Cache(level=3, kind="unified", size_bytes=2**25, cores=2),),
    sockets=1,
    virtualisation="kvm",
    c_library="glibc 2.36",
    machine="0123456789ab",
)


def make_environment(**changes: object) -> Environment:
    values: dict[str, object] = {
        "device": "cpu",
        "key": "some-cpu-2t",
        "cpu": Cpu(
            model="Some CPU",
            architecture="x86_64",
            cores_available=2,
            governor="performance",
            vector_extensions=("avx2",),
        ),
        "gpu": None,
        "threads": 2,
        "memory_bytes": 2**34,
        "operating_system": "Linux 6.1",
        "python": "3.11.7",
        "torch": Torch(version="2.13.0", build="none", cpu_capability="AVX2"),
        "precision": Precision(
            default_dtype="float32",
            float32_matmul="highest",
            cuda_matmul_tf32=False,
            cudnn_tf32=False,
            cudnn_benchmark=False,
            cudnn_deterministic=False,
            deterministic_algorithms=False,
        ),
        "load_before": 0.1,
        "load_after": None,
        "missing": {"name": "the run was given no --label"},
        "host": HOST,
        "variables": {"OMP_NUM_THREADS": "2"},
    }
    return Environment(**{**values, **changes})  # type: ignore[arg-type]


def make_header(study: Study, **changes: object) -> Header:
    values: dict[str, object] = {
        "study": study.name,
        "started": "2026-11-20T10:00:00Z",
        "command": ("python", "-m", "experiments", "run", study.name),
        "code": Code(commit=None, tree_clean=None, measuring_code="0" * 64),
        "protocol": study.full.protocol,
        "environment": make_environment(),
        "cases": study.cases({f.name: f.levels for f in study.factors}),
    }
    return Header(**{**values, **changes})  # type: ignore[arg-type]


#: ``python -m experiments``, measuring nothing again that was disturbed: beside other tests all is,
#: and each repetition starts torch once more.  ``test_disturbed`` is about those.
_UNREPEATED = """
import sys
from experiments.__main__ import main
from experiments.harness import rounds
rounds.REPEATS = 0
sys.exit(main(sys.argv[1:]))
"""


def run_study(study: str, records: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, with the quick plan."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            _UNREPEATED,
            "run",
            study,
            "--quick",
            *words,
            "--records",
            records,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


def measured(study: str, records: Path, *words: str) -> Stored:
    """The only record, of a run that went well and left nothing else."""
    pytest.importorskip("torch")
    done = run_study(study, records, *words)
    assert done.returncode == 0, done.stderr
    assert "USDT" not in done.stderr
    (stored,) = read_study(study, records)
    assert stored.untouched
    assert list((records / study).glob(".*")) == []
    return stored


class Driver:
    """Runs the command in a process of its own, with the tiny study in the registry."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.log = folder / "measured.txt"
        self.log.touch()

    def start(self, *words: str, hold: str = "", command: str = "run") -> subprocess.Popen[str]:
        """Begin a run; ``hold`` names the case in which the study waits for ever."""
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

    def measured(self) -> list[str]:
        """The cases in the order in which their measuring began, over all processes."""
        return self.log.read_text().split()

    def journals(self) -> list[Path]:
        return sorted((self.data / "tiny").glob(".*.journal.jsonl"))


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)
