"""Parse the command line of ``build.py`` and convert it to a request for a build."""

import os
from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from report.core.errors import RecordError, UsageError
from report.core.records import ENDING, IMPORTED
from report.core.system.commandline import Parser
from report.engine.steps import ROOT, BuildRequest, Output
from report.evaluation import REPORT_SUFFIX
from report.render import STYLES
from report.studies import STUDIES

#: Port at which --serve serves the pages.
DEFAULT_PORT: Final = 8000
OUTPUTS: Final[tuple[Output, ...]] = ("html", "pdf", "docx")
#: Folders of the project that must not receive outputs.
PROJECT_FOLDERS: Final = (
    ".ci", ".git", ".github", ".venv", "LICENSES", "benchmarks", "data", "docs", "experiments",
    "figures", "report", "templates", "tests",
)  # fmt: skip
#: Ending of the file names of papers' templates.
TEMPLATE_ENDING: Final = ".qmd.j2"
#: Default number of parallel steps; more than 16 steps are no faster, and may open too many files.
_DEFAULT_JOBS: Final = min(os.cpu_count() or 1, 16)
#: Value of --use that means the newest record of each study.
LATEST: Final = "latest"
_EXAMPLES: Final = """\
examples:
  python build.py conv_scaling --html --explain
  python build.py --check && python build.py --pdf --out print
"""
#: Options in the format of ``report.core.system.commandline``.
_OPTIONS: Final = f"""
study  STUDY*  study, or its template (default: all studies)
inputs and outputs
--pdf  –  Make PDFs. If no format is given: PDFs and HTML pages.
--html  –  Make HTML pages.
--docx  –  Make Word documents.
--engine  auto|latex|typst|quarto [auto]  Make the PDFs with this program. auto uses LaTeX if
  its installation is complete, else Typst; quarto also makes a website.
--style  {"|".join(STYLES)}  Print in this style instead of the style of each paper.
--out  DIR  Write to this folder (default: out, beside build.py).
--data  DIR  Read records from this folder (default: data, beside build.py).
--jobs  COUNT  Run up to this many steps at a time (default: one per logical processor,
  at most 16).
--use  RECORD...  Use this record in this build for its machine, which gets a role (cpu, second or
  gpu) if it has none. RECORD is latest, a path, or a part of the file name. May be repeated. With
  --accept the record becomes part of the edition.
--replicate  RECORD*  Report which claims hold for these records, named as in --use. If none is
  named: for the newest record; with --data, for one record of each machine in that folder.
messages
-v, --explain  –  Explain why each step runs, and how each record is used.
-q, --quiet  –  Print errors and requested results only.
--debug  –  Print the traceback of an error.
commands, each in place of the build
--list  –  List the studies, or the first lines of --replicate.
--dry-run  –  Print what a build would run, and why.
--check  –  Exit with 1 if an output is stale, a verdict or an audit differs from the pinned one, a
  number differs although the records are the same, or a result is typed by hand. Writes nothing.
--accept  –  Pin the present numbers in expected/STUDY.json of the data directory, and write the
  records of --use to editions.yaml.
--verify  –  Build twice from nothing and compare every byte.
--verify-against  FILE  Build the papers of a site, whose MANIFEST.sha256 this is, and say of each
  file that differs whether its numbers do, its records, or only its bytes.
--diff  REV? [expected]  Compare the papers with those from a git revision or another data
  directory; without REV, compare the numbers with the pinned ones.
--artifact  –  Write out/artifact/STUDY: the archive of code, records and outputs, the appendix for
  evaluators, and the files by which it is cited.
--comparison  FILE  Write a page and a report of functions that «experiments compare» measured.
--watch  –  Build again and reload the page whenever a file changes (see --serve).
--serve  PORT? [{DEFAULT_PORT}]  Serve the pages on 127.0.0.1; 0 is any free port.
--new  SLUG,TITLE  Write the files of a new study that measures, builds and passes its tests.
"""
#: Options that replace the build by another command.  Together with --watch, --serve sets the port.
_ACTIONS: Final = (
    "list", "dry_run", "check", "accept", "verify", "verify_against", "artifact", "diff",
    "comparison", "new", "watch", "serve",
)  # fmt: skip
#: Commands that accept --use.
_ACCEPT_USE: Final = ("build", "dry_run", "watch", "accept")
#: Commands that accept --replicate.
_ACCEPT_REPLICATE: Final = ("build", "dry_run", "accept", "check", "list", "verify")


def parse(arguments: Sequence[str]) -> Namespace:
    """Parse the command line; the field ``action`` of the result is the command.

    Raises ``UsageError`` for unknown studies and for options that cannot be combined.
    """
    parser = Parser(
        prog="build.py",
        description="Build the papers from the records in the data directory. Only what is out of "
        "date is built.",
        epilog=_EXAMPLES,
    )
    parser.add_options(_OPTIONS, {"PORT": int, "REV": str})
    parser.set_defaults(
        **dict.fromkeys(_ACTIONS), out=ROOT / "out", data=ROOT / "data", jobs=_DEFAULT_JOBS
    )
    options = parser.parse_args(arguments)
    options.study = [_study(text) for text in options.study]
    actions = [name for name in _ACTIONS if getattr(options, name) is not None]
    options.action = actions[0] if actions else "build"
    names = [f"--{name.replace('_', '-')}" for name in actions]
    if len(actions) > 1 and actions != ["watch", "serve"]:
        raise UsageError(f"{names[0]} and {names[1]} cannot be combined; use one of them.")
    if options.use and options.action not in _ACCEPT_USE:
        raise UsageError(f"--use chooses records for a build; leave it out with {names[0]}.")
    if options.replicate is not None and options.action not in _ACCEPT_REPLICATE:
        raise UsageError(f"--replicate builds a report; leave it out with {names[0]}.")
    if options.replicate is not None and options.use:
        raise UsageError("--use changes a paper, and --replicate does not; use one of them.")
    return options


