"""Build the papers: ``python build.py [STUDY ...] [--pdf] [--html]``; see ``--help``."""

from __future__ import annotations

import signal

_ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if __name__ == "__main__" and _ON_INTERRUPT is signal.default_int_handler:
    # While modules are imported there is nothing to tidy up, so that Ctrl-C just ends the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from report.core.system.streams import check_output, open_streams, require_packages

require_packages()

from report.commands import summary
from report.commands.arguments import parse, request_of
from report.commands.console import announcer, clear_line
from report.core.errors import RidgepointError, UsageError
from report.engine import pipeline

#: What is asked for instead of a build → the module of report.commands that is then imported, and
#: its function.
_INSTEAD: Final = {
    "list": "summary.list_studies",
    "check": "check.check",
    "accept": "check.accept",
    "diff": "difference.diff",
    "verify": "verify.verify",
    "new": "new.new",
    "serve": "serve.serve",
    "watch": "serve.watch",
}
#: Those whose result is what they print; a build has made its papers whoever reads of it.
_RESULTS: Final = ("list", "dry_run", "check", "diff", "verify")


def make(options: Namespace) -> int:
    """Build, and print what was made and what failed; returns the exit code."""
    request, start = request_of(options), time.monotonic()
    done = pipeline.build(request, announcer(quiet=options.quiet, explain=options.explain))
    clear_line()
    for failure in done.failed:
        print("error:", failure.sentence, file=sys.stderr)
        if options.debug:
            print(failure.trace, end="", file=sys.stderr)
    if not options.quiet:
        seconds = time.monotonic() - start
        print(*summary.lines(request, done, seconds, explain=options.explain), sep="\n")
    return 1 if done.failed else 0


def dry_run(options: Namespace) -> int:
    """Print what a build would run, and why."""
    stale = pipeline.look(request_of(options)).stale()
    print("\n".join(f"{step}: {why}" for step, why in stale.items()) or "Nothing to do.")
    return 0


def act(options: Namespace) -> int:
    """Do what the options ask for; returns the exit code."""
    if options.action in _INSTEAD:
        module, _, function = _INSTEAD[options.action].partition(".")
        return int(getattr(import_module(f"report.commands.{module}"), function)(options))
    return dry_run(options) if options.action == "dry_run" else make(options)


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    try:
        options = parse(arguments)
        code = act(options)
        if options.action in _RESULTS:
            check_output()
        return code
    except RidgepointError as error:
        if "--debug" in arguments and not isinstance(error, UsageError):
            raise
        print("error:", error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130  # as a shell says of a command that was interrupted


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _ON_INTERRUPT)
    open_streams()
    sys.exit(main(sys.argv[1:]))
