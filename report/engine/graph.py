"""What steps a build has: for every study from its data to its formats, and what all share.

======================  =====================================================================
``<study>/study``       which records the paper uses, values, tables, claims, and a description of
                        every figure
``<study>/samples``     those records, and every sample of them as a table, for their reader
``<study>/figure/<n>``  one figure in both of its formats
``<study>/manuscript``  the document, its tables, downloads and bibliography
``<study>/convert``     what pandoc writes: the page, LaTeX and Typst, and plain words for lists
``<study>/html``        the page with all that it shows
``<study>/single``      the page as one file, where that was asked
``<study>/tex``         the LaTeX source
``<study>/pdf``         the paper, by Typst or LaTeX; also beside its page, so that the page can
                        be published with it
``<study>/bundle``      the LaTeX source in one archive
``site/index``          the list of all studies, the pages over all of them, and the search
``site/quarto``         the Quarto project of all studies, rendered too where that was asked
======================  =====================================================================

Files are named as in the project wherever they lie: ``data/…``, ``templates/…``; what steps make
is named relative to ``out/``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from report.engine import packages
from report.engine.step import Files, Reads, Step, Wanted
from report.records import COUNTS
from report.studies import module_of

#: Where a step leaves what only later steps read.
ARTIFACTS: Final = ".steps"
#: The folder of the papers that are a single HTML file.
SINGLE: Final = "single"
#: How all begins that a build leaves in ``out/`` only when it is killed.
SCRATCH: Final = ".scratch-"
#: What the step ``study`` has chosen, and what it finds in that.
CHOSEN: Final = "chosen.json"
FINDINGS: Final = "findings.pickle"
#: What the page shows of a number that is opened, and the machines that were measured.
DETAILS: Final = "details.json"
#: All records of the study, used or not.
RECORDS: Final = "records.json"
#: Every sample of the records that the study uses.
SAMPLES: Final = "samples.csv.gz"
#: The folder of the records themselves beside a page.
RECORDS_FOLDER: Final = "records"
#: What lists of studies say of one: from the front matter of its document, and in plain words.
LISTED: Final = "listed.json"
ENTRY: Final = "entry.json"
#: What pandoc wrote of a paper, as it is.
PAGE: Final = "page.html"
LATEX: Final = "paper.tex"
TYPST: Final = "paper.typ"
#: The bibliography of a paper as BibTeX set it.
BIBLIOGRAPHY: Final = "paper.bbl"
_DRAWING: Final = ".drawing"
_OPENED: Final = ".opened.json"
_SHARED: Final = "site"


def first_steps(study: str, files: Files, asked: Iterable[str] = ()) -> tuple[Step, ...]:
    """The steps of ``study`` up to the one that says which figures it has.

    ``asked`` are the records that the user wants in this build, relative to the data directory.
    """
    use = "\n".join(asked)
    return (
        Step(
            id=f"{study}/study",
            study=study,
            action="study",
            files=(
                *files.records[study],
                "data/editions.yaml",
                f"data/reported/{study}.json",
                "data/devices.yaml",
                f"data/{COUNTS}",
            ),
            code=(module_of(study),),
            packages=packages.COMPUTING,
            parameters=(("use", use),) if use else (),
        ),
    )


def figure_names(outputs: Iterable[str]) -> tuple[str, ...]:
    """The names of the figures that the outputs of a ``study`` step describe."""
    files = (name.rpartition("/")[2] for name in outputs if name.endswith(_DRAWING))
    return tuple(sorted(file.removesuffix(_DRAWING) for file in files))


def drawing_file(study: str, name: str) -> str:
    """Where the description of a figure lies."""
    return f"{ARTIFACTS}/{study}/{name}{_DRAWING}"


def opened_file(study: str, name: str) -> str:
    """Where it lies what the page shows of a figure that is opened."""
    return f"{ARTIFACTS}/{study}/{name}{_OPENED}"


def paper_files(study: str) -> tuple[str, str]:
    """Where the PDF of a study lies: with the other PDFs, and beside its page, which links to it.

    The copy beside the page is replaced by itself, so that a new PDF leaves the page alone.
    """
    return f"pdf/{study}.pdf", f"html/{study}/{study}.pdf"


def bundle_file(study: str) -> str:
    """Where the archive of a paper's LaTeX source is."""
    return f"tex/{study}.tar.gz"


