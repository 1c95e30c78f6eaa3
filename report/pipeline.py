"""From data and templates to papers: compose a study, render its formats, put them in place.

A study that fails does not stop the others, and its old output stays where it is.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from report.errors import RenderError, RidgepointError
from report.outputs import install, scratch_folder

Engine: TypeAlias = Literal["auto", "latex", "typst", "quarto"]
Output: TypeAlias = Literal["html", "pdf"]
#: A finished file or folder in the scratch folder, and where it belongs.
Ready: TypeAlias = tuple[Path, Path]
#: Called with a few words when a step begins or a study is finished.
Announce: TypeAlias = Callable[[str], None]

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
    """The outcome of one study: the files made, or the failure in one sentence with its error."""

    study: str
    made: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()
    failure: str | None = None
    error: BaseException | None = None


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
        announce(f"{built.study}: {word} ({len(finished)} of {len(request.studies)})")
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
        for study in request.studies:
            yield _build_study(study, request, engine, announce)
        return
    with ProcessPoolExecutor(min(request.jobs, len(request.studies))) as pool:
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
        return Built(study, failure=str(error), error=error)
    except Exception as error:
        # A defect of ours in one study must not stop the others.
        sentence = f"{study}: {type(error).__name__}: {error}; run again with --debug."
        return Built(study, failure=sentence, error=error)


def _silent(words: str) -> None:
    pass


def _made(study: str, request: Request, engine: PdfEngine, scratch: Path, say: Announce) -> Built:
    """Compose and render in ``scratch``; put everything in place only when all of it is whole."""
    from report.compose import compose

    say(f"{study}: tables and figures")
    source = scratch / "source" / study
    inputs = compose(study, request.data, request.papers, source)
    ready: list[Ready] = []
    if request.engine != "quarto":
        ready += _render(study, request, engine, scratch, say)
    ready += [
        (_copied(source / "values.json", scratch), request.out / "values" / f"{study}.json"),
        (source, request.out / "source" / study),
    ]
    for new, target in ready:
        install(new, target)
    return Built(study, tuple(target for _, target in ready[:-1]), inputs.notices)


def _render(
    study: str, request: Request, engine: PdfEngine, scratch: Path, say: Announce
) -> list[Ready]:
    ready: list[Ready] = []
    if "pdf" in request.outputs:
        ready += _pdf(study, request.out, engine, scratch, say)
    if "html" in request.outputs:
        say(f"{study}: HTML")
        ready.append(_html(study, request, scratch))
    return ready


def _pdf(study: str, out: Path, engine: PdfEngine, scratch: Path, say: Announce) -> list[Ready]:
    """The LaTeX source folder, which is written whatever the engine, and the PDF."""
    from report.render.latex import compile_latex, write_latex
    from report.render.typst import render_typst

    source, tex, pdf = scratch / "source" / study, scratch / "tex" / study, scratch / "paper.pdf"
    write_latex(source, study, tex)
    if engine.name == "latex":
        say(f"{study}: PDF by LaTeX")
        pdf.write_bytes(compile_latex(tex, study))
    else:
        say(f"{study}: PDF by Typst")
        pdf.write_bytes(render_typst(source, study))
    return [(pdf, out / "pdf" / f"{study}.pdf"), (tex, out / "tex" / study)]


def _html(study: str, request: Request, scratch: Path) -> Ready:
    """The page with its figures, and the tables and values that a reader may download."""
    from report.render.html import PageLinks, write_page

    source, page = scratch / "source" / study, scratch / "html" / study
    data = page / "data"
    data.mkdir(parents=True)
    names = sorted(path.name for path in (source / "tables").glob("*.csv"))
    for name in names:
        shutil.copyfile(source / "tables" / name, data / name)
    shutil.copyfile(source / "values.json", data / "values.json")
    has_pdf = "pdf" in request.outputs or (request.out / "pdf" / f"{study}.pdf").exists()
    links = PageLinks(
        pdf=f"../../pdf/{study}.pdf" if has_pdf else None,
        downloads=(
            ("All values and tables (JSON)", "data/values.json"),
            *((f"Table {name.removesuffix('.csv')} (CSV)", f"data/{name}") for name in names),
        ),
        home="../index.html",
        stylesheet="../style.css",
    )
    write_page(source, study, page, links)
    return page, request.out / "html" / study


def _copied(file: Path, scratch: Path) -> Path:
    return Path(shutil.copyfile(file, scratch / file.name))


def _shared(request: Request, announce: Announce) -> tuple[Path, ...]:
    """What all papers share: the index page and the Quarto project."""
    return ()
