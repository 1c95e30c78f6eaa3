"""The only way a file of the data directory is opened, and those that are packed and unpacked."""

from __future__ import annotations

import gzip
import io
import os
import stat
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final

from report.core.errors import RecordError

PROJECT: Final = Path(__file__).resolve().parents[3] / "data"
#: More than any file here holds (B), since a small packed one may hold any number of bytes.
LARGEST_UNPACKED: Final = 2**28
#: The highest level takes three times as long as this one for files that are 5 % smaller.
_COMPRESSION: Final = 6
_GZIP: Final = b"\x1f\x8b"
#: How a file begins that git-lfs keeps elsewhere and has not fetched.
_POINTER: Final = b"version https://git-lfs.github.com/spec/"


def shared(name: str, data: Path) -> Path:
    """The file ``name`` of ``data``, or the project's own where that directory has none.

    So a directory of records alone has published values, data sheets and literature too.
    """
    return data / name if os.path.lexists(data / name) else PROJECT / name


def read_file(path: Path, place: str, remedy: str, data: Path | None = None) -> bytes:
    """The content of the regular file ``path``, which messages call ``place``.

    ``data`` is the directory that the file must lie in once all links are followed: a paper must
    not depend on what is committed elsewhere or nowhere.  Raises ``RecordError`` that ends with
    ``remedy``, also for a pipe or a device, which reading would wait for without end.
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
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise RecordError(f"{place}: cannot be read ({reason}); {remedy}.") from error
    if content.startswith(_POINTER):
        raise RecordError(f"{place}: is a pointer of git-lfs, not the file; fetch: git lfs pull.")
    return content


def gzipped(text: bytes) -> bytes:
    """``text`` compressed, the same bytes for the same text at any time and on any Python.

    ``gzip.compress`` would write another mark of the system on Python 3.11 than on 3.12.
    """
    buffer = io.BytesIO()
    with gzip_writer(buffer) as stream:
        stream.write(text)
    return buffer.getvalue()


def gzip_writer(target: BinaryIO, level: int = _COMPRESSION) -> gzip.GzipFile:
    """Compresses into ``target`` as ``gzipped`` does, piece by piece."""
    return gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0, compresslevel=level)


def read_bounded(read: Callable[[int], bytes]) -> bytes:
    """All bytes that a stream unpacks; raises ``ValueError`` for too many."""
    found = read(LARGEST_UNPACKED + 1)
    if len(found) > LARGEST_UNPACKED:
        raise ValueError(f"found more than {LARGEST_UNPACKED:,} B")
    return found


def unpacked(content: bytes, place: str, remedy: str) -> bytes:
    """The bytes of a file that may be gzipped, which messages call ``place``.

    Raises ``RecordError`` that ends with ``remedy``.
    """
    if not content.startswith(_GZIP):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            return read_bounded(stream.read)
    except (OSError, EOFError, zlib.error, ValueError) as error:
        why = str(error).rstrip(".")
        raise RecordError(f"{place}: cannot be unpacked ({why}); {remedy}.") from error
