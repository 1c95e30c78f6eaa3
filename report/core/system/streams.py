"""Standard streams that never stop a command, and a check that packages are installed.

Output that cannot be written is dropped, so that a command can finish its work.  A command whose
result is the output calls ``check_output_written``, which fails if output was dropped.  Characters
outside the encoding of a stream are printed as escapes.
"""

import io
import os
import sys
from importlib.util import find_spec
from typing import Any

from report.core.errors import OutputError


class _LossyFile(io.FileIO):
    """A file that drops output that cannot be written.

    ``failure``: reason why output was dropped.  It is None if no output was dropped, or if the only
    reason is that the reader of a pipe has ended (as with ``| head``).
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
    """Open closed standard streams, and make output and error lossy; call before opening files."""
    for descriptor, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(descriptor)
        except OSError:
            # The stream is closed: the next opened file would get its descriptor, and printing
            # would write into that file.  Child processes need the descriptor too.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
        if name == "stdin":
            continue
        encoding = getattr(getattr(sys, name), "encoding", None) or "utf-8"
        file = _LossyFile(descriptor, "w", closefd=False)
        stream = io.TextIOWrapper(
            io.BufferedWriter(file),
            encoding,
            "backslashreplace",
            line_buffering=name == "stderr" or file.isatty(),
        )
        setattr(sys, name, stream)


def check_output_written() -> None:
    """Raise ``OutputError`` if standard output dropped a part of the output."""
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    raw = getattr(buffer, "raw", None)
    if failure := getattr(raw, "failure", None):
        raise OutputError(f"standard output: cannot be written ({failure}); send it elsewhere.")


def require_packages() -> None:
    """Exit with a message if the packages are missing, as without the virtual environment."""
    if find_spec("msgspec") is None:
        sys.exit(
            f"error: the packages of this project are not installed for {sys.executable}; run "
            "'source .venv/bin/activate' first, or install them as README.md says."
        )
