"""What a build is asked for, and what steps that has: for every study, and what all share.

====================  =======================================================================
``<study>/study``     which records the paper uses, values, tables, claims, and a description of
                      every figure; those records, and every sample of them as a table
``<study>/figures``   the figures in both of their formats
``<study>/document``  the document with tables and bibliography, what pandoc writes of it for each
                      format, and what lists of studies say; it needs no drawing
``<study>/editions``  the page and the sources of LaTeX, with figures and downloads
``<study>/pdf``       the paper by LaTeX, Typst or Quarto, also beside its page, which can then be
                      published with it; and the LaTeX source in one archive
``<study>/docx``      the paper as a Word document
``site/quarto``       the Quarto project of all studies
``site/quarto_site``  the website that Quarto makes of it
``site/index``        the list of all studies, the pages over all of them, and the search
====================  =======================================================================

Files are named as in the project wherever they lie: ``data/…``, ``templates/…``, ``report/…``; what
steps make is named relative to ``out/``.  A step depends on the rooms of code that it may import,
which the contract of imports holds it to, so that a module of one study makes one paper anew.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from report.core.records import OPERATORS

ROOT: Final = Path(__file__).resolve().parents[2]
Engine: TypeAlias = Literal["auto", "latex", "typst", "quarto"]
Output: TypeAlias = Literal["html", "pdf", "docx"]

#: Where a step leaves what only later steps read.
ARTIFACTS: Final = ".steps"
#: What a paper says of its data, and what the step ``study`` finds in them.
ORIGIN: Final = "origin.json"
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
#: What lists of studies say of one, and the paper as pandoc writes it for each format.
ENTRY: Final = "entry.json"
PAGE: Final = "paper.html"
LATEX: Final = "paper.tex"
TYPST: Final = "paper.typ"
WORD: Final = "paper.json"
#: What all studies share, as a step calls it.
SITE: Final = "site"

#: In the name of a file, the study that a step belongs to.
_STUDY: Final = "STUDY"
_BASE: Final = (
    "report/__init__.py", "report/core/errors.py", "report/core/missing.py", "report/engine/",
    "report/core/system/", "report/core/records/", "report/studies/__init__.py",
    "figures/__init__.py", "figures/characters.py", "report/render/__init__.py",
)  # fmt: skip
_PRINTING: Final = (
    *_BASE, "report/instruments/", "report/paper/", "report/render/", "report/core/statistics/",
    "report/core/text/",
)  # fmt: skip
_COMPUTING: Final = (
    *_BASE, "report/evidence/", "report/instruments/", "report/paper/", "report/quantity/",
    "report/core/statistics/", "report/core/text/", "report/theory/", f"report/studies/{_STUDY}/",
    "figures/panels.py",
)  # fmt: skip
_TYPST: Final = ("templates/typst/", "templates/fonts/", "figures/fonts.py", "figures/style.py")
_FILTER: Final = ("templates/ridgepoint.lua", "templates/filter/", "templates/numeric.csl")


#: What steps of a kind depend on: files and folders of the project.
_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "study": (
        *_COMPUTING, f"data/{_STUDY}/", f"data/reported/{_STUDY}.json", "data/editions.yaml",
        "data/devices.yaml", f"data/{OPERATORS}",
    ),
    "figures": (*_BASE, "figures/", "templates/fonts/"),
    "document": (
        *_COMPUTING, *_FILTER, *_TYPST, "report/render/", "data/references.bib", "data/site.yaml",
        f"templates/papers/{_STUDY}.qmd.j2", f"templates/papers/{_STUDY}/", "templates/shared/",
        "templates/quarto/", "templates/latex/", "templates/html/page.html",
        "templates/html/head.html.j2", "templates/html/header.html.j2",
        "templates/html/footer.html.j2",
    ),
    "editions": (*_PRINTING, "templates/latex/", "data/site.yaml"),
    "pdf": (*_PRINTING, *_TYPST),
    "docx": (*_PRINTING, "templates/docx/"),
    "quarto": (*_PRINTING, "templates/quarto/"),
    "quarto_site": _PRINTING,
    "index": (*_PRINTING, "templates/html/", f"data/reported/{_STUDY}.json", "data/site.yaml"),
}  # fmt: skip
#: The other kinds of steps that they read, and how the names of those outputs begin or end.
_READS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "study": {},
    "figures": {"study": (DRAWINGS,)},
    "document": {"study": (ORIGIN, FINDINGS)},
    "editions": {
        "study": (DETAILS, SAMPLES, f"{ARTIFACTS}/{_STUDY}/{RECORDS_FOLDER}/"),
        "figures": ("",),
        "document": ("qmd/", PAGE, LATEX),
    },
    "pdf": {"figures": ("qmd/",), "document": ("qmd/", TYPST), "editions": ("tex/",)},
    "docx": {"figures": ("qmd/",), "document": ("qmd/", WORD)},
    "quarto": {"figures": ("qmd/",), "document": ("qmd/", ENTRY)},
    "quarto_site": {"quarto": ("quarto/",)},
    "index": {
        "study": (RECORDS, DETAILS),
        "document": (ENTRY, "values/"),
        "editions": ("index.html",),
    },
}
#: The kinds of steps of studies that those over all of them read.
READ: Final = tuple({**_READS["quarto"], **_READS["index"]})


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
    """One piece of work, and what it depends on; ``id`` ends with its function in ``actions``.

    ``reads`` names other steps, each with how the names of those outputs begin or end that are
    read.  ``settings`` is what else the function is told.
    """

    id: str
    files: Sequence[str]
    reads: tuple[tuple[str, tuple[str, ...]], ...]
    settings: Mapping[str, str]

    @property
    def study(self) -> str:
        """The study that the step belongs to; ``site`` for what all share."""
        return self.id.partition("/")[0]


def paper_files(study: str) -> tuple[str, str]:
    """Where the PDF of a study lies: with the other PDFs, and beside its page."""
    return f"pdf/{study}.pdf", f"html/{study}/{study}.pdf"


def make_step(
    room: str, action: str, studies: Sequence[str], files: Sequence[str], told: Mapping[str, str]
) -> Step:
    """A step of ``room`` over ``studies``, with the settings that it is ``told``.

    ``files`` are all inputs that there may be, sorted.
    """
    found: dict[str, None] = {}
    for begin in (name.replace(_STUDY, study) for name in _FILES[action] for study in studies):
        # To look at every file for each step would take as long as all else of nothing to do.
        first = bisect_left(files, begin)
        found |= dict.fromkeys(files[first : bisect_left(files, f"{begin}\U0010ffff", first)])
    reads = (
        (f"{study}/{other}", tuple(part.replace(_STUDY, study) for part in parts))
        for study in studies
        for other, parts in _READS[action].items()
    )
    return Step(f"{room}/{action}", [*found], tuple(reads), told)
