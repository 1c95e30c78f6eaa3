"""Reading a file of images, plain or gzipped, with a bar if it takes long."""

from __future__ import annotations

import gzip
import io
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, TypeAlias, cast

from experiments.datasets.refusal import refusal, system_errors_named
from report.records.unpacking import LARGEST_UNPACKED

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

#: Told the file that is being read and how much of it is done, from 0 to 1.
Observer: TypeAlias = Callable[[Path, float], None]

_GZIP: Final = b"\x1f\x8b"
_CHUNK: Final = 2**20
#: A file that is read faster than this needs no bar.
_PATIENCE_S: Final = 2.0


@dataclass(frozen=True)
class Source:
    """An open file: ``content`` is unpacked as it is read, ``stored`` are the bytes on disk."""

    path: Path
    content: IO[bytes]
    stored: IO[bytes]
    size: int

    @property
    def share(self) -> float:
        """How much of the file is read, from 0 to 1."""
        return self.stored.tell() / self.size if self.size else 1.0


@contextmanager
def opened(path: Path) -> Iterator[Source]:
    """``path`` for reading, unpacked if its first bytes say gzip, whatever its name says.

    Raises ``DataSetError`` if the system refuses, or if the packed bytes are cut or damaged.
    """
    with system_errors_named(path), path.open("rb") as stored:
        packed = stored.read(len(_GZIP)) == _GZIP
        stored.seek(0)
        size = path.stat().st_size
        try:
            yield Source(path, _unpacked(stored) if packed else stored, stored, size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise refusal(
                path,
                f"byte {min(stored.tell(), size):,}",
                f"damaged or truncated gzip data ({str(error).rstrip('.')})",
                "a whole gzip file",
            ) from error


def _unpacked(stored: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stored))


def read(path: Path, observer: Observer) -> bytes:
    """The unpacked content; raises ``DataSetError`` as ``opened`` does, or if there is too much."""
    found = io.BytesIO()
    with opened(path) as source:
        while chunk := source.content.read(_CHUNK):
            found.write(chunk)
            observer(path, source.share)
            if found.tell() > LARGEST_UNPACKED:
                limit = f"{LARGEST_UNPACKED:,} bytes"
                raise refusal(path, "", f"more than {limit} of content", f"at most {limit}")
    return found.getvalue()


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


@contextmanager
def patiently(console: Console | None = None, after_s: float = _PATIENCE_S) -> Iterator[Observer]:
    """An observer that shows a bar on standard error, but only once reading lasts ``after_s``.

    Where standard error is not a terminal, it is one line a file.
    """
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(
        console=console or Console(stderr=True), auto_refresh=False, transient=True, expand=False
    )
    began, shown = time.monotonic(), {}

    def observe(path: Path, share: float) -> None:
        if time.monotonic() - began < after_s:
            return
        if path not in shown:
            shown[path] = bar.add_task(f"Reading {path.name}", total=1.0)
            _begin(bar, path)
        bar.update(shown[path], completed=share)
        if bar.console.is_terminal:
            bar.refresh()

    try:
        yield observe
    finally:
        if bar.live.is_started:
            bar.stop()


def _begin(bar: Progress, path: Path) -> None:
    """Open the bar, or say the line."""
    if bar.console.is_terminal:
        bar.start()
    else:
        bar.console.print(f"Reading {path.name}.", highlight=False, markup=False)
