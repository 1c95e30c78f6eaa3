"""What a build is asked for, and what steps that has: for every study, and what all share.

====================  =======================================================================
``<study>/study``     which records the paper uses, values, tables, claims, and a description of
                      every figure
``<study>/samples``   those records, and every sample of them as a table, for the page's reader
``<study>/figures``   the figures in both of their formats
``<study>/document``  the document with tables, downloads and bibliography, and what pandoc writes
                      of it: the page, the sources of LaTeX and Typst, and what lists of studies
                      say
``<study>/pdf``       the paper by LaTeX or Typst, also beside its page, so that the page can be
                      published with it; and the LaTeX source in one archive
``site/quarto``       the Quarto project of all studies
``site/index``        the list of all studies, the pages over all of them, and the search
====================  =======================================================================

Files are named as in the project wherever they lie: ``data/…``, ``templates/…``, ``report/…``; what
steps make is named relative to ``out/``.  A step depends on the rooms of code that it may import,
which the contract of imports holds it to, so that a module of one study makes one paper anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from report.records import ENDING, OPERATORS

ROOT: Final = Path(__file__).resolve().parents[2]
Engine: TypeAlias = Literal["auto", "latex", "typst"]
Output: TypeAlias = Literal["html", "pdf"]

#: Where a step leaves what only later steps read.
ARTIFACTS: Final = ".steps"
#: What the step ``study`` has chosen, and what it finds in that.
CHOSEN: Final = "chosen.json"
FINDINGS: Final = "findings.pickle"
#: What the page shows of a number that is opened, and the machines that were measured.
DETAILS: Final = "details.json"
#: All records of the study, used or not.
RECORDS: Final = "records.json"
#: Every sample of the records that the study uses, and the folder of these beside the page.
SAMPLES: Final = "samples.csv.gz"
RECORDS_FOLDER: Final = "records"
#: The descriptions of all figures of a study, and what its page shows of those that are opened.
DRAWINGS: Final = "drawings.pickle"
OPENED: Final = "opened.json"
#: What lists of studies say of one, and the paper as pandoc writes it for Typst.
ENTRY: Final = "entry.json"
TYPST: Final = "paper.typ"

#: The rooms of code that every step runs through, and those below the studies.
_BASE: Final = (
    "report/__init__.py", "report/errors.py", "report/missing.py", "report/engine/",
    "report/system/", "report/records/", "report/studies/__init__.py", "figures/__init__.py",
    "figures/characters.py", "report/render/__init__.py",
)  # fmt: skip
_BELOW: Final = tuple(
    f"report/{room}/"
    for room in ("evidence", "instruments", "paper", "quantity", "statistics", "text", "theory")
)
#: What no study may import, since it needs the library that draws.
_DRAWING_ALONE: Final = tuple(f"figures/{name}.py" for name in ("fonts", "render", "svg"))
_PRINTING: Final = tuple(
    f"report/{room}/" for room in ("instruments", "paper", "render", "statistics", "text")
)
#: The packages that each kind of work depends on, with what they are built on.
_READING: Final = ("msgspec", "pyyaml")
_DRAWING: Final = (
    "contourpy", "cycler", "fonttools", "kiwisolver", "matplotlib", "numpy", "packaging", "pillow",
    "pyparsing", "python_dateutil",
)  # fmt: skip
_PAGES: Final = ("jinja2", "markupsafe", "msgspec", "pypandoc_binary", "pyyaml")
_WRITING: Final = (*_PAGES, "fonttools", "numpy", "pylatex")

#: What a page is made by, with what stands around every page.
_PAGE: Final = (
    "templates/numeric.csl", "templates/html/page.html", "templates/html/head.html.j2",
    "templates/html/header.html.j2", "templates/html/footer.html.j2",
)  # fmt: skip
_FILTER: Final = ("templates/ridgepoint.lua", "templates/filter/")
_FONTS: Final = "templates/fonts/"


class Request(NamedTuple):
    """What to build, from where and to where.

    ``use`` are records to build from instead of the chosen ones of their devices: study → files
    relative to ``data``.  ``style`` replaces the print style that the papers ask for.
    """

    studies: tuple[str, ...]
    outputs: tuple[Output, ...]
    out: Path
    engine: Engine = "auto"
    jobs: int = 1
    data: Path = ROOT / "data"
    papers: Path = ROOT / "templates" / "papers"
    use: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    style: str | None = None


class Step(NamedTuple):
    """One piece of work: a function of ``report.engine.actions``, and what it depends on.

    ``reads`` names other steps, each with how the names begin of those outputs that are read.
    """

    id: str
    study: str
    action: str
    packages: tuple[str, ...]
    files: tuple[str, ...]
    reads: tuple[tuple[str, tuple[str, ...]], ...] = ()
    parameters: Mapping[str, str] = MappingProxyType({})


def paper_files(study: str) -> tuple[str, str]:
    """Where the PDF of a study lies: with the other PDFs, and beside its page, which links to it.

    The copy beside the page is replaced by itself, so that a new PDF leaves the page alone.
    """
    return f"pdf/{study}.pdf", f"html/{study}/{study}.pdf"


def formats(request: Request, before: str, *, has_paper: bool) -> str:
    """The formats of a document in alphabetical order: those that it has ``before`` it keeps.

    So whoever asks for the one and the other in turns has nothing converted again.  Sources of
    print are written where a PDF is wanted or there, to which the page then leads.
    """
    had, wanted = set(before.split()), set(request.outputs)
    printed = {"latex", "typst"} & {"latex", request.engine, *had}
    shown = {"html"} & (had | wanted)
    return " ".join(sorted(shown | (printed if "pdf" in wanted or has_paper else set())))


@cache
def _under(names: tuple[str, ...], *prefixes: str) -> tuple[str, ...]:
    """Those of ``names`` that begin with one of ``prefixes``; many steps ask for the same."""
    return tuple([name for name in names if name.startswith(prefixes)])


def study_steps(study: str, request: Request, names: tuple[str, ...], written: str) -> list[Step]:
    """The steps of ``study``, where ``names`` are all input files and ``written`` its formats.

    The engine of the request is latex or typst.
    """
    files = partial(_under, names)

    def step(
        action: str,
        packages: tuple[str, ...],
        files: tuple[str, ...],
        *reads: tuple[str, tuple[str, ...]],
        **parameters: str,
    ) -> Step:
        read = tuple((f"{study}/{id}", endings) for id, endings in reads)
        kept = {name: value for name, value in parameters.items() if value}
        return Step(f"{study}/{action}", study, action, packages, files, read, kept)

    described = (name for name in files("figures/") if name not in _DRAWING_ALONE)
    code = (*files(*_BASE, *_BELOW, f"report/studies/{study}/"), *described)
    records = (name for name in files(f"data/{study}/") if name.endswith(ENDING))
    common = (f"data/{name}" for name in ("editions.yaml", "devices.yaml", OPERATORS))
    steps = [
        step(
            "study",
            (*_READING, "numpy", "scipy"),
            (*records, *common, f"data/reported/{study}.json", *code),
            use="\n".join(request.use.get(study, ())),
        )
    ]
    artifacts, source = f"{ARTIFACTS}/{study}/", f"qmd/{study}/"
    if "html" in written.split():
        rooms = files(*_BASE, "report/instruments/")
        steps.append(step("samples", _READING, rooms, ("study", (artifacts + CHOSEN,))))
    steps += [
        step(
            "figures",
            _DRAWING,
            files(*_BASE, "figures/", _FONTS),
            ("study", (artifacts + DRAWINGS,)),
        ),
        step(
            "document",
            _WRITING,
            (
                "data/references.bib",
                "data/site.yaml",
                f"templates/papers/{study}.qmd.j2",
                *files("templates/shared/", f"templates/papers/{study}/", *_FILTER, *_PAGE),
                *files("templates/typst/", "templates/latex/", _FONTS, "report/render/"),
                *files("figures/"),
                *code,
            ),
            ("study", tuple(artifacts + name for name in (CHOSEN, FINDINGS, DETAILS))),
            ("figures", ("",)),
            *([("samples", ("",))] if "html" in written.split() else []),
            formats=written,
            style=request.style or "",
        ),
    ]
    if "pdf" in request.outputs:
        by_latex = request.engine == "latex"
        steps.append(
            step(
                "pdf",
                ("tex",) if by_latex else ("fonttools", "pypandoc_binary", "pyyaml", "typst"),
                (
                    *files(*_BASE, *_PRINTING, "figures/"),
                    *(() if by_latex else files("templates/typst/", _FONTS)),
                ),
                ("document", (f"tex/{study}/", *(() if by_latex else (source, artifacts)))),
                *([] if by_latex else [("figures", (f"{source}figures/",))]),
                engine=request.engine,
            )
        )
    return steps


def shared_steps(
    written: Sequence[str], pages: Mapping[str, bool], request: Request, names: tuple[str, ...]
) -> list[Step]:
    """The steps that read what several studies have made: the Quarto project and the site.

    ``written`` are the studies that have a document, ``pages`` those that have a page, with
    whether they have a PDF.
    """
    files = partial(_under, names)
    code = files(*_BASE, *_PRINTING)
    steps: list[Step] = []
    if written:
        quarto = Step(
            "site/quarto",
            "",
            "quarto",
            _PAGES,
            (
                *files("templates/quarto/", "templates/numeric.csl", "templates/filter/"),
                "templates/latex/ridgepoint.sty",
                *code,
            ),
            tuple(
                read
                for study in written
                for read in (
                    (f"{study}/document", (f"qmd/{study}/", f"{ARTIFACTS}/{study}/{ENTRY}")),
                    (f"{study}/figures", (f"qmd/{study}/figures/",)),
                )
            ),
            {"studies": " ".join(written)},
        )
        steps.append(quarto)
    if pages and "html" in request.outputs:
        reported = (f"data/reported/{study}.json" for study in pages)
        index = Step(
            "site/index",
            "",
            "index",
            _PAGES,
            ("data/site.yaml", *reported, *files("templates/html/"), *code),
            tuple(
                read
                for study in pages
                for read in (
                    (f"{study}/study", (f"{ARTIFACTS}/{study}/",)),
                    (f"{study}/document", _listed(study)),
                )
            ),
            {study: "pdf" if has_paper else "" for study, has_paper in pages.items()},
        )
        steps.append(index)
    return steps


def _listed(study: str) -> tuple[str, ...]:
    """What lists of studies read of a document."""
    artifact, page = f"{ARTIFACTS}/{study}/{ENTRY}", f"html/{study}/index.html"
    return artifact, f"values/{study}.json", page
