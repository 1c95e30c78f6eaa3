"""Reading each record once while a study is computed, which looks at many of them several times."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Final, TypeVar

Read = TypeVar("Read")
#: What was read in the ``each_read_once`` that has not ended.
_KEPT: Final[list[dict[tuple[str, Path, Path], Any]]] = []


@contextmanager
def each_read_once() -> Iterator[None]:
    """Keep what ``kept`` functions read until the block ends; no file may change in it."""
    _KEPT.append({})
    try:
        yield
    finally:
        _KEPT.pop()


def kept(read: Callable[[Path, Path], Read]) -> Callable[[Path, Path], Read]:
    """``read(path, data)``, which reads a file again only outside of ``each_read_once``."""

    @wraps(read)
    def look_up(path: Path, data: Path) -> Read:
        if not _KEPT:
            return read(path, data)
        key = (read.__qualname__, path, data)
        if key not in _KEPT[-1]:
            _KEPT[-1][key] = read(path, data)
        result: Read = _KEPT[-1][key]
        return result

    return look_up
