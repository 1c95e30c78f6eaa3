"""What steps a build has: for every study from its data to its formats, and what all share.

======================  =====================================================================
``<study>/study``       which records the paper uses, values, tables, claims, and a description of
                        every figure
``<study>/figures``     the figures in both of their formats
``<study>/samples``     those records, and every sample of them as a table, for their reader
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

from collections.abc import Iterable, Sequence
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
#: The descriptions of all figures of a study, and what its page shows of those that are opened.
DRAWINGS: Final = "drawings.pickle"
OPENED: Final = "opened.json"

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


def study_steps(
    study: str, files: Files, wanted: Wanted, asked: Iterable[str] = (), *, links_pdf: bool
) -> tuple[Step, ...]:
    """The steps of ``study``.

    ``asked`` are the records that the user wants in this build, relative to the data directory;
    ``links_pdf`` tells whether the page may lead to a PDF.
    """
    step = partial(_step, study)
    use = "\n".join(asked)
    computed = step(
        "study",
        _COMPUTING,
        files=(
            *files.records[study],
            "data/editions.yaml",
            f"data/reported/{study}.json",
            "data/devices.yaml",
            f"data/{OPERATORS}",
        ),
        code=(module_of(study),),
        parameters=(("use", use),) if use else (),
    )
    figures = step(
        "figures", _DRAWING, files=files.under(_FONTS), reads=(Reads(computed.id, (DRAWINGS,)),)
    )
    manuscript = step(
        "manuscript",
        _WRITING,
        files=(
            "data/references.bib",
            f"templates/papers/{study}.qmd.j2",
            *files.under("templates/shared/", f"templates/papers/{study}/"),
        ),
        code=(module_of(study),),  # a template may call what the study's own objects know
        reads=(Reads(computed.id, (CHOSEN, FINDINGS)),),
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
            Reads(manuscript.id),
            Reads(computed.id, (CHOSEN,)),
            Reads(figures.id, (".svg", ".pdf")),
        ),
        parameters=(("formats", " ".join(_written_in(wanted, links_pdf=links_pdf))),),
    )
    pages: list[Step] = []
    details = (Reads(manuscript.id), Reads(computed.id, (CHOSEN, DETAILS)), Reads(figures.id))
    if wanted.html and wanted.engine != "quarto":
        samples = step("samples", _READING, reads=(Reads(computed.id, (CHOSEN,)),))
        reads = (*details, Reads(convert.id, (PAGE,)), Reads(samples.id))
        pages += [samples, step("html", _PAGES, files=("data/site.yaml",), reads=reads)]
    if wanted.single:
        used = ("data/site.yaml", *files.under(*_FILTER, *_PAGE, "templates/html/assets/"))
        pages.append(step("single", _PAGES, files=used, reads=details))
    printed = _print_steps(study, files, wanted) if wanted.pdf else ()
    return (computed, figures, manuscript, convert, *printed, *pages)


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


def _print_steps(study: str, files: Files, wanted: Wanted) -> tuple[Step, ...]:
    """The LaTeX source, which is written whatever the engine, the PDF, and the archive."""
    if wanted.engine == "quarto":
        return ()
    step, converted = partial(_step, study), f"{study}/convert"
    drawn = (Reads(f"{study}/manuscript"), Reads(f"{study}/figures", (".pdf",)))
    source = step(
        "tex",
        _PANDOC,
        files=files.under("templates/latex/"),
        reads=(*drawn, Reads(converted, (LATEX,))),
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
            reads=(*drawn, Reads(converted, (TYPST,))),
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
    written: Sequence[str], pages: dict[str, bool], files: Files, wanted: Wanted
) -> tuple[Step, ...]:
    """The steps that read what several studies have made: the Quarto project and the site.

    ``written`` are the studies that have a manuscript, ``pages`` those that have a page, with
    whether they have a PDF.
    """
    by_quarto = wanted.engine == "quarto"
    formats = [name for name in ("html", "pdf") if getattr(wanted, name)]
    quarto = Step(
        id="site/quarto",
        study="",
        action="quarto",
        files=files.under("templates/quarto/", "templates/numeric.csl", "templates/filter/tabular"),
        packages=(*_LISTING, *(("quarto",) if by_quarto else ())),
        reads=tuple(
            read
            for study in written
            for read in (
                Reads(f"{study}/manuscript"),
                Reads(f"{study}/figures"),
                Reads(f"{study}/convert", (ENTRY,)),
            )
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
