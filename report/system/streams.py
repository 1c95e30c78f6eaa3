"""What surrounds a command: its packages, and streams that lead wherever they may.

The work matters more than what is said of it, so that output that cannot be written is dropped.
Where the output is the result, ``check_output`` lets the command fail.  A stream that is closed
leads to the null device: its number would else go to the next file that is opened, and what is
printed would end up in that file.  Characters that the encoding lacks are named by their numbers.
"""

from __future__ import annotations

import io
import os
import sys
from importlib.util import find_spec
from typing import IO, Any

from report.errors import OutputError


class _Lossy(io.FileIO):
    """A file that drops what it cannot write; ``failure`` is why, but for a reader that is gone."""

    failure: str | None = None

    def write(self, data: Any) -> int:
        try:
            written = super().write(data)
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                self.failure = error.strerror
            return len(data)
        return len(data) if written is None else written


def open_streams() -> None:
    """Make the three standard streams usable; call this before any file is opened."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lower numbers are open, so that this one is next.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout, sys.stderr = _writer(1, sys.stdout), _writer(2, sys.stderr)


def check_output() -> None:
    """Raise ``OutputError`` if some of the standard output, which is a result, was lost."""
    sys.stdout.flush()
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Lossy) and raw.failure is not None:
        raise OutputError(f"standard output: cannot be written ({raw.failure}); send it elsewhere.")


def _writer(number: int, old: IO[str] | None) -> io.TextIOWrapper:
    encoding = getattr(old, "encoding", None) or "utf-8"
    raw = _Lossy(number, "w", closefd=False)
    lines = number == 2 or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, "backslashreplace", None, lines)


def require_packages() -> None:
    """Exit with one sentence where they are not there, as before ``source .venv/bin/activate``."""
    if find_spec("msgspec") is None:
        sys.exit(
            f"error: the packages of this project are not installed for {sys.executable}; run "
            "'source .venv/bin/activate' first, or install them as README.md says."
        )
