"""The steps of a build, about one study or about all studies, and the request for a build.

====================  =======================================================================
``<study>/study``     the choice of records, values, tables, claims, and a description of every
                      figure; the chosen records, and all of their samples as a table
``<study>/figures``   the figures in all formats
``<study>/document``  the document with tables and bibliography, its conversion to each format by
                      pandoc, and its entry for lists of studies; independent of the drawings
``<study>/page``      the page, with figures and downloads
``<study>/pdf``       the PDF by LaTeX, Typst or Quarto, in ``pdf/`` and beside its page, so that
                      the page can be published alone; and the LaTeX source with its archive
``<study>/docx``      the paper as a Word document
``site/quarto``       the Quarto project of all studies
``site/quarto_site``  the website that Quarto renders from its project
``site/index``        the pages about all studies: their list, the claims, and the search
====================  =======================================================================

Input files are named as in the project (``data/…``, ``templates/…``, ``report/…``), even if --data
names another folder.  Outputs are named relative to ``out/``, where each document (a paper or a
replication report) has folders of its name.  A step depends on all code that the import contracts
allow it to import.  So a change of one study's module rebuilds only the paper of this study.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, TypeAlias

from report.core.errors import RenderError
from report.core.records import EDITIONS, OPERATORS
from report.evaluation import is_report, study_of

ROOT: Final = Path(__file__).resolve().parents[2]
Engine: TypeAlias = Literal["auto", "latex", "typst", "quarto"]
Output: TypeAlias = Literal["html", "pdf", "docx"]
#: Called with the id of a step that begins, the finished share of the build, and the reason.
Announce: TypeAlias = Callable[[str, float, str], None]

#: The folder of outputs that only later steps read.
ARTIFACTS: Final = ".steps"
#: The records behind a paper, its devices, and the attributions of imported records.
ORIGIN: Final = "origin.json"
#: The cases of all own records; the paper must not call one of these cases unmeasured.
COVERAGE: Final = "coverage.pickle"
#: The values, tables, figures and claims that the step ``study`` computed.
FINDINGS: Final = "findings.pickle"
#: The details that the page shows when a reader opens a number, and the machines for the site.
VALUE_DETAILS: Final = "details.json"
#: All records of the study, used or not.
RECORDS: Final = "records.json"
#: The verdict on each claim of a paper on each machine with records.
ATLAS: Final = "atlas.json"
#: All samples of the records that the study uses.
SAMPLES: Final = "samples.csv.gz"
#: The folder with copies of the records that the study uses.
RECORDS_FOLDER: Final = "records"
#: The descriptions of a study's figures.
DRAWINGS: Final = "drawings.pickle"
#: The digest, for each figure, of everything that its files depend on.
FIGURE_DIGESTS: Final = "drawn.json"
#: The folder, in the stage of the step ``figures``, with the figures of the previous build.
PREVIOUS_BUILD: Final = "before"
#: Name of a drawing: the panel of the key figure that lists of papers show.
CARD: Final = "card"
#: The place in the code and the series that the page shows when a reader opens a figure.
FIGURE_DETAILS: Final = "opened.json"
#: The study's entry for lists of studies.
LIST_ENTRY: Final = "entry.json"
#: What the pages about all studies need of the study's page.
CONTENT: Final = "content.json"
#: The paper as pandoc converted it, for the page, LaTeX, Typst and Word.
PAGE: Final = "paper.html"
LATEX: Final = "paper.tex"
TYPST: Final = "paper.typ"
WORD: Final = "paper.json"
#: Stands in place of a study's name in the steps about all studies.
SITE: Final = "site"
#: Stands in file names for the study of a step.
_STUDY: Final = "STUDY"
#: Code that every step depends on.
_BASE: Final = (
    "report/__init__.py", "report/core/errors.py", "report/core/missing.py", "report/engine/",
    "report/evaluation/__init__.py", "report/core/system/", "report/core/records/",
    "report/studies/__init__.py", "figures/__init__.py", "figures/characters.py",
    "report/render/__init__.py",
)  # fmt: skip
#: Code of the steps that write formats.
_PRINTING: Final = (
    *_BASE, "report/instruments/", "report/paper/", "report/render/", "report/core/statistics/",
    "report/core/text/",
)  # fmt: skip
#: Code of the steps that compute a study or render its template.
_COMPUTING: Final = (
    *_BASE, "report/evaluation/", "report/evidence/", "report/instruments/", "report/paper/",
    "report/quantity/", "report/core/statistics/", "report/core/text/", "report/theory/",
    f"report/studies/{_STUDY}/", "figures/panels.py",
)  # fmt: skip
_TYPST: Final = ("templates/typst/", "templates/fonts/", "figures/fonts.py", "figures/style.py")
_FILTER: Final = ("templates/ridgepoint.lua", "templates/filter/", "templates/numeric.csl")

#: Kind of step → the files and folders of the project that it depends on.
_FILES: Final[Mapping[str, tuple[str, ...]]] = {
    "study": (
        *_COMPUTING, f"data/{_STUDY}/", f"data/reported/{_STUDY}.json", f"data/{EDITIONS}",
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
    "page": (*_PRINTING, "data/site.yaml"),
    "pdf": (*_PRINTING, *_TYPST, "templates/latex/"),
    "docx": (*_PRINTING, "templates/docx/"),
    "quarto": (*_PRINTING, "templates/quarto/"),
    "quarto_site": _PRINTING,
    "index": (*_PRINTING, "templates/html/", f"data/reported/{_STUDY}.json", "data/site.yaml"),
}  # fmt: skip
_GIT_LIMIT_S: Final = 20
#: Further inputs of a report's step ``study``: the paper and, with --data, the paper's records.
_ORIGINAL: Final = (f"paper/{_STUDY}/", f"paper/{EDITIONS}", f"templates/papers/{_STUDY}.qmd.j2")
#: Kind of step → kind of step that it reads → prefixes or suffixes of the read outputs.
_READS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "study": {},
    "figures": {"study": (DRAWINGS,)},
    "document": {"study": (ORIGIN, FINDINGS, ATLAS, COVERAGE)},
    "page": {
        "study": (VALUE_DETAILS, SAMPLES, ATLAS, f"{ARTIFACTS}/{_STUDY}/{RECORDS_FOLDER}/"),
        "figures": (".csv", ".pdf", ".svg", FIGURE_DETAILS),
        "document": ("qmd/", PAGE),
    },
    "pdf": {"figures": (".pdf", ".svg"), "document": ("qmd/", LATEX, TYPST)},
    "docx": {"figures": ("qmd/",), "document": ("qmd/", WORD)},
    "quarto": {"figures": ("qmd/",), "document": ("qmd/", LIST_ENTRY)},
    "quarto_site": {"quarto": ("quarto/",)},
    "index": {
        "study": (RECORDS, VALUE_DETAILS, ATLAS),
        "document": (LIST_ENTRY, "values/"),
        "page": (CONTENT,),
    },
}
#: All kinds of steps.
KINDS: Final = tuple(_READS)
#: The kinds of steps whose outputs the steps about all studies read.
READ_BY_SITE: Final = tuple({**_READS["quarto"], **_READS["index"]})


class BuildRequest(NamedTuple):
    """The studies and formats to build, and the folders to read and write.

    ``studies`` are papers, or replication reports.  ``use`` maps a study to record files, relative
    to ``data``; each of these records replaces the default record of its device.  ``style``
    replaces the print style of the papers.
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


