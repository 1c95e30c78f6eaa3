"""Build the papers: ``python build.py [STUDY ...] [--pdf] [--html]``; see ``--help``."""

from __future__ import annotations

import signal

_ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if __name__ == "__main__" and _ON_INTERRUPT is signal.default_int_handler:
    # While modules are imported there is nothing to tidy up, so that Ctrl-C just ends the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import argparse
import errno
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from report.engine.pipeline import ROOT, Announce, Explain, Output, Request, Summary, build, look
from report.errors import RidgepointError
from report.studies import STUDIES
from report.system.streams import check_output, open_streams

OUTPUTS: tuple[Output, ...] = ("html", "pdf")
_PORT = 8000
#: Files that a build holds open at once itself, and more with each job: pipes of its processes.
_OWN_FILES, _FILES_OF_A_JOB = 16, 12


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """The command line; exits with 2 if it cannot be understood."""
    parser = argparse.ArgumentParser(
        prog="build.py",
        description="Build the papers from the records in the data directory; only what changed.",
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
    parser.add_argument(
        "--use",
        action="append",
        default=[],
        metavar="RECORD",
        help="build from this record instead of the chosen ones of its device, this time only: a "
        "path, or a part of its file name; may be repeated",
    )
    parser.add_argument("--explain", action="store_true", help="say why each step is run")
    parser.add_argument(
        "--reported", action="store_true", help="with --new: also a file for published values"
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    _add_instead(parser)
    parser.add_argument(
        "--serve",
        type=int,
        nargs="?",
        const=_PORT,
        metavar="PORT",
        help=f"show the pages on 127.0.0.1 (port {_PORT}); 0 takes any free port",
    )
    options = parser.parse_args(arguments)
    for study in options.study:
        if study not in STUDIES:
            parser.error(f"no study {study!r}; the studies are {', '.join(STUDIES)}")
    if options.use and (other := _instead(options)) not in (None, *_BUILDING):
        parser.error(f"--use chooses records for a build alone; leave it out with --{other}")
    return options


def _instead(options: argparse.Namespace) -> str | None:
    """The option that says what to do instead of a plain build; None where there is none."""
    given = (name for name in ("list", *_ACTIONS) if getattr(options, name) is not None)
    return next((name for name in given if getattr(options, name) is not False), None)


def _add_instead(parser: argparse.ArgumentParser) -> None:
    """What is done instead of building, one at a time."""
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--list", action="store_true", help="list the studies and stop")
    instead.add_argument(
        "--new",
        nargs=2,
        metavar=("SLUG", "TITLE"),
        help="write the files of a study that measures, builds and passes its tests",
    )
    instead.add_argument(
        "--dry-run", action="store_true", help="say what would be run and why; write nothing"
    )
    instead.add_argument(
        "--check",
        action="store_true",
        help="exit with 1 if anything is stale, a verdict or an audit is not the expected one, or "
        "a result is typed by hand; write nothing",
    )
    instead.add_argument(
        "--accept",
        action="store_true",
        help="write today's verdicts and audits to expected.yaml in the data directory",
    )
    instead.add_argument(
        "--diff", metavar="REV", help="what a git revision, or another data directory, changes"
    )
    instead.add_argument(
        "--verify", action="store_true", help="build twice from nothing and compare every byte"
    )
    instead.add_argument(
        "--watch", action="store_true", help="rebuild on change and reload the page (see --serve)"
    )


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, found {text!r}")
    return int(text)


def request_of(options: argparse.Namespace) -> Request:
    """What the command line asks for; both formats when neither is named.

    Raises ``RecordError`` for a record that is not there.
    """
    named = tuple(output for output in OUTPUTS if getattr(options, output))
    studies = tuple(dict.fromkeys(options.study)) or tuple(STUDIES)
    return Request(
        studies=studies,
        outputs=named or OUTPUTS,
        out=options.out.resolve(),
        engine=options.engine,
        jobs=min(options.jobs, most_jobs()),
        data=options.data.resolve(),
        use=_asked(options, studies),
    )


def _asked(options: argparse.Namespace, studies: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """The records that --use names, by study; raises ``RecordError``."""
    if not options.use:
        return {}
    from report.engine.asked import asked_records

    return asked_records(options.use, studies, options.data.resolve(), Path.cwd())


def most_jobs() -> int:
    """How many jobs can run at a time with the files that a process may open at once."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return sys.maxsize
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return sys.maxsize
    return max(1, (files - _OWN_FILES) // _FILES_OF_A_JOB)


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


def explainer(options: argparse.Namespace) -> Explain | None:
    """Prints each step that is run, and why, if that was asked."""
    if not options.explain:
        return None
    return lambda step, why: print(f"{step.id}: {'; '.join(why)}")


def make(options: argparse.Namespace) -> int:
    """Build, and print what was made and what failed; returns the exit code."""
    request = request_of(options)
    summary = build(request, announcer(), explainer(options))
    _clear_line()
    for path in summary.made:
        if not any(part.startswith(".") for part in path.relative_to(request.out).parts):
            print(_shown(path))
    if not summary.outcomes:
        print(f"Nothing to do: {len(request.studies)} papers are up to date.")
    _print_notices(summary, request)
    for outcome in summary.failed:
        print(f"error: {outcome.failure}", file=sys.stderr)
        if options.debug:
            print(outcome.trace, end="", file=sys.stderr)
    return 1 if summary.failed else 0


def _print_notices(summary: Summary, request: Request) -> None:
    for notice in summary.notices:
        print(f"note: {notice}")
    if "pdf" in request.outputs:
        print(summary.engine)


def _clear_line() -> None:
    """Take away the line of progress."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def _shown(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def new(options: argparse.Namespace) -> int:
    """Write the files of a study, and say what to run next."""
    from report.commands.new import new_study, next_commands

    slug, title = options.new
    for path in new_study(slug, title, reported=options.reported):
        print(_shown(path))
    print("\nNext:", *next_commands(slug), sep="\n  ")
    return 0


def tell(options: argparse.Namespace) -> int:
    """Print what a build would run, and why."""
    found = look(request_of(options))
    for verdict in found.stale:
        after = f"if {', '.join(verdict.after)} makes something else"
        print(f"{verdict.step.id}: {'; '.join(verdict.reasons) or after}")
    if not found.stale:
        print("Nothing to do.")
    return 0


def check(options: argparse.Namespace) -> int:
    """Print what is stale or not as expected; returns 1 if anything is."""
    from report.commands.check import faults

    found = faults(request_of(options))
    for fault in found:
        print(fault)
    return 1 if found else 0


def accept(options: argparse.Namespace) -> int:
    """Write down today's verdicts and audits as the expected ones."""
    from report.commands.check import accept_results

    print(_shown(accept_results(request_of(options))))
    return 0


def differ(options: argparse.Namespace) -> int:
    """Print what other data would make the papers say, and write the page that shows it."""
    from report.commands.difference import difference

    found = difference(request_of(options), options.diff, announcer())
    _clear_line()
    print(found.text)
    if options.debug:
        print("".join(found.traces), end="", file=sys.stderr)
    return found.exit_code


def verify_twice(options: argparse.Namespace) -> int:
    """Build twice from nothing, and print whether the bytes are the same."""
    from report.commands.verify import verify

    found = verify(request_of(options), ROOT, announcer())
    _clear_line()
    print("\n".join(found.lines()))
    return found.code


def show(options: argparse.Namespace) -> int:
    """Serve the pages on this machine until Ctrl-C."""
    from report.commands.serve import serve

    serve(request_of(options).out, options.serve, _say)
    return 0


def watch(options: argparse.Namespace) -> int:
    """Build now and whenever a file changes, and keep the pages in the browser up to date."""
    from report.commands.watch import changes, rebuild_command, states, watch_and_serve

    request = request_of(options)
    changed = changes(lambda: states(ROOT, request.data))
    port = _PORT if options.serve is None else options.serve

    def rebuild() -> str | None:
        # A new announcer each time: it counts the time from when it was made.
        return rebuild_command(_again(request), ROOT, announcer())()

    watch_and_serve(request.out, port, rebuild, changed, _say)
    return 0


def _say(text: str) -> None:
    """Print a line at once, also into a pipe."""
    _clear_line()
    print(text, flush=True)


def _again(request: Request) -> list[str]:
    """The same build as a command of its own."""
    named = [f"--{output}" for output in request.outputs]
    paths = ["--out", str(request.out), "--data", str(request.data), "--jobs", str(request.jobs)]
    asked = [str(request.data / file) for files in request.use.values() for file in files]
    use = [word for path in asked for word in ("--use", path)]
    return [*request.studies, *named, "--engine", request.engine, *paths, *use]


def command(options: argparse.Namespace) -> int:
    """Do what the options ask for; returns the exit code."""
    instead = _instead(options)
    if instead == "list":
        print("\n".join(STUDIES))
        return 0
    return (_ACTIONS[instead] if instead else make)(options)


#: What each option does instead of a build; --watch comes first, since --serve may name its port.
_ACTIONS: dict[str, Callable[[argparse.Namespace], int]] = {
    "new": new,
    "dry_run": tell,
    "check": check,
    "accept": accept,
    "diff": differ,
    "verify": verify_twice,
    "watch": watch,
    "serve": show,
}

#: What builds, or says what a build would do, so that --use applies; all else tells of the data as
#: they are.
_BUILDING = ("dry_run", "watch")

#: Options whose result is what is printed; a build has made its papers whoever reads of it.
_RESULTS = ("list", "dry_run", "check", "diff", "verify")
_TOO_MANY_FILES = (
    "too many files are open at once; raise the limit ('ulimit -n 1024') or close some."
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    options = parse(arguments)
    try:
        code = command(options)
        if any(getattr(options, name) for name in _RESULTS):
            check_output()
        return code
    except RidgepointError as error:
        if options.debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        if options.debug or error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        print(f"error: {_TOO_MANY_FILES}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130  # as a shell says of a command that was interrupted


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _ON_INTERRUPT)
    open_streams()
    sys.exit(main(sys.argv[1:]))
