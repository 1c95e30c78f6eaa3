"""Build the papers: ``python build.py [STUDY ...] [--pdf] [--html]``; see ``--help``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from report.errors import RidgepointError
from report.pipeline import ROOT, Announce, Output, Request, Summary, build
from report.studies import STUDIES

OUTPUTS: tuple[Output, ...] = ("html", "pdf")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with 2 if it cannot be understood."""
    parser = argparse.ArgumentParser(
        prog="build.py", description="Build the papers from the records in the data directory."
    )
    parser.add_argument("study", nargs="*", help="the studies to build (default: all)")
    parser.add_argument("--pdf", action="store_true", help="make PDFs (default: both formats)")
    parser.add_argument("--html", action="store_true", help="make HTML pages")
    parser.add_argument(
        "--engine",
        choices=("auto", "latex", "typst", "quarto"),
        default="auto",
        help="what makes the PDFs; auto takes LaTeX where it is complete, else Typst",
    )
    parser.add_argument("--out", type=Path, default=ROOT / "out", help="where to write (out)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="where records lie (data)")
    parser.add_argument("--jobs", type=_positive, default=os.cpu_count() or 1, metavar="N")
    parser.add_argument("--list", action="store_true", help="list the studies and stop")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    options = parser.parse_args(arguments)
    for study in options.study:
        if study not in STUDIES:
            parser.error(f"no study {study!r}; the studies are {', '.join(STUDIES)}")
    return options


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {text!r}")
    return int(text)


def request_of(options: argparse.Namespace) -> Request:
    """What the command line asks for; both formats when neither is named."""
    named = tuple(output for output in OUTPUTS if getattr(options, output))
    return Request(
        studies=tuple(dict.fromkeys(options.study)) or tuple(STUDIES),
        outputs=named or OUTPUTS,
        out=options.out.resolve(),
        engine=options.engine,
        jobs=options.jobs,
        data=options.data.resolve(),
    )


def announcer() -> Announce:
    """Shows each step with the time left, on the standard error.

    In a terminal the line is overwritten; elsewhere, such as in a log, each step is a line.
    """
    live, start = sys.stderr.isatty(), time.monotonic()

    def announce(words: str, share: float) -> None:
        elapsed = time.monotonic() - start
        known = 0 < share < 1 and elapsed >= 1
        left = f", about {elapsed * (1 - share) / share:.0f} s left" if known else ""
        text = f"[{share:4.0%}] {words}{left}"
        sys.stderr.write(f"\r\x1b[K{text}" if live else f"{text}\n")
        sys.stderr.flush()

    return announce


def report(summary: Summary, request: Request, debug: bool) -> int:
    """Print what was made and what failed; returns the exit code."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    for path in (*(path for built in summary.studies for path in built.made), *summary.shared):
        print(_shown(path))
    for notice in dict.fromkeys(n for built in summary.studies for n in built.notices):
        print(f"note: {notice}")
    if "pdf" in request.outputs:
        print(summary.engine)
    for built in summary.failed:
        print(f"error: {built.failure}", file=sys.stderr)
        if debug:
            print(built.traceback, end="", file=sys.stderr)
    return 1 if summary.failed else 0


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    options = parse(arguments)
    if options.list:
        print("\n".join(STUDIES))
        return 0
    request = request_of(options)
    try:
        return report(build(request, announcer()), request, options.debug)
    except RidgepointError as error:
        if options.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
