"""Reading a file of images, plain or gzipped."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from experiments.datasets.refusal import refusal, system_errors_named
from report.records.unpacking import LARGEST_UNPACKED

_GZIP: Final = b"\x1f\x8b"


def read(path: Path) -> bytes:
    """The content, unpacked if its first bytes say gzip, whatever the name says.

    Raises ``DataSetError`` if the system refuses, if there is too much, or if the packed bytes are
    cut or damaged.
    """
    with system_errors_named(path), path.open("rb") as stored:
        packed = stored.read(len(_GZIP)) == _GZIP
        stored.seek(0)
        source = gzip.GzipFile(fileobj=stored) if packed else stored
        try:
            content = source.read(LARGEST_UNPACKED + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise refusal(
                path,
                f"byte {stored.tell():,}",
                f"damaged or truncated gzip data ({str(error).rstrip('.')})",
                "a whole gzip file",
            ) from error
    if len(content) > LARGEST_UNPACKED:
        limit = f"{LARGEST_UNPACKED:,} bytes"
        raise refusal(path, "", f"more than {limit} of content", f"at most {limit}")
    return content


def first_file(folders: Iterable[Path], names: Iterable[str]) -> Path | None:
    """The first of ``names`` in the first of ``folders``, plain before gzipped.

    Some archives pack each file into a folder of its own name: it is looked for there too.
    """
    spellings = [spelling for name in names for spelling in (name, f"{name}.gz")]
    for folder in folders:
        for name in spellings:
            for path in (folder / name, folder / name / name):
                if path.is_file():
                    return path
    return None
