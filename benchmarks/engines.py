"""The own time of the engines and of matplotlib for the five papers, in a bare pool of workers.

``python -m benchmarks.engines`` prints it.  The pool does nothing but start pandoc, Typst and
latexmk on sources that are written already, and draw figures that are computed already; matplotlib
is imported once a worker.  pandoc writes what ``build.py`` makes: HTML, LaTeX and Typst, in one
process a paper.  The makespan over the cores is what ridgepoint's own times are compared with.
"""

from __future__ import annotations

import json
import pickle
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias
from unittest.mock import patch

from benchmarks.peers.install import cores
from benchmarks.project import EDITED_STUDY, ROOT
from benchmarks.results import Computing, EngineTask, Sample, Tool
from benchmarks.scenarios import Scenario
from benchmarks.timing import Command, CommandError, plain_environment, run

Engine: TypeAlias = Literal["typst", "latex"]
Kind: TypeAlias = Literal["latexmk", "pandoc", "typst", "figure"]
#: The kinds of calls; what takes long comes first, so that the cores are done at the same time.
ORDER: Final[tuple[Kind, ...]] = ("latexmk", "pandoc", "typst", "figure")
_WARMING_S: Final = 0.2


@dataclass(frozen=True)
class Call:
    """A call of a program, for pandoc as ridgepoint makes it."""

    arguments: tuple[str, ...]
    folder: str
    environment: dict[str, str] | None
    stdin: bytes | None


@dataclass(frozen=True)
class Task:
    """One piece of work of an engine; ``what`` is a call, a folder, a source or a drawing."""

    kind: Kind
    study: str
    name: str
    what: Any


@dataclass(frozen=True)
class Prepared:
    """Everything that the engines need, computed beforehand."""

    tasks: tuple[Task, ...]
    computing: tuple[tuple[str, float], ...]


def prepare(folder: Path, data: Path = ROOT / "data") -> Prepared:
    """Write the sources of all papers into ``folder`` and compute all drawings."""
    from report.studies import STUDIES

    tasks: list[Task] = []
    computing: list[tuple[str, float]] = []
    for study in STUDIES:
        tasks += _rendering_tasks(study, folder, data)
        seconds, drawings = _computed(study, data)
        computing.append((study, seconds))
        tasks += drawings
    return Prepared(tuple(tasks), tuple(computing))


def _rendering_tasks(study: str, folder: Path, data: Path) -> Iterator[Task]:
    from report.engine.compose import compose
    from report.render.html import PageLinks, page_edition
    from report.render.latex import latex_edition, write_latex
    from report.render.pandoc import convert
    from report.render.source import read_source
    from report.render.typst import typst_edition, write_typst

    source, tex = folder / "source" / study, folder / "tex" / study
    source.parent.mkdir(parents=True, exist_ok=True)
    compose(study, data, ROOT / "templates" / "papers", source)
    paper = read_source(source, study)
    editions = (page_edition(paper, PageLinks()), latex_edition(paper), typst_edition(paper))
    with _recorded_calls(folder / "calls" / study) as calls:
        written = convert(paper, editions, (str(paper.front["title"]),)).editions
    # pandoc is asked for its version, too.
    yield from (Task("pandoc", study, study, call) for call in calls if call.stdin)
    write_latex(source, study, tex, written["latex"])
    main = write_typst(source, study, folder / "typst" / study, written["typst-citations"])
    yield Task("typst", study, study, str(main))
    yield Task("latexmk", study, study, str(tex))


@contextmanager
def _recorded_calls(kept: Path) -> Iterator[list[Call]]:
    """Collects the calls of pandoc that are made within; they run as always.

    The folder in which each runs lives as long as it does, so that a copy stays below ``kept``.
    """
    calls: list[Call] = []

    class Recording(subprocess.Popen[bytes]):
        def __init__(self, arguments: Sequence[str], **settings: Any) -> None:
            self.call = Call(tuple(arguments), str(settings["cwd"]), settings["env"], None)
            super().__init__(arguments, **settings)

        def communicate(self, input: Any = None, timeout: float | None = None) -> Any:
            if Path(self.call.arguments[0]).name == "pandoc":
                folder = shutil.copytree(self.call.folder, kept / f"{len(calls)}", symlinks=True)
                calls.append(replace(self.call, folder=str(folder), stdin=input))
            return super().communicate(input, timeout)

    with patch.object(subprocess, "Popen", Recording):
        yield calls


