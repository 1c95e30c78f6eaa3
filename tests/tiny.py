"""A copy of this project with one small study and an artificial record, and builds of the copy.

``build.py --new`` writes the study.  A build runs in a fork of a process that has imported slow
packages; it imports ridgepoint's own code from the copy.
"""

import os
import re
import shutil
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, setrlimit
from typing import NamedTuple, NoReturn

from report.commands.new import new_study
from report.core.records.layers import Linear
from report.core.records.record import Case
from report.core.records.store import write_record
from report.engine.cache import INDEX
from report.engine.steps import ROOT
from tests import factory

STUDY = "tiny"
TEMPLATE = f"templates/papers/{STUDY}.qmd.j2"
#: Packages that a build imports from the copy.
_PROJECT_PACKAGES = ("report", "figures", "build")
#: Options of all builds: PDF by Typst instead of LaTeX, steps one after another.
_OPTIONS = ("--engine", "typst", "--jobs", "1")

_FORK_SERVER = get_context("forkserver")
#: Modules that import the slow packages; they are loaded once, before a build is forked.
_PRELOADED = (__name__, "figures.render", "report.evaluation.gather", "report.engine.run",
              "report.paper.manuscript", "report.render.html", "report.render.quarto")  # fmt: skip
_FORK_SERVER.set_forkserver_preload([*_PRELOADED])


class BuildResult(NamedTuple):
    """Exit code of a build (negative after a signal) and all output."""

    code: int | None
    output: str


class Build(NamedTuple):
    """A running build and the file of its output."""

    process: BaseProcess
    log: Path

    def kill(self, signal_number: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal_number)

    def wait(self) -> BuildResult:
        """Wait for the end of the build; return its exit code and output."""
        self.process.join()
        text = self.log.read_text("utf-8")
        self.log.unlink()
        return BuildResult(self.process.exitcode, text)


def write_project(project: Path) -> Path:
    """Copy the project to a new folder, with the small study and its record as the only ones."""
    studies = [path.parent.name for path in (ROOT / "report" / "studies").glob("*/study.py")]
    templates = [f"{name}.qmd.j2" for name in studies]
    ignored = shutil.ignore_patterns("__pycache__", *studies, *templates)
    for name in ("report", "figures", "templates"):
        shutil.copytree(ROOT / name, project / name, ignore=ignored)
    shutil.copyfile(ROOT / "build.py", project / "build.py")
    for name in ("experiments", "tests"):
        (project / name).mkdir()
    new_study(STUDY, "A tiny paper", root=project)
    factory.data_folder(project, factory.record([case(64), case(256)], study=STUDY))
    return project


def write_rerun(
    project: Path, day: int, time: Callable[[int], float | None], plan: str = "full"
) -> Path:
    """Write a later record of the same machine; calls last about ``time(width)`` seconds."""
    cases, started = [case(width, time(width)) for width in (64, 256)], f"2026-11-0{day}T10:00:00Z"
    record = factory.record(cases, study=STUDY, started=started, plan=plan)
    return write_record(record, project / "data")


def case(width: int, time: float | None = None) -> Case:
    """Return a case timed in seven processes; ``time``: median of a call in s."""
    shape = (64, width)
    layer = Linear(name="layer", input_shape=shape, output_shape=shape, dtype="float32", bias=True)
    median = time or 2e-7 * width
    times = (median * (1 + 1e-3 * n) for n in range(-3, 4))
    return Case(
        factors={"width": width},
        status="ok",
        reason=None,
        layers=(layer,),
        rounds=factory.rounds(map(factory.scattered, times)),
    )


def record_of(project: Path) -> Path:
    (path,) = (project / "data" / STUDY).glob("*.json")
    return path


def exchange_text(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Return a function that replaces ``old`` by ``new`` in a project's file.

    If the file contains ``new``, the function replaces ``new`` by ``old``, so that a second call
    undoes the first.  Only the first occurrence is replaced.
    """

    def exchange(project: Path) -> None:
        path = project / file
        text = path.read_text("utf-8")
        before, after = (old, new) if new not in text else (new, old)
        assert before in text, f"{before!r} is not in {file}"
        path.write_text(text.replace(before, after, 1), "utf-8")

    return exchange


def start_build(project: Path, *arguments: str, file_limit: int = RLIM_INFINITY) -> Build:
    """Start a build; ``file_limit`` is the greatest size (B) of a file that it may write."""
    # The log is next to the project, since another test process may be copying the project.
    descriptor, log = tempfile.mkstemp(prefix="log-", dir=project.parent)
    os.close(descriptor)
    process = _FORK_SERVER.Process(
        target=_build, args=(project, Path(log), [*_OPTIONS, *arguments], file_limit)
    )
    process.start()
    return Build(process, Path(log))


def build(project: Path, *arguments: str, file_limit: int = RLIM_INFINITY) -> BuildResult:
    return start_build(project, *arguments, file_limit=file_limit).wait()


def steps_run(project: Path, *arguments: str) -> set[str]:
    """Build with ``--explain``; return the steps that ran."""
    result = build(project, "--explain", *arguments)
    assert result.code == 0, result.output
    return set(re.findall(r"^((?:tiny|site)/\S+): ", result.output, re.MULTILINE))


def digests(project: Path, out: str = "out") -> dict[str, str]:
    """Return the digests of all files that a build writes, except its index and lock."""
    return factory.digests(project / out, {INDEX, ".lock"})


def _build(project: Path, log: Path, arguments: Iterable[str], file_limit: int) -> NoReturn:
    """Build in this process, then exit."""
    code = os.EX_SOFTWARE
    with log.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        try:
            sys.stdout = sys.stderr = stream
            for name in list(sys.modules):
                if name.split(".")[0] in _PROJECT_PACKAGES:
                    del sys.modules[name]
            os.chdir(project)
            sys.path.insert(0, str(project))
            setrlimit(RLIMIT_FSIZE, (file_limit, file_limit))
            # With a limit of file sizes, CPython would leave truncated bytecode files.
            sys.dont_write_bytecode = file_limit != RLIM_INFINITY
            code = import_module("build").main([*arguments])
        except BaseException:
            traceback.print_exc(file=stream)
    os._exit(code)
