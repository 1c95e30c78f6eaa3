# PYTHON_ARGCOMPLETE_OK: a shell may ask this command how its line goes on.
"""Build the papers: ``python build.py [STUDY ...] [--pdf] [--html]``; see ``--help``."""

from __future__ import annotations

import signal

_ON_INTERRUPT = signal.getsignal(signal.SIGINT)
if __name__ == "__main__" and _ON_INTERRUPT is signal.default_int_handler:
    # While modules are imported there is nothing to tidy up, so that Ctrl-C just ends the command.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import sys

from report.system.streams import open_streams, require_packages

require_packages()

from report.commands.command import main

if __name__ == "__main__":
    signal.signal(signal.SIGINT, _ON_INTERRUPT)
    open_streams()
    sys.exit(main(sys.argv[1:]))