def _study(text: str) -> str:
    """Return the study of a name or a template's path; raise ``UsageError`` if there is none."""
    is_template = text.endswith(TEMPLATE_ENDING)
    study = Path(text).name.removesuffix(TEMPLATE_ENDING) if is_template else text
    if study in STUDIES:
        return study
    from difflib import get_close_matches

    similar = get_close_matches(study, STUDIES, n=1)
    question = f"did you mean {similar[0]}? The" if similar else "the"
    raise UsageError(f"No study {study!r}; {question} studies are {', '.join(STUDIES)}.")


def request_of(options: Namespace) -> BuildRequest:
    """Convert the command line to a request for a build.

    Raises ``RecordError`` for missing data or records, and ``UsageError`` for a folder that must
    not receive outputs.
    """
    data, out = Path(os.path.realpath(options.data)), Path(os.path.realpath(options.out))
    studies = _requested_studies(tuple(dict.fromkeys(options.study)), data)
    for folder in (*(ROOT / name for name in PROJECT_FOLDERS), data):
        if out.is_relative_to(folder) or folder.is_relative_to(out):
            raise UsageError(
                f"--out {options.out}: lies in or contains {folder}, which must not contain "
                "outputs; name a separate folder, such as out."
            )
    if options.replicate is None:
        use = named_records("--use", options.use, studies, data)
    else:
        if options.replicate or data == ROOT / "data":
            use = named_records("--replicate", options.replicate or [LATEST], studies, data)
        else:
            use = dict.fromkeys(studies, ())  # the report takes one record of each machine
        use = {f"{study}{REPORT_SUFFIX}": files for study, files in use.items()}
        studies = tuple(use)
    outputs = tuple(output for output in OUTPUTS if getattr(options, output)) or ("html", "pdf")
    engine, jobs, style = options.engine, options.jobs, options.style
    return BuildRequest(studies, outputs, out, engine, jobs, data, use=use, style=style)


def _requested_studies(named: tuple[str, ...], data: Path) -> tuple[str, ...]:
    """Return the ``named`` studies, or else all studies with records in ``data``, or else all.

    Raises ``RecordError`` if ``data`` is no folder.  In data other than the project's, also raises
    ``RecordError`` for a study without records, because an empty paper must not replace a full one.
    """
    is_project_data = data == ROOT / "data"
    if named and is_project_data:
        return named
    if not data.is_dir():
        raise RecordError(f"--data {data}: is no folder; name the folder that holds the records.")
    measured = []
    for study in STUDIES:
        folders = (data / study, data / study / IMPORTED)
        if any(any(folder.glob(f"*{ENDING}")) for folder in folders):
            measured.append(study)
    studies = named or tuple(measured) or STUDIES
    missing = [study for study in studies if study not in measured]
    if missing and not is_project_data:
        raise RecordError(
            f"--data {data}: holds no record of {', '.join(missing)}; name a folder of records, "
            "which holds a folder for each study."
        )
    return studies


def named_records(
    option: str, texts: Iterable[str], studies: Sequence[str], data: Path
) -> dict[str, tuple[str, ...]]:
    """Map studies to the records that ``texts`` name, as files relative to ``data``.

    A text is a path relative to the current folder or to ``data``, a part of a record's file name,
    or ``latest`` (the newest record of each of the ``studies``).  Raises ``RecordError``, with the
    name of the ``option``, if no record of the ``studies`` fits a text, or several records fit.
    """
    records: dict[str, list[str]] = {}
    for text in texts:
        if text != LATEST:
            file = _find_record(option, text, studies, data)
            records.setdefault(file.partition("/")[0], []).append(file)
            continue
        for study in studies:
            if newest := _records_of_study(study, data)[-1:]:
                records.setdefault(study, []).extend(newest)
        if not records:
            raise RecordError(
                f"{option} {LATEST}: no record of these studies in {data}; measure one first."
            )
    # Two texts may name one record.
    return {study: tuple(dict.fromkeys(files)) for study, files in records.items()}


def _find_record(option: str, text: str, studies: Sequence[str], data: Path) -> str:
    """Return the record that ``text`` names; raises ``RecordError`` as ``named_records`` does."""
    # Links to the folder are resolved, but not a record that is itself a link.
    paths = (path.parent.resolve() / path.name for path in (Path(text), data / text))
    path = next((path for path in paths if path.is_file()), None)
    matches = []
    for study in studies:
        for file in _records_of_study(study, data):
            is_match = data / file == path if path else text in file
            if is_match:
                matches.append(file)
    if len(matches) == 1:
        return matches[0]
    if matches:
        reason = f"{matches[0]} and {matches[1]} both contain this; give a longer part"
    else:
        reason = f"no record of {', '.join(studies)} in {data} is called so"
        reason += "; name another study, --data, or a part of the record's file name"
    raise RecordError(f"{option} {text}: {reason}.")


def _records_of_study(study: str, data: Path) -> list[str]:
    """List the records of a study, relative to ``data``, oldest first."""
    names = sorted(path.name for path in (data / study).glob(f"*{ENDING}"))
    return [f"{study}/{name}" for name in names if not name.startswith(".")]