def _computed(study: str, data: Path) -> tuple[float, list[Task]]:
    """Seconds for reading and computing a study, and its drawings."""
    from report.engine.gather import gather
    from report.studies import find_study

    compute = find_study(study)  # imported beforehand
    start = time.perf_counter()
    findings = compute(gather(study, data))
    seconds = time.perf_counter() - start
    figures = findings.figures.values()
    return seconds, [Task("figure", study, f.name, (f.drawing, f"{study}/{f.id}")) for f in figures]


def chosen(
    tasks: Sequence[Task], engine: Engine, scenario: Scenario, figures: Sequence[str] = ()
) -> list[Task]:
    """The tasks that a scenario asks of the engines, longest first.

    ``figures`` are the names of those that the changed record changes.
    """
    other: Kind = "latexmk" if engine == "typst" else "typst"
    found = [task for task in tasks if task.kind != other]
    if scenario is Scenario.STYLE:
        found = [task for task in found if task.kind == "latexmk"]
    if scenario is Scenario.RECORD:
        found = [
            task for task in found
            if task.study == EDITED_STUDY and (task.kind != "figure" or task.name in figures)
        ]  # fmt: skip
    return sorted(found, key=lambda task: ORDER.index(task.kind))


def perform(task: Task) -> float:
    """Do one task; returns its seconds.  Raises ``CommandError`` if an engine refuses."""
    start = time.perf_counter()
    if task.kind == "figure":
        from figures.drawing.render import render

        render(task.what[0], salt=task.what[1])
    elif task.kind == "typst":
        from report.render.typst import compile_typst

        compile_typst(Path(task.what))
    elif task.kind == "latexmk":
        latexmk = ("latexmk", "-quiet", f"{task.study}.tex")
        _start(Call(latexmk, task.what, None, None))
    else:
        _start(task.what)
    return time.perf_counter() - start


def _start(call: Call) -> None:
    finished = subprocess.run(
        call.arguments,
        cwd=call.folder,
        env=call.environment,
        input=call.stdin or b"",
        capture_output=True,
        check=False,
    )
    if finished.returncode != 0:
        said = (finished.stderr or finished.stdout).decode("utf-8", "replace")
        raise CommandError(f"{call.arguments[0]}: exit code {finished.returncode}\n{said}")


def makespan(tasks: Sequence[Task], jobs: int) -> tuple[float, list[float]]:
    """Seconds until all ``tasks`` are done in ``jobs`` workers, and the seconds of each.

    The workers are there before the clock starts.
    """
    with tempfile.TemporaryDirectory(prefix="engines-") as scratch:
        fresh = [_fresh(task, Path(scratch)) for task in tasks]
        with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
            list(pool.map(_warm, range(jobs)))
            start = time.perf_counter()
            seconds = list(pool.map(perform, fresh))
            return time.perf_counter() - start, seconds


def _warm(_: int) -> None:
    """Makes a worker start and know the classes of drawings, without matplotlib."""
    import figures.drawing.render  # noqa: F401

    time.sleep(_WARMING_S)


def _fresh(task: Task, scratch: Path) -> Task:
    """latexmk finds a folder that holds sources only."""
    if task.kind != "latexmk":
        return task
    return replace(task, what=str(shutil.copytree(task.what, scratch / task.study)))


