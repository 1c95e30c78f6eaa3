"""A project of one small study that builds in a second, and builds of it in processes of their own.

The study is that of ``build.py --new``, with one record made up.  A build is a fork of a process
that has imported what takes longest; it imports the project's own code from the copy.
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
#: What is the project's, and so imported from the copy.
_OWN = ("report", "figures", "build")
_BOTH = ("--engine", "typst", "--jobs", "1")

_FORKS = get_context("forkserver")
#: Whatever steps import from elsewhere is there when a build is forked.
_NEEDED = ("engine.gather", "engine.run", "paper.manuscript", "render.html", "render.quarto")
_FORKS.set_forkserver_preload([__name__, "figures.render", *(f"report.{name}" for name in _NEEDED)])


class Ended(NamedTuple):
    """How a build ended: its exit code, negative if by a signal, and all that it printed."""

    code: int | None
    said: str


class Build(NamedTuple):
    """A build that goes on, and the file that it writes to what it says."""

    process: BaseProcess
    said: Path

    def kill(self, number: int) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, number)

    def wait(self) -> Ended:
        """How it ended, when it has."""
        self.process.join()
        text = self.said.read_text("utf-8")
        self.said.unlink()
        return Ended(self.process.exitcode, text)


def write_project(project: Path) -> Path:
    """Copy the project to a new folder, with no study but the small one and its record."""
    studies = [path.parent.name for path in (ROOT / "report" / "studies").glob("*/study.py")]
    templates = [f"{name}.qmd.j2" for name in studies]
    others = shutil.ignore_patterns("__pycache__", *studies, *templates)
    for name in ("report", "figures", "templates"):
        shutil.copytree(ROOT / name, project / name, ignore=others)
    shutil.copyfile(ROOT / "build.py", project / "build.py")
    for name in ("experiments", "tests"):
        (project / name).mkdir()
    new_study(STUDY, "A tiny paper", root=project)
    factory.data_folder(project, factory.record([case(64), case(256)], study=STUDY))
    return project


def run_again(project: Path, started: str, time: Callable[[int], float]) -> None:
    """Write a later record of the same machine, with calls that last ``time(width)``."""
    cases = [case(width, time(width)) for width in (64, 256)]
    write_record(factory.record(cases, study=STUDY, started=started), project / "data")


def case(width: int, time: float | None = None) -> Case:
    shape = (64, width)
    layer = Linear(name="layer", input_shape=shape, output_shape=shape, dtype="float32", bias=True)
    times = ((time or 2e-7 * width) * (1 + 1e-3 * n) for n in range(-3, 4))
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


def replace(file: str, old: str, new: str) -> Callable[[Path], None]:
    """Change a text file of a project in one place, or change it back."""

    def change(project: Path) -> None:
        path = project / file
        text = path.read_text("utf-8")
        one, other = (old, new) if new not in text else (new, old)
        assert one in text, f"{one!r} is not in {file}"
        path.write_text(text.replace(one, other, 1), "utf-8")

    return change


def start(project: Path, *arguments: str, files: int = RLIM_INFINITY) -> Build:
    """Begin a build of all formats by Typst, whose files have at most ``files`` bytes."""
    # Beside the project, which another test process may be copying.
    said = Path(tempfile.mkstemp(prefix="said-", dir=project.parent)[1])
    process = _FORKS.Process(target=_build, args=(project, said, [*_BOTH, *arguments], files))
    process.start()
    return Build(process, said)


def build(project: Path, *arguments: str, files: int = RLIM_INFINITY) -> Ended:
    return start(project, *arguments, files=files).wait()


def ran(project: Path, *arguments: str) -> set[str]:
    """The steps that a build runs, as ``--explain`` names them."""
    ended = build(project, "--explain", *arguments)
    assert ended.code == 0, ended.said
    return set(re.findall(r"^((?:tiny|site)/\S+): ", ended.said, re.MULTILINE))


def digests(project: Path, out: str = "out") -> dict[str, str]:
    """The digest of every file that a build is answerable for."""
    return factory.digests(project / out, {INDEX, ".lock"})


def _build(project: Path, said: Path, arguments: Iterable[str], files: int) -> NoReturn:
    """Build in this process, which then ends."""
    code = 70
    with said.open("w", encoding="utf-8", errors="backslashreplace") as stream:
        try:
            sys.stdout = sys.stderr = stream
            for name in [name for name in sys.modules if name.split(".")[0] in _OWN]:
                del sys.modules[name]
            os.chdir(project)
            sys.path.insert(0, str(project))
            setrlimit(RLIMIT_FSIZE, (files, files))
            # CPython would keep the bytecode that it could only write in part.
            sys.dont_write_bytecode = files != RLIM_INFINITY
            code = import_module("build").main([*arguments])
        except BaseException:
            traceback.print_exc(file=stream)
    os._exit(code)
