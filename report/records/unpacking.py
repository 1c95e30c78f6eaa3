"""The only way that packed files are unpacked: a small one may hold any number of bytes."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import Final

from report.errors import RecordError

#: More than any file here holds (B); also of what is read without being packed.
LARGEST_UNPACKED: Final = 2**28
_GZIP: Final = b"\x1f\x8b"


class UnpackingError(ValueError):
    """A file that cannot be unpacked, or holds too much; the message says which, in a few words."""


def gunzip(content: bytes) -> bytes:
    """The bytes of a file that may be gzipped; raises ``UnpackingError``."""
    if not content.startswith(_GZIP):
        return content
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as stream:
            found = stream.read(LARGEST_UNPACKED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise UnpackingError(f"not a whole gzip file ({str(error).rstrip('.')})") from error
    if len(found) > LARGEST_UNPACKED:
        raise UnpackingError(f"found more than {LARGEST_UNPACKED:,} B when unpacked")
    return found


def unpacked(content: bytes, place: str, remedy: str) -> bytes:
    """As ``gunzip``, for a file that messages call ``place``; raises ``RecordError``."""
    try:
        return gunzip(content)
    except UnpackingError as error:
        raise RecordError(f"{place}: {error}; {remedy}.") from error
