"""Watching: when it builds again, what it tells, and that nothing but Ctrl-C ends it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from pathlib import Path

import pytest

from report.commands import watch as watching
from report.commands.serve import Site
from report.commands.watch import (
    attempt,
    changes,
    rebuild_command,
    states,
    watch,
    watch_and_serve,
)
from report.errors import RecordError
from report.system.child import Child, errors_in


class Clock:
    """Time that passes only by sleeping, and ends."""

    def __init__(self, until: float) -> None:
        self.now, self.until = 0.0, until

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.now >= self.until:
            raise KeyboardInterrupt


class Told(Site):
    """A site that writes down what it is told, and when by the clock of the test."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(Path("nowhere"), live=True)
        self.clock = clock
        self.told: list[tuple[float, str | None]] = []

    def tell(self, failure: str | None) -> None:
        self.told.append((self.clock.now, failure))


@pytest.fixture(autouse=True)
def pace(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"LOOK_S": 3.0, "QUIET_S": 1.0, "PATIENCE": 4}.items():
        monkeypatch.setattr(watching, name, value)


def watched(
    changed: Iterator[bool], rebuild: Callable[[], str | None], until: float
) -> list[tuple[float, str | None]]:
    site = Told(Clock(until))
    with pytest.raises(KeyboardInterrupt):
        watch(rebuild, lambda: next(changed), site, sleep=site.clock.sleep)
    return site.told


def test_nothing_is_built_while_nothing_changes() -> None:
    assert watched(repeat(False), lambda: None, until=30.0) == []


def test_a_build_waits_until_files_are_quiet() -> None:
    changed = chain([False, True, True, True, False], repeat(False))
    # Looks at 3 and 6 s; then a change at 7 and 8 s, and none at 9 s.
    assert watched(changed, lambda: None, until=30.0) == [(9.0, None)]


def test_files_that_never_rest_are_built_all_the_same() -> None:
    told = watched(repeat(True), lambda: None, until=15.0)
    assert told == [(7.0, None), (14.0, None)]


def test_a_failure_is_told_and_only_the_next_change_is_built() -> None:
    outcomes = iter(["data/x.json: no good; mend it.", None])
    changed = chain([True, False, False, True, False], repeat(False))
    told = watched(changed, lambda: next(outcomes), until=30.0)
    assert [failure for _, failure in told] == ["data/x.json: no good; mend it.", None]


def test_what_a_build_raises_is_a_sentence() -> None:
    def refuse() -> str | None:
        raise RecordError("data/x.json: no good; mend it.")

    def break_down() -> str | None:
        raise ZeroDivisionError("division by zero")

    assert attempt(refuse) == "data/x.json: no good; mend it."
    assert attempt(break_down) == "ZeroDivisionError: division by zero"
    assert attempt(lambda: None) is None


def test_a_change_is_told_once() -> None:
    looks = iter([1, 1, 2, 2, 2, 1])
    changed = changes(lambda: next(looks))
    assert [changed() for _ in range(5)] == [False, True, False, False, True]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("report/a.py", "figures/b.py", "templates/papers/c.j2", "data/s/r.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old", "utf-8")
    (tmp_path / "build.py").write_text("old", "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "seen"),
    [
        ("report/a.py", True),
        ("report/new/module.py", True),
        ("templates/papers/c.j2", True),
        ("data/s/r.json", True),
        ("data/s/new.json", True),
        ("build.py", True),
        ("data/s/.r.json.swp", False),
        ("report/__pycache__/a.pyc", False),
        ("out/html/index.html", False),
        ("README.md", False),
    ],
)
def test_what_papers_are_made_from_is_watched(project: Path, name: str, seen: bool) -> None:
    changed = changes(lambda: states(project, project / "data"))
    (project / name).parent.mkdir(parents=True, exist_ok=True)
    (project / name).write_text("of another length", "utf-8")
    assert changed() is seen
    assert not changed()