def later_steps(
    study: str, figures: Iterable[str], files: Files, wanted: Wanted, *, links_pdf: bool
) -> tuple[Step, ...]:
    """The steps of ``study`` after the one that says which figures it has.

    ``links_pdf`` tells whether the page may lead to a PDF.
    """
    drawn = tuple(_figure(study, name, files) for name in figures)
    written = Reads(f"{study}/manuscript")
    formats: list[Step] = []
    if wanted.engine != "quarto" and wanted.pdf:
        formats += _print_steps(study, drawn, written, files, wanted)
    if wanted.engine != "quarto" and wanted.html:
        formats += [_samples(study), _page(study, drawn, written)]
    if wanted.single:
        formats.append(_single(study, drawn, written, files))
    converted = _convert(study, drawn, written, files, _written_in(wanted, links_pdf=links_pdf))
    return (*drawn, _manuscript(study, files, wanted.style), converted, *formats)


def _figure(study: str, name: str, files: Files) -> Step:
    return Step(
        id=f"{study}/figure/{name}",
        study=study,
        action="figure",
        files=files.under(_FONTS),
        packages=packages.DRAWING,
        reads=(Reads(f"{study}/study", (f"/{name}{_DRAWING}",)),),
        parameters=(("name", name),),
    )


def _samples(study: str) -> Step:
    return Step(
        id=f"{study}/samples",
        study=study,
        action="samples",
        packages=packages.READING,
        reads=(Reads(f"{study}/study", (CHOSEN,)),),
    )


def _manuscript(study: str, files: Files, style: str | None) -> Step:
    return Step(
        id=f"{study}/manuscript",
        study=study,
        action="manuscript",
        files=(
            "data/references.bib",
            f"templates/papers/{study}.qmd.j2",
            *files.under("templates/shared/", f"templates/papers/{study}/"),
        ),
        # A template may call what the study's own objects know.
        code=(module_of(study),),
        packages=packages.WRITING,
        reads=(Reads(f"{study}/study", (CHOSEN, FINDINGS)),),
        parameters=(("style", style),) if style else (),
    )


def _written_in(wanted: Wanted, *, links_pdf: bool) -> tuple[str, ...]:
    """The formats that pandoc writes; those of a PDF also for the page alone, if there is one.

    So whoever asks for the one and the other in turns has nothing converted again.  For
    Quarto, which reads the document by itself, the page alone, so that the document is checked.
    """
    if wanted.engine == "quarto":
        return ("html",)
    printed = ("latex", *(("typst",) if wanted.engine == "typst" else ()))
    return ("html", *(printed if links_pdf else ()))


def _convert(
    study: str, drawn: Iterable[Step], written: Reads, files: Files, formats: tuple[str, ...]
) -> Step:
    return Step(
        id=f"{study}/convert",
        study=study,
        action="convert",
        files=(
            "data/site.yaml",
            *files.under(*_FILTER, *_PAGE, "templates/typst/paper.typ", _FONTS),
            *(name for name in files.under("templates/latex/") if name.endswith(".tex")),
        ),
        packages=packages.CONVERTING,
        reads=(
            written,
            Reads(f"{study}/study", (CHOSEN,)),
            *(Reads(step.id, (".svg", ".pdf")) for step in drawn),
        ),
        parameters=(("formats", " ".join(formats)),),
    )


def _page(study: str, drawn: Iterable[Step], written: Reads) -> Step:
    return Step(
        id=f"{study}/html",
        study=study,
        action="html",
        files=("data/site.yaml",),
        packages=packages.PAGES,
        reads=(
            written,
            Reads(f"{study}/convert", (PAGE,)),
            Reads(f"{study}/samples"),
            Reads(f"{study}/study", (CHOSEN, DETAILS)),
            *(Reads(step.id) for step in drawn),
        ),
    )


def _single(study: str, drawn: Iterable[Step], written: Reads, files: Files) -> Step:
    """The page with all that it shows in it, as one file."""
    return Step(
        id=f"{study}/single",
        study=study,
        action="single",
        files=(
            "data/site.yaml",
            *files.under(*_FILTER, *_PAGE, "templates/html/assets/"),
        ),
        packages=packages.PAGES,
        reads=(
            written,
            Reads(f"{study}/study", (CHOSEN, DETAILS)),
            *(Reads(step.id) for step in drawn),
        ),
    )


