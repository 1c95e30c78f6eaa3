"""Write and read JSON files and pickles, which steps of a build use to exchange results."""

import io
import json
import pickle
from pathlib import Path
from typing import Any

import msgspec

from figures.characters import escape_invisible_in


def write_json(content: Any, path: Path) -> None:
    """Write JSON with sorted keys and visible characters; raises ``ValueError`` for NaN."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Large files are several times in memory here, so every form is dropped as soon as possible.
    text = json.dumps(
        escape_invisible_in(content), sort_keys=True, ensure_ascii=False, allow_nan=False
    ).encode()
    # Python's own indentation takes five times as long.
    text = msgspec.json.format(text, indent=1)
    with path.open("wb") as file:
        file.writelines((text, b"\n"))


def read_json(path: Path) -> Any:
    """Read a JSON file; raises ``OSError``."""
    return json.loads(path.read_text("utf-8"))


def write_pickle(tree: Any, path: Path) -> None:
    """Pickle a tree of frozen values; raises ``OSError``."""
    path.write_bytes(pickled(tree))


def pickled(tree: Any) -> bytes:
    """Return the pickle of a tree; it does not depend on whether equal values are one object."""
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, protocol=5)
    pickler.fast = True  # without the memo, which refers to objects that appeared before
    pickler.dump(tree)
    return stream.getvalue()


def read_pickle(path: Path) -> Any:
    """Unpickle a file that ``write_pickle`` wrote; raises ``OSError``.

    Unpickling runs code, so callers pass only outputs of this build, or files whose digest is in
    the manifest.
    """
    return pickle.loads(path.read_bytes())
