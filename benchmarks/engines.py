"""Time of the engines and matplotlib alone for all papers, in a bare pool of workers.

The pool only runs pandoc, Typst and latexmk on sources that are already written, and draws figures
that are already computed.  The time until all are done is compared with the builds of ridgepoint.
"""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.project import CORES, ROOT, SampleProject, run_python

#: The kinds of tasks, the longest first, so that all cores finish at about the same time.
ORDER: Final = ("latexmk", "pandoc", "typst", "figure")

#: Kind of a task, and the function that runs it, which raises the engine's error.
EngineTask: TypeAlias = tuple[str, Callable[[], object]]


def prepare(folder: Path, studies: Sequence[str]) -> list[EngineTask]:
    """Build the papers in ``folder``; return tasks that read the built sources."""
    out = folder / "out"
    run_python(ROOT, "build.py", *studies, "--html", "--engine", "typst", "--out", str(out))
    return [task for study in studies for task in _tasks(study, out, folder)]


def _tasks(study: str, out: Path, folder: Path) -> Iterator[EngineTask]:
    from figures.render import render
    from report.engine.actions import load
    from report.render.html import Publication, page_format
    from report.render.latex import latex_format, write_latex
    from report.render.pandoc import convert
    from report.render.shell import Settings
    from report.render.source import read_source
    from report.render.typst import render_typst, typst_format

    source, tex = out / "qmd" / study, folder / "tex" / study
    paper = read_source(source, study)
    page = page_format(paper, Publication(Settings()))
    formats = (page, latex_format(paper), typst_format(paper))
    converted = partial(convert, paper, formats, (str(paper.front["title"]),))
    written, _ = converted()
    write_latex(paper, tex, written["latex"])
    yield "pandoc", converted
    yield "typst", partial(render_typst, paper, written["typst-citations"])
    yield "latexmk", partial(_latexmk, tex)
    for name, drawing in load(out / ".steps" / study / "drawings.pickle").items():
        yield "figure", partial(render, drawing, salt=f"{study}/fig-{name}")


def _latexmk(sources: Path) -> None:
    """Run latexmk in a folder that holds sources only."""
    with tempfile.TemporaryDirectory(prefix="engines-") as scratch:
        fresh = shutil.copytree(sources, Path(scratch) / sources.name)
        command = ("latexmk", "-quiet", f"{sources.name}.tex")
        subprocess.run(command, cwd=fresh, capture_output=True, check=True)


def makespan(tasks: Sequence[EngineTask], engine: str) -> SampleProject:
    """Time the tasks of an engine in one worker per core, without the start of the workers."""
    other, jobs = "latexmk" if engine == "Typst" else "typst", CORES or 1
    own = sorted((t for t in tasks if t[0] != other), key=lambda task: ORDER.index(task[0]))
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        list(pool.map(_warm, range(jobs)))
        start = time.perf_counter()
        for task in [pool.submit(run) for _, run in own]:
            task.result()
        return SampleProject(time.perf_counter() - start)


def _warm(_: int) -> None:
    """Start a worker that imports the classes of drawings, but not matplotlib."""
    import figures.render  # noqa: F401

    time.sleep(0.2)