def test_a_removed_file_and_one_that_is_saved_anew_are_changes(project: Path) -> None:
    changed = changes(lambda: states(project, project / "data"))
    (project / "report" / "a.py").unlink()
    assert changed()
    saved = project / "figures" / "b.tmp"
    saved.write_text("new", "utf-8")
    status = (project / "figures" / "b.py").stat()
    os.utime(saved, ns=(status.st_atime_ns, status.st_mtime_ns))
    changed()
    saved.replace(project / "figures" / "b.py")
    assert changed(), "the same size and time, but another file"


def test_data_elsewhere_are_watched(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    data = tmp_path_factory.mktemp("records")
    changed = changes(lambda: states(project, data))
    (data / "r.json").write_text("{}", "utf-8")
    assert changed()
    (project / "data" / "s" / "r.json").write_text("of another length", "utf-8")
    assert not changed()


@pytest.mark.parametrize(
    ("lines", "errors"),
    [
        ([], ()),
        (["error: a; mend it.\n"], ("a; mend it.",)),
        (["error: a\n", "of two lines\n", "error: b\n"], ("a\nof two lines", "b")),
        (["a warning\n", "error: b\n"], ("b",)),
        (["Traceback\n", "  File x\n", "ValueError: c\n", "\n"], ("ValueError: c",)),
    ],
)
def test_errors_are_found_among_the_lines_of_a_build(
    lines: list[str], errors: tuple[str, ...]
) -> None:
    assert errors_in(lines) == errors


def script(folder: Path, text: str) -> Path:
    """A project whose build.py is ``text``."""
    (folder / "build.py").write_text(f"import os, sys, time\n{text}", "utf-8")
    return folder


def test_a_build_in_a_new_process_says_its_steps_and_its_errors(tmp_path: Path) -> None:
    project = script(
        tmp_path,
        "print('[ 40%] s: HTML, about 3 s left', file=sys.stderr)\n"
        "print('out/html', *sys.argv[1:])\n"
        "print('error: s: Grüße', file=sys.stderr)\n"
        "sys.exit(1)\n",
    )
    steps: list[tuple[str, float]] = []
    with Child(["--html"], project, lambda words, share: steps.append((words, share))) as child:
        ended = child.wait()
    assert steps == [("s: HTML", 0.4)]
    assert (ended.code, ended.output, ended.failure) == (1, "out/html --html\n", "s: Grüße")
    assert rebuild_command(["--html"], project, lambda words, share: None)() == "s: Grüße"


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        ("print('a warning', file=sys.stderr)\n", None),
        ("os._exit(3)\n", "build.py ended with the exit code 3."),
    ],
)
def test_a_build_without_an_error_fails_by_its_exit_code(
    tmp_path: Path, text: str, failure: str | None
) -> None:
    project = script(tmp_path, text)
    assert rebuild_command([], project, lambda words, share: None)() == failure


def test_a_build_that_is_given_up_is_ended(tmp_path: Path) -> None:
    project = script(
        tmp_path,
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "print('[  0%] begun', file=sys.stderr, flush=True)\n"
        "try:\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    open('tidied', 'w')\n",
    )
    begun: list[str] = []
    with Child([], project, lambda words, share: begun.append(words)):
        while not begun:
            time.sleep(0.01)
    assert (project / "tidied").exists(), "it could tidy up"


def test_the_command_builds_serves_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    looks = iter([True, False])

    def changed() -> bool:
        try:
            return next(looks)
        except StopIteration:
            raise KeyboardInterrupt from None

    outcomes = iter(["no good", None])
    said: list[str] = []
    watch_and_serve(tmp_path, 0, lambda: next(outcomes), changed, said.append)
    assert said[0].startswith(f"Serving {tmp_path / 'html'} at http://127.0.0.1:")
    assert said[1] == "error: no good"
    assert said[2].startswith("Built at ")
