"""Time pandoc, Typst, latexmk and matplotlib without ridgepoint, in a plain pool of workers.

For all papers, the workers run the programs on sources that exist already, and draw figures whose
data are already computed.  The total time is the baseline for ridgepoint's builds.
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

from benchmarks.project import ROOT, Sample, run_python
from experiments.machine.runtime import cores_available

#: Kinds of task, longest first, so that all cores finish at about the same time.
ORDER: Final = ("latexmk", "pandoc", "typst", "figure")

#: Kind of a task (one of ``ORDER``), and a function that runs it and raises its error.
EngineTask: TypeAlias = tuple[str, Callable[[], object]]


def prepare(folder: Path, studies: Sequence[str]) -> list[EngineTask]:
    """Build the papers in ``folder``; return tasks that read the built sources."""
    out = folder / "out"
    run_python(ROOT, "build.py", *studies, "--html", "--engine", "typst", "--out", str(out))
    return [task for study in studies for task in _tasks(study, out, folder)]


def _tasks(study: str, out: Path, folder: Path) -> Iterator[EngineTask]:
    """Yield the tasks of a paper that was built into ``out``."""
    from figures.render import render
    from report.core.system.exchange import read_pickle
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
    titles = (str(paper.front["title"]),)  # builds also convert the title to plain words
    convert_all = partial(convert, paper, formats, titles)
    text_by_format, _ = convert_all()
    write_latex(paper, tex, text_by_format["latex"])
    yield "pandoc", convert_all
    text = text_by_format["typst-citations"]  # the citations are formatted by Typst
    yield "typst", partial(render_typst, paper, text)
    yield "latexmk", partial(_latexmk, tex)
    for name, drawing in read_pickle(out / ".steps" / study / "drawings.pickle").items():
        yield "figure", partial(render, drawing, salt=f"{study}/fig-{name}")


def _latexmk(sources: Path) -> None:
    """Run latexmk in a fresh copy of a folder of sources."""
    with tempfile.TemporaryDirectory(prefix="engines-") as scratch:
        copy = shutil.copytree(sources, Path(scratch) / sources.name)
        command = ("latexmk", "-quiet", f"{sources.name}.tex")
        subprocess.run(command, cwd=copy, capture_output=True, check=True)


def time_tasks(tasks: Sequence[EngineTask], engine: str) -> Sample:
    """Time the tasks of ``engine``, from started workers (one per core) to the last task's end."""
    unused, workers = "latexmk" if engine == "Typst" else "typst", cores_available()
    selected = [task for task in tasks if task[0] != unused]
    selected.sort(key=lambda task: ORDER.index(task[0]))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        list(pool.map(_prepare_worker, range(workers)))
        start = time.perf_counter()
        for future in [pool.submit(run) for _, run in selected]:
            future.result()
        return Sample(time.perf_counter() - start)


def _prepare_worker(_: int) -> None:
    """Import the classes of drawings in a worker, but not matplotlib."""
    import figures.render  # noqa: F401

    time.sleep(0.2)  # so that no worker takes two of these tasks
