"""Configuration of all tests: no time limit per Hypothesis example, slow files first.

The fixtures ``built`` and ``project`` share one build of the small project of ``tests/tiny.py``.
"""

import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Failed assertions in this module print their values, as in test files.
pytest.register_assert_rewrite("tests.papers")

# Each parallel test process computes in one thread: more threads than processors would wait for
# each other after every parallel loop.  Measuring runs set their own number of threads.
os.environ["OMP_NUM_THREADS"] = "1"

TESTS = Path(__file__).parent
#: Files that take 20 s or more, longest first.  A slow file that starts last would run on
#: one processor while the others idle.  Update this list from ``pytest --durations``.
SLOW = (
    "test_walkthrough.py", "test_every_study.py", "test_two_builds.py", "test_replication.py",
    "test_documents.py", "experiments/test_measuring.py", "test_builds.py",
    "experiments/test_submit.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files and run these files first, in the order of ``SLOW``."""
    positions = {TESTS / name: position for position, name in enumerate(SLOW)}
    for path in positions:
        assert path.exists(), f"{path} is in the list of slow tests and does not exist"
    for item in items:
        if item.path in positions:
            item.add_marker("slow")
    items.sort(key=lambda item: positions.get(item.path, len(positions)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write the names of skipped tests to the file that the environment variable names.

    CI sets the variable ``SKIPPED_TESTS`` and runs the skipped tests later.
    """
    if path := os.environ.get("SKIPPED_TESTS"):
        skipped = {report.nodeid for report in terminalreporter.stats.get("skipped", [])}
        Path(path).write_text("\n".join(sorted(skipped)) + "\n")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the small project once for all test processes; tests may only read the project."""
    from tests import tiny

    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent  # the base folder of each test process is in a common folder
    project, finished = shared / "built" / "project", shared / "built.finished"
    with (shared / "built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            build = tiny.build(tiny.write_project(project))
            assert build.code == 0, build.output
            finished.touch()
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """Copy the small project; tests may change the copy."""
    return shutil.copytree(built, tmp_path / "project")