class Failure(NamedTuple):
    """A study (or ``site``) that was not built: the reason in one sentence, and the traceback."""

    study: str
    sentence: str
    trace: str = ""


class BuildStep(NamedTuple):
    """One step and its dependencies.

    ``id`` is the study (or ``site``), a slash, and the name of the step's function in ``actions``.
    ``files`` are input files.  ``reads`` has pairs: the id of another step, and prefixes or
    suffixes of those outputs of this step that are read.  ``settings`` are the function's other
    inputs.
    """

    id: str
    files: Sequence[str]
    reads: tuple[tuple[str, tuple[str, ...]], ...]
    settings: Mapping[str, str]


def commit_of_program() -> str:
    """Return the commit of this program, with "-dirty" if files differ; "" outside a checkout."""
    from report.core.system.programs import run

    git = ("git", "--git-dir=.git", "--work-tree=.", "describe", "--always", "--exclude=*")
    with suppress(RenderError):
        return run((*git, "--abbrev=40", "--dirty"), ROOT, _GIT_LIMIT_S).stdout.strip()
    return ""


def paper_files(study: str) -> tuple[str, str]:
    """Return both paths of a study's PDF: in the folder of all PDFs, and beside its page."""
    return f"pdf/{study}.pdf", f"html/{study}/{study}.pdf"


def make_step(
    name: str, kind: str, studies: Sequence[str], files: Sequence[str], settings: Mapping[str, str]
) -> BuildStep:
    """Describe the step ``name/kind`` about ``studies``; ``files`` are all input files, sorted."""
    inputs: dict[str, None] = {}
    reads: list[tuple[str, tuple[str, ...]]] = []
    for study in studies:
        original = _ORIGINAL if kind == "study" and is_report(study) else ()
        for pattern in (*_FILES[kind], *original):
            # Comparing every file would double the time of a build with nothing to do.
            prefix = pattern.replace(_STUDY, study_of(study))
            first = bisect_left(files, prefix)
            end = bisect_left(files, f"{prefix}\U0010ffff", first)
            inputs |= dict.fromkeys(files[first:end])
        for other, patterns in _READS[kind].items():
            parts = tuple(pattern.replace(_STUDY, study) for pattern in patterns)
            reads.append((f"{study}/{other}", parts))
    return BuildStep(f"{name}/{kind}", (*inputs,), tuple(reads), settings)
