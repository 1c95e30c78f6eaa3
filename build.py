# PYTHON_ARGCOMPLETE_OK: a shell may ask this command how its line goes on.
"""Build the papers: ``python build.py [STUDY ...] [--pdf] [--html]``; see ``--help``."""

from __future__ import annotations

import signal

_ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if __name__ == "__main__" and _ON_INTERRUPT is signal.default_int_handler:
    # While modules are imported there is nothing to tidy up, so that Ctrl-C just ends the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from report.system.streams import check_output, open_streams, require_packages

require_packages()

from report.commands.arguments import parse
from report.errors import RidgepointError

#: What is asked for → the module of report.commands that is then imported, and its function.
_ACTIONS: Final = {
    "build": "building.make",
    "version": "building.print_version",
    "list": "building.list_studies",
    "dry_run": "building.dry_run",
    "check": "check.check",
    "accept": "check.accept",
    "diff": "difference.diff",
    "verify": "verify.verify",
    "new": "new.new",
    "serve": "serve.serve",
    "watch": "serve.watch",
}
#: Those whose result is what they print; a build has made its papers whoever reads of it.
_RESULTS: Final = ("version", "list", "dry_run", "check", "diff", "verify")


def main(arguments: Sequence[str]) -> int:
    """Do what the command line asks for; returns the exit code."""
    try:
        options = parse(arguments)
        module, _, function = _ACTIONS[options.action].partition(".")
        code = getattr(import_module(f"report.commands.{module}"), function)(options)
        if options.action in _RESULTS:
            check_output()
        return int(code)
    except RidgepointError as error:
        if "--debug" in arguments:
            raise
        print("error:", error, file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130  # as a shell says of a command that was interrupted


if __name__ == "__main__":
    signal.signal(signal.SIGINT, _ON_INTERRUPT)
    open_streams()
    sys.exit(main(sys.argv[1:]))
