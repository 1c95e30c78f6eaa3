"""The command line of ``build.py``: what may be asked, and what was."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from report.core.errors import RecordError, UsageError
from report.core.records import ENDING, IMPORTED
from report.core.system.commandline import Parser
from report.engine.pipeline import ROOT, Output, Request
from report.render import STYLES
from report.studies import STUDIES

PORT: Final = 8000
OUTPUTS: Final[tuple[Output, ...]] = ("html", "pdf", "docx")
#: What is built where none is named.
_USUAL: Final[tuple[Output, ...]] = ("html", "pdf")
#: The folders of the project, none of which is for outputs.
PROJECT: Final = (
    *(".ci", ".git", ".github", ".venv", "LICENSES", "benchmarks", "data", "docs", "experiments"),
    *("figures", "report", "templates", "tests"),
)
#: How the names of papers' templates end.
TEMPLATE: Final = ".qmd.j2"
#: More processes than this win nothing, and open more files than some systems allow.
_JOBS: Final = min(os.cpu_count() or 1, 16)
_OPTIONS: Final = f"""
study  STUDY*  the studies to build, or their templates; default: all
what is built, from what, and where
--pdf  –  make PDFs; default: PDFs and pages
--html  –  make HTML pages
--docx  –  make Word documents
--engine  auto|latex|typst|quarto [auto]  what makes the PDFs; auto takes LaTeX where it is
  complete; quarto makes a site of its own too
--style  {"|".join(STYLES)}  print in this style instead of that of each paper
--out  DIR  where to write; default: out, beside build.py
--data  DIR  where records lie; default: data, beside build.py
--jobs  COUNT  steps run at a time; default: as many as there are cores, at most 16
--use  RECORD...  build with this record in the role that fits its machine, this time only: latest,
  a path, or a part of its file name; may be repeated; with --accept it becomes the edition
what is said
-v, --explain  –  say why each step is run, and what became of each record
-q, --quiet  –  say nothing but errors and what was asked for
--debug  –  show the traceback of an error
instead of a build, one of
--list  –  list the studies and stop
--dry-run  –  say what would be run and why; write nothing
--check  –  exit with 1 if anything is stale, a verdict or an audit is not the pinned one, a number
  moved though the records are the same, or a result is typed by hand; write nothing
--accept  –  pin the numbers of today in expected/STUDY.json of the data directory, and write the
  records of --use to editions.yaml
--verify  –  build twice from nothing and compare every byte
--diff  REV? [expected]  what a git revision, or another data directory, changes; without one, all
  numbers that are not the pinned ones
--watch  –  rebuild on change and reload the page (see --serve)
--serve  PORT? [{PORT}]  show the pages on 127.0.0.1; 0 takes any free port
--new  SLUG,TITLE  write the files of a study that measures, builds and passes its tests
"""
_EXAMPLES: Final = """\
examples:
  python build.py conv_scaling --html --explain
  python build.py --check && python build.py --pdf --out print
"""
#: What is done instead of a plain build; --serve may also say where --watch shows the pages.
_ACTIONS: Final = (
    *("list", "dry_run", "check", "accept", "verify", "diff", "new", "watch", "serve"),
)
#: What --use applies to beside a build; all else tells of the data as they are.
_USING: Final = ("build", "dry_run", "watch", "accept")


def parse(arguments: Sequence[str]) -> Namespace:
    """The command line, with what it asks to do as ``action``; raises ``UsageError``."""
    options = _parser().parse_args(arguments)
    options.study = [_study(word) for word in options.study]
    given = [name for name in _ACTIONS if getattr(options, name) is not None]
    options.action = given[0] if given else "build"
    words = [f"--{name.replace('_', '-')}" for name in given]
    if given[1:] and given != ["watch", "serve"]:
        raise UsageError(f"{words[1]} is not possible together with {words[0]}; give one of them.")
    if options.use and options.action not in _USING:
        raise UsageError(f"--use chooses records for a build; leave it out with {words[0]}.")
    return options


def _parser() -> Parser:
    parser = Parser(
        prog="build.py",
        description="Build the papers from the records in the data directory; only what changed.",
        epilog=_EXAMPLES,
    )
    parser.add_options(_OPTIONS, {"PORT": int, "REV": str})
    parser.set_defaults(out=ROOT / "out", data=ROOT / "data", jobs=_JOBS)
    parser.set_defaults(**dict.fromkeys(_ACTIONS))
    return parser


def _study(word: str) -> str:
    """The study that ``word`` means, its name or the path of its template."""
    study = Path(word).name.removesuffix(TEMPLATE) if word.endswith(TEMPLATE) else word
    if study in STUDIES:
        return study
    from difflib import get_close_matches

    near = get_close_matches(study, STUDIES, n=1)
    meant = f"did you mean {near[0]}? The" if near else "the"
    raise UsageError(f"No study {study!r}; {meant} studies are {', '.join(STUDIES)}.")


def _resolved(option: str, folder: Path) -> Path:
    try:
        return folder.resolve()
    except (OSError, RuntimeError):  # links in a ring
        raise UsageError(
            f"{option} {folder}: is a link that leads to itself; name another."
        ) from None


def _measured(studies: tuple[str, ...], data: Path) -> tuple[str, ...]:
    """The ``studies`` that a folder of records is for, by default all that it has records of.

    Raises ``RecordError`` where it has none: an empty paper must not replace a full one.
    """
    if not data.is_dir():
        raise RecordError(f"--data {data}: is no folder; name the folder that holds the records.")
    folders = {study: (data / study, data / study / IMPORTED) for study in STUDIES}
    measured = [s for s in STUDIES if any(any(f.glob(f"*{ENDING}")) for f in folders[s])]
    if lacking := [study for study in studies or measured or STUDIES if study not in measured]:
        raise RecordError(
            f"--data {data}: holds no record of {', '.join(lacking)}; name a folder of records, "
            "which holds a folder for each study."
        )
    return studies or tuple(measured)


def request_of(options: Namespace) -> Request:
    """What the command line asks to build; PDFs and pages when no format is named.

    Raises ``RecordError`` for data or a record that are not there, and ``UsageError`` for a folder
    that is no output.
    """
    data, out, use = _resolved("--data", options.data), _resolved("--out", options.out), {}
    asked = tuple(dict.fromkeys(options.study))
    studies = asked or STUDIES
    if data != ROOT / "data":
        studies = _measured(asked, data)
    for folder in (*(ROOT / name for name in PROJECT), data):
        inside = out.is_relative_to(folder)
        if inside or folder.is_relative_to(out):
            raise UsageError(
                f"--out {options.out}: {'lies in' if inside else 'contains'} {folder}, which holds "
                "no outputs; name a folder of its own, such as out."
            )
    if options.use:
        from report.commands.use import named_records

        use = named_records(options.use, studies, data, Path.cwd())
    return Request(
        studies=studies,
        outputs=tuple(output for output in OUTPUTS if getattr(options, output)) or _USUAL,
        out=out,
        engine=options.engine,
        jobs=options.jobs,
        data=data,
        use=use,
        style=options.style,
    )
