"""Where native code prints to, which Python's own streams do not reach."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


@contextmanager
def redirected(stream: IO[str], descriptor: int, to: IO[Any]) -> Iterator[None]:
    """Lead what any code prints on ``descriptor``, that of ``stream``, into an open file."""
    stream.flush()
    saved = os.dup(descriptor)
    try:
        os.dup2(to.fileno(), descriptor)
        yield
    finally:
        os.dup2(saved, descriptor)
        os.close(saved)
