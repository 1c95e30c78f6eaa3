"""What surrounds a command: its packages, and streams that lead wherever they may.

The work matters more than what is said of it, so that output that cannot be written is dropped.
Where the output is the result, ``check_output`` lets the command fail.  Characters that the
encoding lacks are named by their numbers.
"""

from __future__ import annotations

import io
import os
import sys
from importlib.util import find_spec
from typing import Any

from report.core.errors import OutputError


class _Lossy(io.FileIO):
    """A file that drops what it cannot write; ``failure`` is why, but for a reader that is gone."""

    failure: str | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.failure = error.strerror
            return len(data)


def open_streams() -> None:
    """Make the standard output and error usable; call this before any file is opened."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # Else it would be the number of the next file, and what is printed end up in that.
            # Programs that this one starts need it too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if number:
            encoding = getattr(getattr(sys, name), "encoding", None) or "utf-8"
            raw = _Lossy(number, "w", closefd=False)
            lines = number == 2 or raw.isatty()
            writer = io.BufferedWriter(raw)
            stream = io.TextIOWrapper(writer, encoding, "backslashreplace", line_buffering=lines)
            setattr(sys, name, stream)


def check_output() -> None:
    """Raise ``OutputError`` if some of the standard output, which is a result, was lost."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if failure := getattr(raw, "failure", None):
        raise OutputError(f"standard output: cannot be written ({failure}); send it elsewhere.")


def require_packages() -> None:
    """Exit with one sentence where they are not there, as before ``source .venv/bin/activate``."""
    if find_spec("msgspec") is None:
        sys.exit(
            f"error: the packages of this project are not installed for {sys.executable}; run "
            "'source .venv/bin/activate' first, or install them as README.md says."
        )
