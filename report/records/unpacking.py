"""The only way that packed files are unpacked: a small one may hold any number of bytes."""

from __future__ import annotations

import gzip
import io
import pickle
import pickletools
import zlib
from typing import Final, NoReturn

from report.errors import RecordError

#: More than any file here holds (B); also of what is read without being packed.
LARGEST_UNPACKED: Final = 2**28
#: Steps of a pickle, each of which makes at most one object.
_MOST_STEPS: Final = 2**23
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


class _Reader(pickle.Unpickler):
    """Reads numbers, texts, lists and mappings, and nothing that has a name."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Nothing is ever imported."""
        asked = ascii(f"{module}.{name}")
        raise UnpackingError(f"found a pickle that asks for {asked}; nothing was run")

    def persistent_load(self, pid: object) -> NoReturn:
        """Objects that stand elsewhere."""
        raise UnpackingError("found a pickle that asks for an object outside the file")


def unpickled(content: bytes) -> object:
    """What a pickle holds, of numbers, texts, lists and mappings.

    A list may stand in it many times, so that what copies it has to be counted first.  Raises
    ``UnpackingError``, also for the few bytes with which a pickle asks for all memory.
    """
    if len(content) > LARGEST_UNPACKED:
        raise UnpackingError(f"found more than {LARGEST_UNPACKED:,} B")
    try:
        _check_steps(content)
        return _Reader(io.BytesIO(content)).load()
    except UnpackingError:
        raise
    except Exception as error:  # an unpickler raises nearly anything on damaged bytes
        said = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise UnpackingError(f"not a whole pickle ({ascii(said)[1:-1]})") from error


def _check_steps(content: bytes) -> None:
    """Refuse what makes a reader reserve memory that the file does not fill.

    ``genops`` raises ``ValueError`` for a text or an array that is longer than the file.
    """
    kept = 0
    for number, (step, argument, _) in enumerate(pickletools.genops(content)):
        if number > _MOST_STEPS:
            raise UnpackingError(f"found a pickle of more than {_MOST_STEPS:,} steps")
        if step.name in ("PUT", "BINPUT", "LONG_BINPUT"):
            kept += 1
            if not 0 <= int(argument or 0) < kept:
                raise UnpackingError(f"found a pickle that keeps an object at place {argument}")
        kept += step.name == "MEMOIZE"