#: What a page is made by, with what stands around every page.
_SHELL: Final = tuple(f"templates/html/{part}.html.j2" for part in ("head", "header", "footer"))
_PAGE: Final = ("templates/numeric.csl", "templates/html/page.html", *_SHELL)
_FILTER: Final = ("templates/ridgepoint.lua", "templates/filter/")
_FONTS: Final = "templates/fonts/"


def _print_steps(
    study: str, drawn: Iterable[Step], written: Reads, files: Files, wanted: Wanted
) -> list[Step]:
    """The LaTeX source, which is written whatever the engine, the PDF, and the archive."""
    figures = tuple(Reads(step.id, (".pdf",)) for step in drawn)
    source = Step(
        id=f"{study}/tex",
        study=study,
        action="tex",
        files=files.under("templates/latex/"),
        packages=packages.PANDOC,
        reads=(written, Reads(f"{study}/convert", (LATEX,)), *figures),
    )
    if wanted.engine == "latex":
        paper = Step(
            id=f"{study}/pdf",
            study=study,
            action="latex",
            packages=("tex",),
            reads=(Reads(source.id),),
        )
    else:
        paper = Step(
            id=f"{study}/pdf",
            study=study,
            action="typst",
            files=files.under("templates/typst/", _FONTS),
            packages=packages.TYPST,
            reads=(written, Reads(f"{study}/convert", (TYPST,)), *figures),
            parameters=(("standard", wanted.standard),),
        )
    return [source, paper, _bundle(source, paper)]


def _bundle(source: Step, paper: Step) -> Step:
    by_latex = paper.action == "latex"
    return Step(
        id=f"{source.study}/bundle",
        study=source.study,
        action="bundle",
        packages=(),
        reads=(Reads(source.id), *([Reads(paper.id, (BIBLIOGRAPHY,))] if by_latex else [])),
        parameters=(("bibliography", "yes" if by_latex else "no"),),
    )


def shared_steps(
    written: dict[str, tuple[str, ...]], pages: dict[str, bool], files: Files, wanted: Wanted
) -> tuple[Step, ...]:
    """The steps that read what several studies have made.

    ``written`` are the studies that have a manuscript, with the ids of their figures' steps;
    ``pages`` those that have a page, with whether they have a PDF.
    """
    listed = wanted.html and wanted.engine != "quarto" and pages
    quarto = (_quarto_step(written, files, wanted),) if written else ()
    return quarto + ((_index_step(pages, files),) if listed else ())


def _quarto_step(written: dict[str, tuple[str, ...]], files: Files, wanted: Wanted) -> Step:
    """All papers as a Quarto project."""
    manuscripts = tuple(Reads(f"{study}/manuscript") for study in written)
    figures = tuple(Reads(id) for ids in written.values() for id in ids)
    return Step(
        id=f"{_SHARED}/quarto",
        study="",
        action="quarto",
        files=files.under("templates/quarto/", "templates/numeric.csl", "templates/filter/tabular"),
        packages=(*packages.LISTING, *(("quarto",) if wanted.engine == "quarto" else ())),
        reads=(*manuscripts, *figures, *(Reads(f"{study}/convert", (ENTRY,)) for study in written)),
        parameters=(
            ("render", _formats(wanted) if wanted.engine == "quarto" else ""),
            ("studies", " ".join(written)),
        ),
    )


def _index_step(pages: dict[str, bool], files: Files) -> Step:
    """The pages of the site that tell of all papers."""
    return Step(
        id=f"{_SHARED}/index",
        study="",
        action="index",
        files=(
            "data/site.yaml",
            *(f"data/reported/{study}.json" for study in pages),
            *files.under("templates/html/"),
        ),
        packages=packages.PAGES,
        reads=tuple(
            read
            for study in pages
            for read in (
                Reads(f"{study}/convert", (ENTRY,)),
                Reads(f"{study}/study", (RECORDS, DETAILS)),
                Reads(f"{study}/manuscript", (f"values/{study}.json",)),
                Reads(f"{study}/html", (".html",)),
            )
        ),
        parameters=tuple((study, "pdf" if has_pdf else "") for study, has_pdf in pages.items()),
    )


def _formats(wanted: Wanted) -> str:
    return " ".join(name for name in ("html", "pdf") if getattr(wanted, name))
