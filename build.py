"""Build the papers: ``python build.py [STUDY ...] [--pdf] [--html]``; see ``--help``."""

import gc
import signal

_SIGINT_HANDLER = signal.getsignal(signal.SIGINT)
if __name__ == "__main__":
    # Searching for cycles would take a twentieth of the time of a build with nothing to do.
    gc.disable()
    if _SIGINT_HANDLER is signal.default_int_handler:
        # During the imports below Ctrl-C ends the process at once, without a traceback.
        signal.signal(signal.SIGINT, signal.SIG_DFL)

import os
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from report.core.system.streams import check_output_written, open_streams, require_packages

require_packages()

from report.commands.arguments import parse, request_of
from report.commands.console import announcer, clear_line, summary_lines
from report.core.errors import RidgepointError, UsageError
from report.engine.build import build
from report.engine.plan import plan

#: Command → «module.function» in ``report.commands``; the module is imported when needed.
_COMMANDS: Final = {
    "list": "console.list_studies",
    "check": "check.check",
    "accept": "check.accept",
    "diff": "difference.diff",
    "comparison": "comparison.comparison",
    "verify": "verify.verify",
    "verify_against": "verify.verify_against",
    "artifact": "artifact.artifact",
    "new": "new.new",
    "serve": "serve.serve",
    "watch": "serve.watch",
}
#: Commands whose result is the printed output; these fail if it cannot be printed.
_PRINTING_COMMANDS: Final = ("list", "dry_run", "check", "diff", "verify", "verify_against")


def make(options: Namespace) -> int:
    """Build the papers, and print a summary and the failures; return 1 if a step failed, else 0."""
    start = time.monotonic()
    request = request_of(options)
    summary = build(request, announcer(quiet=options.quiet, explain=options.explain))
    clear_line()
    for failure in summary.failed:
        print("error:", failure.sentence, file=sys.stderr)
        if options.debug:
            print(failure.trace, end="", file=sys.stderr)
    if not options.quiet:
        seconds = time.monotonic() - start
        for line in summary_lines(summary, seconds, explain=options.explain):
            print(line)
    return 1 if summary.failed else 0


def dry_run(options: Namespace) -> int:
    """Print the steps that a build would run, each with the reason; return the exit code 0."""
    stale = plan(request_of(options)).stale()
    for step, reason in stale.items():
        print(f"{step}: {reason}")
    if not stale:
        print("Nothing to do.")
    return 0


def run_command(options: Namespace) -> int:
    """Run the requested command (without a command: build the papers); return the exit code."""
    if options.action == "build":
        return make(options)
    gc.enable()  # other commands may run for long
    if options.action == "dry_run":
        return dry_run(options)
    module_name, function_name = _COMMANDS[options.action].split(".")
    module = import_module(f"report.commands.{module_name}")
    return int(getattr(module, function_name)(options))


def main(arguments: Sequence[str]) -> int:
    """Run the command line and print errors; return the exit code."""
    try:
        options = parse(arguments)
        code = run_command(options)
        if options.action in _PRINTING_COMMANDS:
            check_output_written()
        return code
    except RidgepointError as error:
        if "--debug" in arguments and not isinstance(error, UsageError):
            raise
        print("error:", error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130  # the exit code that shells use for an interrupted command


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _SIGINT_HANDLER)
    open_streams()
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(exit_code)  # freeing every object would take a tenth of a build with nothing to do
