"""What holds for all tests: none asserts a wall time, and those that take longest begin first."""

import fcntl
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# What they assert says what was there, as in tests.
pytest.register_assert_rewrite("tests.papers")

# Each of the parallel test processes computes in one thread: two of them with a thread for each
# processor wait for each other at the end of every parallel loop.  Runs that measure choose anew.
os.environ["OMP_NUM_THREADS"] = "1"

TESTS = Path(__file__).parent
#: Files that take half a minute and more, longest first: begun last, one of them would keep a
#: single processor busy while the others wait.  Update with the figures of ``pytest --durations``.
SLOW = (
    "test_walkthrough.py", "test_every_study.py", "experiments/test_networks.py",
    "experiments/test_measuring.py", "test_builds.py", "experiments/test_backends.py",
    "test_build.py", "experiments/test_submit.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of slow files and let them run before all others, file by file."""
    order = {TESTS / name: place for place, name in enumerate(SLOW)}
    for path in order:
        assert path.exists(), f"{path} is in the list of slow tests and does not exist"
    for item in items:
        if item.path in order:
            item.add_marker("slow")
    items.sort(key=lambda item: order.get(item.path, len(order)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Write which tests were skipped, one a line, to the file SKIPPED_TESTS; CI runs them later."""
    if path := os.environ.get("SKIPPED_TESTS"):
        skipped = {report.nodeid for report in terminalreporter.stats.get("skipped", [])}
        Path(path).write_text("\n".join(sorted(skipped)) + "\n")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small project, built once for all test processes; tests only read it."""
    from tests import tiny

    room = tmp_path_factory.getbasetemp()
    room = room.parent if "PYTEST_XDIST_WORKER" in os.environ else room
    project, done = room / "built" / "project", room / "built.done"
    with (room / "built.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            ended = tiny.build(tiny.write_project(project))
            assert ended.code == 0, ended.said
            done.touch()
    return project


@pytest.fixture
def project(built: Path, tmp_path: Path) -> Path:
    """A copy of the small project that a test may change."""
    return shutil.copytree(built, tmp_path / "project")
