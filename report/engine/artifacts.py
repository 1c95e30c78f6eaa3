"""Objects that one step leaves for the next, as the same bytes whenever they are equal."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any


def save(thing: Any, path: Path) -> None:
    """Write ``thing``, a tree of frozen values.

    Without pickle's memory of what it has written before, the bytes do not depend on whether two
    equal values happen to be one object.  Raises ``OSError``.
    """
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.fast = True
    pickler.dump(thing)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(stream.getvalue())


def load(path: Path) -> Any:
    """What ``save`` wrote.

    Only for files that a step of this build made or whose digest the manifest has confirmed, since
    unpickling runs code.  Raises ``OSError``.
    """
    return pickle.loads(path.read_bytes())
