"""Open and unpack files of the data directory, and read CSV tables.

All other code opens files of the data directory through this module.
"""

import csv
import gzip
import io
import os
import stat
import zlib
from pathlib import Path
from typing import BinaryIO, Final, TypeVar

import msgspec

from report.core.errors import RecordError

#: The data directory of this project.
PROJECT_DATA: Final = Path(__file__).resolve().parents[3] / "data"
#: Limit on an unpacked file (B), since a small packed file may unpack to any size.
LARGEST_UNPACKED: Final = 2**28
#: Level of gzip; the highest level makes files 5 % smaller in three times the time.
_COMPRESSION: Final = 6
#: First bytes of every gzipped file.
_GZIP: Final = b"\x1f\x8b"
#: Suffix of the file names of tables.
TABLE: Final = ".csv"
_RESTORE: Final = "restore the file with git"

Row = TypeVar("Row")


def shared(name: str, data: Path) -> Path:
    """Return the path of the file ``name`` in ``data``; if missing, in the project's data.

    A data directory may thus contain records only; published values, data sheets and literature
    then come from the project.
    """
    own = data / name
    return own if os.path.lexists(own) else PROJECT_DATA / name


def read_file(path: Path, place: str, remedy: str, data: Path | None = None) -> bytes:
    """Read the regular file ``path``, which messages call ``place``.

    The file, with links followed, must be inside ``data``: a paper must not depend on a file
    outside the committed data.  Raises ``RecordError``: for an unreadable file, with ``remedy`` at
    its end; for a file larger than ``LARGEST_UNPACKED``; and for a pipe or a device, where reading
    could wait forever.
    """
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise RecordError(f"{place}: found no regular file; move it elsewhere.")
        if path.stat().st_size > LARGEST_UNPACKED:
            raise RecordError(f"{place}: has more than {LARGEST_UNPACKED:,} B; move it elsewhere.")
        if data is not None and not path.resolve().is_relative_to(data.resolve()):
            raise RecordError(
                f"{place}: is a link that leads out of the data directory; put the file itself in "
                "its place."
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordError(f"{place}: cannot be read ({reason}); {remedy}.") from error


def gzipped(text: bytes) -> bytes:
    """Compress ``text`` to bytes that depend on neither the time nor the Python version.

    ``gzip.compress`` writes a different header on Python 3.11 and 3.12.
    """
    buffer = io.BytesIO()
    with gzip_writer(buffer) as stream:
        stream.write(text)
    return buffer.getvalue()


def gzip_writer(target: BinaryIO, level: int = _COMPRESSION) -> gzip.GzipFile:
    """Open a stream that compresses into ``target``, reproducibly like ``gzipped``."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0, compresslevel=level)


def unpacked(content: bytes, place: str, remedy: str) -> bytes:
    """Unpack gzipped ``content``; return other content unchanged.  Messages name ``place``.

    Raises ``RecordError`` that ends with ``remedy``.
    """
    if not content.startswith(_GZIP):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            text = stream.read(LARGEST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = str(error).rstrip(".")
        raise RecordError(f"{place}: cannot be unpacked ({reason}); {remedy}.") from error
    if len(text) > LARGEST_UNPACKED:
        raise RecordError(f"{place}: has more than {LARGEST_UNPACKED:,} B unpacked; {remedy}.")
    return text


def read_table(path: Path, row: type[Row]) -> tuple[Row, ...]:
    """Read a CSV table into structs of type ``row``; return () if the file is missing.

    An empty cell becomes the default of the field.  Raises ``RecordError`` with file and line.
    """
    if not os.path.lexists(path):
        return ()
    place = f"data/{path.parent.name}/{path.name}"
    try:
        text = read_file(path, place, _RESTORE, path.parent.parent).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{place}: found bytes that are no text; {_RESTORE}.") from error
    rows: list[Row] = []
    # Line 1 contains the names of the columns.
    for line, cells in enumerate(csv.DictReader(text.splitlines()), start=2):
        filled = {name: cell for name, cell in cells.items() if cell}
        try:
            rows.append(msgspec.convert(filled, row, strict=False))
        except msgspec.ValidationError as error:
            raise RecordError(f"{place}: line {line}: {error}; {_RESTORE}.") from error
    return tuple(rows)
