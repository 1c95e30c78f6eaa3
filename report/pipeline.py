"""From data and templates to papers: compose a study, render its formats, put them in place.

A study that fails does not stop the others, and its old output stays where it is.
"""

from __future__ import annotations

import json
import shutil
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from report.errors import RenderError, RidgepointError
from report.outputs import install, scratch_folder
from report.studies import STUDIES

if TYPE_CHECKING:
    from report.render.site import Entry

Engine: TypeAlias = Literal["auto", "latex", "typst", "quarto"]
Output: TypeAlias = Literal["html", "pdf"]
#: A finished file or folder in the scratch folder, and where it belongs.
Ready: TypeAlias = tuple[Path, Path]
#: Called with a few words when a step begins or ends, and the share of the build that is done.
Announce: TypeAlias = Callable[[str, float], None]
#: What each step takes of a study's time, as measured once; only the time left is told by it.
_COMPOSE, _LATEX, _TYPST, _HTML = 3.0, 5.0, 0.5, 0.7

ENGINE_NAMES: Final = {"latex": "LaTeX", "typst": "Typst"}

ROOT: Final = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Request:
    """What to build, from where and to where."""

    studies: tuple[str, ...]
    outputs: tuple[Output, ...]
    out: Path
    engine: Engine = "auto"
    jobs: int = 1
    data: Path = ROOT / "data"
    papers: Path = ROOT / "templates" / "papers"


@dataclass(frozen=True)
class Built:
    """The outcome of one study: the files made, or the failure in one sentence and its traceback.

    The traceback is text, because an error that comes from a worker process has lost its own.
    """

    study: str
    made: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()
    failure: str | None = None
    traceback: str = ""


@dataclass(frozen=True)
class Summary:
    """What a build made, and a sentence on which engine made the PDFs and why."""

    studies: tuple[Built, ...]
    shared: tuple[Path, ...]
    engine: str

    @property
    def failed(self) -> tuple[Built, ...]:
        """The studies that could not be built."""
        return tuple(built for built in self.studies if built.failure)


@dataclass(frozen=True)
class PdfEngine:
    """The PDF engine of a build, and the sentence that says why it is this one."""

    name: Literal["latex", "typst"]
    note: str


def build(request: Request, announce: Announce) -> Summary:
    """Build what ``request`` asks for.

    Raises ``RidgepointError`` only for what stops every study, such as a missing engine; what goes
    wrong in one study is in the summary.
    """
    if request.engine == "quarto":
        from report.render.quarto import find_quarto

        find_quarto()
    engine = choose_engine(request.engine)
    finished: dict[str, Built] = {}
    for built in _each_study(request, engine, announce):
        finished[built.study] = built
        word = "failed" if built.failure else "done"
        announce(f"{built.study}: {word}", len(finished) / len(request.studies))
    in_order = tuple(finished[study] for study in request.studies)
    return Summary(in_order, _shared(request, announce), engine.note)


def choose_engine(engine: Engine) -> PdfEngine:
    """The engine that makes the PDFs.

    Raises ``RenderError`` if LaTeX is asked for by name and something of it is missing.
    """
    if engine == "typst":
        return PdfEngine("typst", "PDF by Typst, as asked.")
    if engine == "quarto":
        return PdfEngine("typst", "PDF and HTML by the quarto command, as asked.")
    from report.render.latex import LatexTools, find_latex

    found = find_latex()
    if isinstance(found, LatexTools):
        return PdfEngine("latex", "PDF by LaTeX; --engine typst makes the Typst edition.")
    if engine == "latex":
        raise RenderError(f"--engine latex: {found.reason}")
    return PdfEngine("typst", f"PDF by Typst, for LaTeX is not complete here: {found.reason}")


def _each_study(request: Request, engine: PdfEngine, announce: Announce) -> Iterator[Built]:
    """Each study's outcome as it is finished, in worker processes if there are several."""
    if min(len(request.studies), request.jobs) < 2:
        for index, study in enumerate(request.studies):
            within = _within(announce, index, len(request.studies))
            yield _build_study(study, request, engine, within)
        return
    # New processes, not copies of this one: a copy would wait for ever for the threads that Typst
    # has started here, which are not copied.
    workers = min(request.jobs, len(request.studies))
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = [pool.submit(_build_study, s, request, engine, None) for s in request.studies]
        for future in as_completed(futures):
            yield future.result()


def _build_study(
    study: str, request: Request, engine: PdfEngine, announce: Announce | None
) -> Built:
    try:
        with scratch_folder(request.out) as scratch:
            return _made(study, request, engine, scratch, announce or _silent)
    except RidgepointError as error:
        return Built(study, failure=str(error), traceback=traceback.format_exc())
    except Exception as error:
        # A defect of ours in one study must not stop the others.
        sentence = f"{study}: {type(error).__name__}: {error}; run again with --debug."
        return Built(study, failure=sentence, traceback=traceback.format_exc())


def _within(announce: Announce, index: int, studies: int) -> Announce:
    """Announces the steps of one study as a part of the whole build."""
    return lambda words, share: announce(words, (index + share) / studies)


def _silent(words: str, share: float) -> None:
    """Worker processes have no line of their own to write on."""


