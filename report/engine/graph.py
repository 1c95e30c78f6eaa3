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

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

from report.engine.step import Files, Reads, Step, Wanted
from report.records import OPERATORS
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
_DRAWING_FILE: Final = ".drawing"
_OPENED: Final = ".opened.json"

#: The packages that each kind of work depends on, with what they are built on.
_READING: Final = ("msgspec", "pyyaml")
_COMPUTING: Final = (*_READING, "numpy", "scipy")
_DRAWING: Final = (
    "contourpy", "cycler", "fonttools", "kiwisolver", "matplotlib", "numpy", "packaging", "pillow",
    "pyparsing", "python_dateutil",
)  # fmt: skip
_WRITING: Final = ("jinja2", "markupsafe", "msgspec", "numpy", "pylatex", "pyyaml")
_PANDOC: Final = ("pypandoc_binary", "pyyaml")
_TYPST_PDF: Final = (*_PANDOC, "fonttools", "typst")
_PAGES: Final = (*_PANDOC, "jinja2", "markupsafe", "msgspec")
_CONVERTING: Final = (*_PAGES, "fonttools")
_LISTING: Final = (*_PANDOC, "jinja2", "markupsafe")


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
                f"data/{OPERATORS}",
            ),
            code=(module_of(study),),
            packages=_COMPUTING,
            parameters=(("use", use),) if use else (),
        ),
    )


def figure_names(outputs: Iterable[str]) -> tuple[str, ...]:
    """The names of the figures that the outputs of a ``study`` step describe."""
    files = (name.rpartition("/")[2] for name in outputs if name.endswith(_DRAWING_FILE))
    return tuple(sorted(file.removesuffix(_DRAWING_FILE) for file in files))


def drawing_file(study: str, name: str) -> str:
    """Where the description of a figure lies."""
    return f"{ARTIFACTS}/{study}/{name}{_DRAWING_FILE}"


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


#: What a page is made by, with what stands around every page.
_SHELL: Final = tuple(f"templates/html/{part}.html.j2" for part in ("head", "header", "footer"))
_PAGE: Final = ("templates/numeric.csl", "templates/html/page.html", *_SHELL)
_FILTER: Final = ("templates/ridgepoint.lua", "templates/filter/")
_FONTS: Final = "templates/fonts/"


def later_steps(
    study: str, figures: Iterable[str], files: Files, wanted: Wanted, *, links_pdf: bool
) -> tuple[Step, ...]:
    """The steps of ``study`` after the one that says which figures it has.

    ``links_pdf`` tells whether the page may lead to a PDF.
    """
    step = partial(_step, study)
    computed, written = f"{study}/study", Reads(f"{study}/manuscript")
    drawn = tuple(
        step(
            "figure",
            _DRAWING,
            id=f"figure/{name}",
            files=files.under(_FONTS),
            reads=(Reads(computed, (f"/{name}{_DRAWING_FILE}",)),),
            parameters=(("name", name),),
        )
        for name in figures
    )
    shown = tuple(Reads(each.id) for each in drawn)
    manuscript = step(
        "manuscript",
        _WRITING,
        files=(
            "data/references.bib",
            f"templates/papers/{study}.qmd.j2",
            *files.under("templates/shared/", f"templates/papers/{study}/"),
        ),
        code=(module_of(study),),  # a template may call what the study's own objects know
        reads=(Reads(computed, (CHOSEN, FINDINGS)),),
        parameters=(("style", wanted.style),) if wanted.style else (),
    )
    convert = step(
        "convert",
        _CONVERTING,
        files=(
            "data/site.yaml",
            *files.under(*_FILTER, *_PAGE, "templates/typst/paper.typ", _FONTS),
            *(name for name in files.under("templates/latex/") if name.endswith(".tex")),
        ),
        reads=(
            written,
            Reads(computed, (CHOSEN,)),
            *(Reads(each.id, (".svg", ".pdf")) for each in drawn),
        ),
        parameters=(("formats", " ".join(_written_in(wanted, links_pdf=links_pdf))),),
    )
    pages: list[Step] = []
    details = (written, Reads(computed, (CHOSEN, DETAILS)), *shown)
    if wanted.html and wanted.engine != "quarto":
        samples = step("samples", _READING, reads=(Reads(computed, (CHOSEN,)),))
        reads = (*details, Reads(convert.id, (PAGE,)), Reads(samples.id))
        pages += [samples, step("html", _PAGES, files=("data/site.yaml",), reads=reads)]
    if wanted.single:
        used = ("data/site.yaml", *files.under(*_FILTER, *_PAGE, "templates/html/assets/"))
        pages.append(step("single", _PAGES, files=used, reads=details))
    printed = _print_steps(step, drawn, written, files, wanted) if wanted.pdf else ()
    return (*drawn, manuscript, convert, *printed, *pages)


