"""Standard streams that never stop a command, and a check that packages are installed.

Output that cannot be written is dropped, so that work continues.  Commands whose output is the
result call ``check_output`` to fail.  Characters outside the encoding are printed as escapes.
"""

import io
import os
import sys
from importlib.util import find_spec
from typing import Any

from report.core.errors import OutputError


class _Lossy(io.FileIO):
    """A file that drops output that cannot be written.

    ``failure`` is the reason; None if only the reader of a pipe has ended.
    """

    failure: str | None = None

    def write(self, data: Any) -> int:
        try:
            return super().write(data) or len(data)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.failure = error.strerror
            return len(data)


def open_streams() -> None:
    """Make standard output and error usable; call this before any file is opened."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # Otherwise the next opened file would get this descriptor, and printing would write
            # into that file.  Child processes need the descriptor too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if name == "stdin":
            continue
        encoding = getattr(getattr(sys, name), "encoding", None) or "utf-8"
        raw = _Lossy(descriptor, "w", closefd=False)
        by_line = name == "stderr" or raw.isatty()
        writer = io.BufferedWriter(raw)
        stream = io.TextIOWrapper(writer, encoding, "backslashreplace", line_buffering=by_line)
        setattr(sys, name, stream)


def check_output() -> None:
    """Raise ``OutputError`` if part of the standard output was lost."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", None)
    if failure := getattr(raw, "failure", None):
        raise OutputError(f"standard output: cannot be written ({failure}); send it elsewhere.")


def require_packages() -> None:
    """Exit with one sentence if packages are missing (virtual environment not activated)."""
    if find_spec("msgspec") is None:
        sys.exit(
            f"error: the packages of this project are not installed for {sys.executable}; run "
            "'source .venv/bin/activate' first, or install them as README.md says."
        )