def _made(study: str, request: Request, engine: PdfEngine, scratch: Path, say: Announce) -> Built:
    """Compose and render in ``scratch``; put everything in place only when all of it is whole."""
    from report.compose import compose

    say(f"{study}: tables and figures", 0.0)
    source = scratch / "source" / study
    inputs = compose(study, request.data, request.papers, source)
    ready: list[Ready] = []
    if request.engine != "quarto":
        ready += _render(study, request, engine, scratch, say)
    ready += [
        (_copied(source / "values.json", scratch), request.out / "values" / f"{study}.json"),
        (source, request.out / "qmd" / study),
    ]
    for new, target in ready:
        install(new, target)
    return Built(study, tuple(target for _, target in ready[:-1]), inputs.notices)


def _render(
    study: str, request: Request, engine: PdfEngine, scratch: Path, say: Announce
) -> list[Ready]:
    ready: list[Ready] = []
    pdf = {"latex": _LATEX, "typst": _TYPST}[engine.name] if "pdf" in request.outputs else 0.0
    total = _COMPOSE + pdf + _HTML
    if "pdf" in request.outputs:
        say(f"{study}: PDF by {ENGINE_NAMES[engine.name]}", _COMPOSE / total)
        ready += _pdf(study, request.out, engine, scratch)
    if "html" in request.outputs:
        say(f"{study}: HTML", (_COMPOSE + pdf) / total)
        ready.append(_html(study, request, scratch))
    return ready


def _pdf(study: str, out: Path, engine: PdfEngine, scratch: Path) -> list[Ready]:
    """The LaTeX source folder, which is written whatever the engine, and the PDF."""
    from report.render.latex import compile_latex, write_latex
    from report.render.typst import render_typst

    source, tex, pdf = scratch / "source" / study, scratch / "tex" / study, scratch / "paper.pdf"
    write_latex(source, study, tex)
    if engine.name == "latex":
        pdf.write_bytes(compile_latex(tex, study))
    else:
        pdf.write_bytes(render_typst(source, study))
    return [(pdf, out / "pdf" / f"{study}.pdf"), (tex, out / "tex" / study)]


def _html(study: str, request: Request, scratch: Path) -> Ready:
    """The page with its figures, and the tables and values that a reader may download."""
    from report.render.html import PageLinks, write_page

    source, page = scratch / "source" / study, scratch / "html" / study
    page.mkdir(parents=True)
    shutil.copytree(source / "tables", page / "tables", ignore=shutil.ignore_patterns("*.tex"))
    shutil.copyfile(source / "values.json", page / "values.json")
    has_pdf = "pdf" in request.outputs or (request.out / "pdf" / f"{study}.pdf").exists()
    links = PageLinks(
        pdf=f"../../pdf/{study}.pdf" if has_pdf else None,
        downloads=(("Values and tables (JSON)", "values.json"),),
        home="../index.html",
        stylesheet="../style.css",
    )
    write_page(source, study, page, links)
    return page, request.out / "html" / study


def _copied(file: Path, scratch: Path) -> Path:
    return Path(shutil.copyfile(file, scratch / file.name))


def _shared(request: Request, announce: Announce) -> tuple[Path, ...]:
    """What all papers share, from every study that has been built so far."""
    studies = [study for study in STUDIES if (request.out / "qmd" / study).is_dir()]
    if not studies:
        return ()
    with scratch_folder(request.out) as scratch:
        made = _quarto_project(request, studies, scratch, announce)
        if "html" in request.outputs and request.engine != "quarto":
            made += _index(request.out, studies, scratch)
    return made


def _index(out: Path, studies: Sequence[str], scratch: Path) -> tuple[Path, ...]:
    from report.render.site import write_index

    with_page = [study for study in studies if (out / "html" / study / "index.html").exists()]
    if not with_page:
        return ()
    write_index([_entry(out, study) for study in with_page], scratch)
    for name in ("style.css", "index.html"):
        install(scratch / name, out / "html" / name)
    return (out / "html" / "index.html",)


def _entry(out: Path, study: str) -> Entry:
    from report.render.site import describe

    values = json.loads((out / "values" / f"{study}.json").read_text(encoding="utf-8"))
    has_pdf = (out / "pdf" / f"{study}.pdf").exists()
    return describe(
        out / "qmd" / study,
        study,
        page=f"{study}/index.html",
        pdf=f"../pdf/{study}.pdf" if has_pdf else None,
        devices=tuple(values["devices"]),
        measured=values["measured"],
    )


def _quarto_project(
    request: Request, studies: Sequence[str], scratch: Path, announce: Announce
) -> tuple[Path, ...]:
    """``out/quarto``, which the quarto command takes as it is; rendered too if that was asked."""
    from report.render.quarto import render_quarto, write_project

    project, target = scratch / "quarto", request.out / "quarto"
    write_project({study: request.out / "qmd" / study for study in studies}, project)
    if request.engine != "quarto":
        install(project, target)
        return ()
    announce("quarto render", 0.5)
    pages = render_quarto(project, request.outputs)
    made = [target / "_site" / page for page in pages]
    for study in studies:
        pdf = pages.get(f"{study}/{study}.pdf")
        if pdf is not None:
            install(Path(shutil.copyfile(pdf, scratch / pdf.name)), request.out / "pdf" / pdf.name)
            made.append(request.out / "pdf" / pdf.name)
    install(project, target)
    return tuple(made)
