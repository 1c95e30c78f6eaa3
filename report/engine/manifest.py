"""What the last build found and made: ``out/manifest.json``, and the memory of files beside it.

The manifest is the cache, the check of what is stale, and the provenance: step → what it was made
from → the digests of what it made.  It depends on the data and the code alone, so that two builds
write the same one.  What only this machine can know, such as the times of files, is kept in
``out/.index.json``; without it a build reads every file once more and is right all the same.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

MANIFEST: Final = "manifest.json"
INDEX: Final = ".index.json"
#: Raised when the meaning of the manifest changes; another one is as good as none.
#:
#: 1. The first.
VERSION: Final = 1


class Inputs(NamedTuple):
    """What a step is made from, each by its digest or version; ``code`` names a closure."""

    files: dict[str, str]
    code: str
    versions: dict[str, str]
    upstream: dict[str, str]
    parameters: dict[str, str]


class Entry(NamedTuple):
    """What a step was made from and what it made: file relative to ``out/`` → digest."""

    inputs: Inputs
    outputs: dict[str, str]
    notices: tuple[str, ...] = ()


class Manifest(NamedTuple):
    """The entries of all steps, and the files of code that a closure stands for."""

    steps: dict[str, Entry]
    closures: dict[str, dict[str, str]]


EMPTY: Final = Manifest({}, {})


def read_manifest(out: str) -> Manifest:
    """The manifest in ``out``; an empty one if there is none, or none that can be understood."""
    try:
        with open(os.path.join(out, MANIFEST), "rb") as stream:
            content = json.loads(stream.read())
        if content["version"] != VERSION:
            return EMPTY
        steps = {
            id: Entry(Inputs(**entry["inputs"]), entry["outputs"], tuple(entry["notices"]))
            for id, entry in content["steps"].items()
        }
        # Damage that JSON does not notice must not be believed either.
        whole = all(_is_whole(entry) for entry in steps.values())
        return Manifest(steps, content["closures"]) if whole else EMPTY
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return EMPTY


def _is_whole(entry: Entry) -> bool:
    tables = (*entry.inputs[:1], *entry.inputs[2:], entry.outputs)
    return isinstance(entry.inputs.code, str) and all(isinstance(table, dict) for table in tables)


def write_manifest(manifest: Manifest, out: str) -> None:
    """Replace the manifest in ``out`` in one step; raises ``OSError``."""
    used = {entry.inputs.code for entry in manifest.steps.values()}
    content = {
        "version": VERSION,
        "steps": {
            id: {
                "inputs": entry.inputs._asdict(),
                "outputs": entry.outputs,
                "notices": list(entry.notices),
            }
            for id, entry in manifest.steps.items()
        },
        "closures": {key: manifest.closures[key] for key in used if key in manifest.closures},
    }
    _replace(os.path.join(out, MANIFEST), json.dumps(content, indent=0, sort_keys=True) + "\n")


def read_index(out: str) -> dict[str, Any]:
    """What an earlier build remembered of this machine; nothing if it cannot be understood."""
    try:
        with open(os.path.join(out, INDEX), "rb") as stream:
            content = json.loads(stream.read())
    except (OSError, ValueError):
        return {}
    parts = ("files", "imports", "seconds", "programs")
    fit = isinstance(content, dict) and all(isinstance(content.get(key), dict) for key in parts)
    return content if fit else {}


def write_index(content: dict[str, Any], out: str) -> None:
    """Replace the memory; that it cannot be written harms nobody and is not said."""
    try:
        _replace(os.path.join(out, INDEX), json.dumps(content, sort_keys=True))
    except OSError:
        return


def _replace(path: str, text: str) -> None:
    scratch = f"{path}.{os.getpid()}.tmp"
    try:
        with open(scratch, "w", encoding="utf-8") as stream:
            stream.write(text)
        os.replace(scratch, path)
    except OSError:
        _remove(scratch)
        raise


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return


def chosen(outputs: dict[str, str], endings: Iterable[str]) -> dict[str, str]:
    """The outputs whose names end with one of ``endings``."""
    wanted = tuple(endings)
    return {name: digest for name, digest in outputs.items() if name.endswith(wanted)}