class Engines:
    """See ``benchmarks.subject.Subject``: what a build could take at best."""

    def __init__(
        self, engine: Engine, folder: Path, redrawn: Callable[[], Sequence[str]] = tuple
    ) -> None:
        """``folder`` is filled once and shared by both engines.

        ``redrawn`` names the figures that the last changed record changed.
        """
        self._engine, self._folder, self._redrawn = engine, folder, redrawn
        self._seconds: dict[tuple[str, str, str], list[float]] = {}
        title = {"typst": "Typst", "latex": "LaTeX"}[engine]
        self.tool: Final = Tool(
            name=f"engines_{engine}",
            title=f"engines alone ({title})",
            makes="the same, from sources and drawings that are there already",
            caching="none",
            missing=None,
        )

    @property
    def scenarios(self) -> frozenset[Scenario]:
        """Those in which engines have to run."""
        both = frozenset({Scenario.COLD, Scenario.RECORD})
        return both | {Scenario.STYLE} if self._engine == "latex" else both

    def prepare(self) -> dict[str, str]:
        """See ``Subject``."""
        if not (self._folder / "prepared.pickle").exists():
            _run("prepare", str(self._folder))
        return {"latexmk": _version(["latexmk", "--version"])} if self._engine == "latex" else {}

    def change(self, scenario: Scenario, turn: int) -> None:
        """Nothing: sources and drawings stay as they are."""

    def measure(self, scenario: Scenario) -> Sample:
        """The makespan; each task's seconds are kept beside it."""
        sample, output = _run(
            "perform", str(self._folder), self._engine, scenario.value, *self._redrawn()
        )
        printed = json.loads(output.strip().split("\n")[-1])
        for kind, name, seconds in printed["tasks"]:
            self._seconds.setdefault((scenario.value, kind, name), []).append(seconds)
        return Sample(
            wall_s=printed["makespan_s"], cpu_s=sample.cpu_s, peak_bytes=sample.peak_bytes
        )

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        """An engine that refuses its source ends the run."""
        return ()

    def tasks(self) -> tuple[EngineTask, ...]:
        """What every task took, in all repetitions."""
        return tuple(
            EngineTask(engine=self._engine, scenario=scenario, kind=kind, name=name,
                       seconds=tuple(seconds))
            for (scenario, kind, name), seconds in self._seconds.items()
        )  # fmt: skip

    def computing(self) -> tuple[Computing, ...]:
        """What the studies took to be computed, once each."""
        prepared = load(self._folder)
        return tuple(Computing(study=s, seconds=(seconds,)) for s, seconds in prepared.computing)


def _run(*arguments: str) -> tuple[Sample, str]:
    command = (sys.executable, "-m", "benchmarks.engines", *arguments)
    return run(Command(command, ROOT, plain_environment()))


def _version(command: Sequence[str]) -> str:
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return next((line for line in said.split("\n") if line.strip()), "unknown").strip()


def load(folder: Path) -> Prepared:
    """What ``prepare`` left in ``folder``."""
    prepared: Prepared = pickle.loads((folder / "prepared.pickle").read_bytes())
    return prepared


def main(arguments: Sequence[str]) -> None:
    """``prepare FOLDER``, ``perform FOLDER ENGINE SCENARIO [FIGURE …]``, or all for a reader."""
    if not arguments:
        _print_all()
    elif arguments[0] == "prepare":
        folder = Path(arguments[1])
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "prepared.pickle").write_bytes(pickle.dumps(prepare(folder)))
    else:
        where, engine, scenario, *figures = arguments[1:]
        print(json.dumps(_performed(Path(where), engine, Scenario(scenario), figures)))


def _performed(
    folder: Path, engine: Any, scenario: Scenario, figures: Sequence[str]
) -> dict[str, Any]:
    tasks = chosen(load(folder).tasks, engine, scenario, figures)
    whole, seconds = makespan(tasks, cores())
    each = [(t.kind, f"{t.study}/{t.name}", s) for t, s in zip(tasks, seconds, strict=True)]
    return {"makespan_s": whole, "tasks": each}


def _print_all() -> None:
    with tempfile.TemporaryDirectory(prefix="engines-") as scratch:
        prepared = prepare(Path(scratch))
        (Path(scratch) / "prepared.pickle").write_bytes(pickle.dumps(prepared))
        for engine in ("typst", "latex"):
            printed = _performed(Path(scratch), engine, Scenario.COLD, ())
            print(f"{engine}: {printed['makespan_s']:.2f} s over {cores()} cores")
            for kind in ORDER:
                found = [seconds for k, _, seconds in printed["tasks"] if k == kind]
                if found:
                    print(f"  {kind}: {len(found)} calls, {sum(found):.2f} s together")


if __name__ == "__main__":
    # Under its own name, so that a pickle of one process is read by another.
    from benchmarks.engines import main as named_main

    named_main(sys.argv[1:])
