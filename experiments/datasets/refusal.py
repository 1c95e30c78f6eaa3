"""What is said when a file of images cannot be used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from report.errors import MeasurementError


class DataSetError(MeasurementError):
    """A file or folder of images cannot be used; the message says where, what, and what should."""


def refusal(path: Path, place: str, found: str, expected: str) -> DataSetError:
    """One sentence; ``place`` is a byte, a line and column, or empty for the file as a whole."""
    where = f"{path}: {place}" if place else f"{path}"
    return DataSetError(f"{where}: found {found}, expected {expected}.")


@contextmanager
def system_errors_named(path: Path) -> Iterator[None]:
    """Turn what the system says about ``path`` (no such file, no permission) into one sentence."""
    try:
        yield
    except OSError as error:
        raise DataSetError(f"{path}: cannot be read ({error.strerror or error}).") from error
