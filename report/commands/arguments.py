"""The command line of ``build.py``: what may be asked, and what was."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from report.engine.pipeline import ROOT
from report.render import STYLES
from report.studies import STUDIES
from report.system.streams import complete

PORT: Final = 8000
#: More processes than this win nothing, and open more files than some systems allow.
_JOBS: Final = min(os.cpu_count() or 1, 16)
#: How the names of papers' templates end.
TEMPLATE: Final = ".qmd.j2"
#: What is done instead of a plain build, with what the help says of it.
_INSTEAD: Final = {
    "version": "print the version and stop",
    "list": "list the studies and stop",
    "dry-run": "say what would be run and why; write nothing",
    "check": "exit with 1 if anything is stale, a verdict or an audit is not the expected one, or "
    "a result is typed by hand; write nothing",
    "accept": "write today's verdicts and audits to expected.yaml in the data directory, and the "
    "records of --use to editions.yaml",
    "verify": "build twice from nothing and compare every byte",
    "watch": "rebuild on change and reload the page (see --serve)",
}
#: What --use applies to beside a build; all else tells of the data as they are.
_USING: Final = ("dry-run", "watch", "accept")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with 2 if it cannot be understood."""
    parser = argparse.ArgumentParser(
        prog="build.py",
        description="Build the papers from the records in the data directory; only what changed.",
        epilog="examples: python build.py conv_scaling --html --explain; "
        "python build.py --check && python build.py --pdf --out print",
        # Asked for the width of the terminal, argparse imports as much as all else here.
        formatter_class=partial(argparse.HelpFormatter, width=100),
    )
    _add_what(parser.add_argument_group("what is built, from what, and where"))
    _add_how(parser.add_argument_group("what is said, and whether pages are shown"))
    _add_instead(parser.add_argument_group("instead of a build"))
    complete(parser)
    options = parser.parse_args(arguments)
    options.study = [_study(word) for word in options.study]
    for study in options.study:
        if study not in STUDIES:
            parser.error(_no_study(study))
    if options.use and (other := instead(options)) not in (None, *_USING):
        parser.error(f"--use chooses records for a build; leave it out with --{other}")
    return options


def _add_what(parser: argparse._ArgumentGroup) -> None:
    """What is built, from what, and into which folder."""
    study = parser.add_argument(
        "study", nargs="*", help="the studies to build, or their templates (default: all)"
    )
    study.completer = lambda **_: STUDIES  # type: ignore[attr-defined]  # argcomplete asks for it
    parser.add_argument("--pdf", action="store_true", help="make PDFs (default: both formats)")
    parser.add_argument("--html", action="store_true", help="make HTML pages")
    parser.add_argument(
        "--engine",
        choices=("auto", "latex", "typst"),
        default="auto",
        help="what makes the PDFs; auto takes LaTeX where it is complete, else Typst",
    )
    parser.add_argument(
        "--style", choices=STYLES, help="print in this style instead of that of each paper"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="where to write (out)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where records lie (data)")
    parser.add_argument(
        "--jobs", type=_positive, default=_JOBS, metavar="N", help="papers made at a time"
    )
    parser.add_argument(
        "--use",
        action="append",
        default=[],
        metavar="RECORD",
        help="build with this record in the role that fits its machine, this time only: latest, a "
        "path, or a part of its file name; may be repeated; with --accept it becomes the edition",
    )


def _add_how(parser: argparse._ArgumentGroup) -> None:
    """What is said meanwhile, and whether the pages are shown."""
    parser.add_argument(
        "-v",
        "--explain",
        action="store_true",
        help="say why each step is run, and what became of each record",
    )
    parser.add_argument(
        "-q", "--quiet", action="store_true", help="say nothing but errors and what was asked for"
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument(
        "--serve",
        type=int,
        nargs="?",
        const=PORT,
        metavar="PORT",
        help=f"show the pages on 127.0.0.1 (port {PORT}); 0 takes any free port",
    )


def instead(options: argparse.Namespace) -> str | None:
    """The option that says what to do instead of a plain build; None where there is none."""
    given = (name for name in ("new", "diff", "serve") if getattr(options, name) is not None)
    return options.instead or next(given, None)


def _add_instead(parser: argparse._ArgumentGroup) -> None:
    """What is done instead of building, one at a time."""
    group = parser.add_mutually_exclusive_group()
    for name, words in _INSTEAD.items():
        group.add_argument(
            f"--{name}", dest="instead", action="store_const", const=name, help=words
        )
    group.add_argument(
        "--new",
        nargs=2,
        metavar=("SLUG", "TITLE"),
        help="write the files of a study that measures, builds and passes its tests",
    )
    group.add_argument(
        "--diff", metavar="REV", help="what a git revision, or another data directory, changes"
    )


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {text!r}")
    return int(text)


def _study(word: str) -> str:
    """The study that ``word`` means: its name, or the path of its template."""
    return Path(word).name.removesuffix(TEMPLATE) if word.endswith(TEMPLATE) else word


def _no_study(study: str) -> str:
    """That there is no such study, and which one may have been meant."""
    from difflib import get_close_matches

    near = get_close_matches(study, STUDIES, n=1)
    meant = f"did you mean {near[0]}? The" if near else "the"
    return f"no study {study!r}; {meant} studies are {', '.join(STUDIES)}"


def listed() -> Iterator[str]:
    """Each study with the title of its paper, where its template gives one."""
    width = max(map(len, STUDIES))
    for study in STUDIES:
        template = ROOT / "templates" / "papers" / f"{study}{TEMPLATE}"
        text = template.read_text("utf-8") if template.is_file() else ""
        found = re.search(r"^title: *(.+)$", text, re.MULTILINE)
        title = found[1].strip("\"' ") if found else ""
        title = re.sub(r"\{[{%].*[}%]\}", "…", title)  # what a build fills in
        yield f"{study:{width}}  {title}".rstrip()


def version() -> str:
    """``ridgepoint 0.1.0``, as pyproject.toml has it; the project is used from its checkout."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    found = re.search(r'^version = "(.+)"$', text, re.MULTILINE)
    return f"ridgepoint {found[1] if found else 'of an unknown version'}"
