"""Read files and CSV tables, which may be damaged or unsafe; pack and unpack bytes by gzip."""

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
#: Limit on a file (B), also after unpacking, since a small packed file may unpack to any size.
LARGEST_UNPACKED: Final = 2**28
#: Level of gzip; the highest level would make files 5 % smaller in three times the time.
_GZIP_LEVEL: Final = 6
#: First bytes of every gzipped file.
_GZIP_START: Final = b"\x1f\x8b"
#: Suffix of the file names of tables.
TABLE: Final = ".csv"
_RESTORE: Final = "restore the file with git"

#: Type of the rows of a table: a msgspec struct.
Row = TypeVar("Row")


def shared_file(name: str, data: Path) -> Path:
    """Return the path of the file ``name`` in ``data``, or in the project's data if missing there.

    A user's data directory thus needs only records; published values, data sheets and literature
    then come from the project.
    """
    path = data / name
    return path if os.path.lexists(path) else PROJECT_DATA / name


def read_file(path: Path, place: str, remedy: str, data: Path | None = None) -> bytes:
    """Read the regular file ``path``, which messages call ``place``.

    If ``data`` is given, the file with all links followed must be inside it: a paper must not
    depend on a file outside the committed data.

    Raises ``RecordError`` for a file outside ``data``, for a file larger than ``LARGEST_UNPACKED``,
    for a folder, a pipe or a device (reading could wait forever), and for a file that cannot be
    read; only the last message ends with ``remedy``.
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

    ``gzip.compress`` writes different headers on Python 3.11 and 3.12.
    """
    buffer = io.BytesIO()
    with gzip_writer(buffer) as stream:
        stream.write(text)
    return buffer.getvalue()


def gzip_writer(target: BinaryIO, level: int = _GZIP_LEVEL) -> gzip.GzipFile:
    """Open a stream that compresses into ``target``, as reproducibly as ``gzipped``."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0, compresslevel=level)


def unpacked(content: bytes, place: str, remedy: str) -> bytes:
    """Unpack ``content`` if it is gzipped, else return it unchanged.

    Raises ``RecordError``, which begins with ``place`` and ends with ``remedy``, for damaged
    content and for more than ``LARGEST_UNPACKED`` bytes.
    """
    if not content.startswith(_GZIP_START):
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

    An empty cell becomes the default of its field.  Raises ``RecordError`` for an unreadable file
    and, with the line, for an invalid cell.
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
        nonempty_cells = {name: cell for name, cell in cells.items() if cell}
        try:
            rows.append(msgspec.convert(nonempty_cells, row, strict=False))
        except msgspec.ValidationError as error:
            raise RecordError(f"{place}: line {line}: {error}; {_RESTORE}.") from error
    return tuple(rows)