def _step(study: str, action: str, packages: tuple[str, ...], id: str = "", **more: Any) -> Step:
    return Step(f"{study}/{id or action}", study, action, packages, **more)


def _written_in(wanted: Wanted, *, links_pdf: bool) -> tuple[str, ...]:
    """The formats that pandoc writes; those of a PDF also for the page alone, if there is one.

    So whoever asks for the one and the other in turns has nothing converted again.  For
    Quarto, which reads the document by itself, the page alone, so that the document is checked.
    """
    if wanted.engine == "quarto" or not links_pdf:
        return ("html",)
    return ("html", "latex", *(("typst",) if wanted.engine == "typst" else ()))


def _print_steps(
    step: Callable[..., Step], drawn: Iterable[Step], written: Reads, files: Files, wanted: Wanted
) -> tuple[Step, ...]:
    """The LaTeX source, which is written whatever the engine, the PDF, and the archive."""
    if wanted.engine == "quarto":
        return ()
    figures = tuple(Reads(each.id, (".pdf",)) for each in drawn)
    converted = f"{written.id.rpartition('/')[0]}/convert"
    source = step(
        "tex",
        _PANDOC,
        files=files.under("templates/latex/"),
        reads=(written, Reads(converted, (LATEX,)), *figures),
    )
    by_latex = wanted.engine == "latex"
    if by_latex:
        paper = step("latex", ("tex",), id="pdf", reads=(Reads(source.id),))
    else:
        paper = step(
            "typst",
            _TYPST_PDF,
            id="pdf",
            files=files.under("templates/typst/", _FONTS),
            reads=(written, Reads(converted, (TYPST,)), *figures),
            parameters=(("standard", wanted.standard),),
        )
    bibliography = (Reads(paper.id, (BIBLIOGRAPHY,)),) if by_latex else ()
    bundle = step(
        "bundle",
        (),
        reads=(Reads(source.id), *bibliography),
        parameters=(("bibliography", "yes" if by_latex else "no"),),
    )
    return (source, paper, bundle)


def shared_steps(
    written: dict[str, tuple[str, ...]], pages: dict[str, bool], files: Files, wanted: Wanted
) -> tuple[Step, ...]:
    """The steps that read what several studies have made: the Quarto project and the site.

    ``written`` are the studies that have a manuscript, with the ids of their figures' steps;
    ``pages`` those that have a page, with whether they have a PDF.
    """
    by_quarto = wanted.engine == "quarto"
    formats = [name for name in ("html", "pdf") if getattr(wanted, name)]
    quarto = Step(
        id="site/quarto",
        study="",
        action="quarto",
        files=files.under("templates/quarto/", "templates/numeric.csl", "templates/filter/tabular"),
        packages=(*_LISTING, *(("quarto",) if by_quarto else ())),
        reads=(
            *(Reads(f"{study}/manuscript") for study in written),
            *(Reads(id) for ids in written.values() for id in ids),
            *(Reads(f"{study}/convert", (ENTRY,)) for study in written),
        ),
        parameters=(
            ("render", " ".join(formats) if by_quarto else ""),
            ("studies", " ".join(written)),
        ),
    )
    index = Step(
        id="site/index",
        study="",
        action="index",
        files=(
            "data/site.yaml",
            *(f"data/reported/{study}.json" for study in pages),
            *files.under("templates/html/"),
        ),
        packages=_PAGES,
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
    listed = wanted.html and not by_quarto and pages
    return (*((quarto,) if written else ()), *((index,) if listed else ()))
