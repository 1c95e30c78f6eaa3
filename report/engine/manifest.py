"""What the last build found and made: ``out/manifest.json``, and the memory of files beside it.

The manifest is the cache, the check of what is stale, and the provenance: step → what it was made
from → the digests of what it made.  It depends on the data and the code alone, so that two builds
write the same one.  What only this machine can know, such as the times of files, is kept in
``out/.index.json``; without it a build reads every file once more and is right all the same.

Both begin with a checksum of the rest: one that is damaged anywhere counts as none.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from report.engine.graph import SCRATCH

MANIFEST: Final = "manifest.json"
INDEX: Final = ".index.json"
#: Raised when the meaning of the manifest changes; another one is as good as none.
#:
#: 1. The first.
#: 2. With a checksum.
#: 3. One step for all figures of a study.
VERSION: Final = 3

_CHECKSUM: Final = '"checksum": "'
_DIGITS: Final = 64
#: What reading damaged content raises.
_DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, AttributeError)


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
    """The manifest in ``out``; an empty one if there is none, or none that can be believed.

    None is believed that names an output behind a symbolic link.
    """
    try:
        content = json.loads(_read(os.path.join(out, MANIFEST)))
        if content["version"] != VERSION:
            return EMPTY
        steps = {
            id: Entry(Inputs(**entry["inputs"]), entry["outputs"], tuple(entry["notices"]))
            for id, entry in content["steps"].items()
        }
        outputs = [name for entry in steps.values() for name in entry.outputs]
        return EMPTY if behind_links(outputs, out) else Manifest(steps, content["closures"])
    except _DAMAGE:
        return EMPTY


def behind_links(names: Iterable[str], out: str) -> set[str]:
    """Those of the outputs ``names`` whose folders, as far down as ``out``, include a link."""
    linked: dict[str, bool] = {"": False}

    def is_linked(folder: str) -> bool:
        if folder not in linked:
            above = folder.rpartition("/")[0]
            linked[folder] = is_linked(above) or os.path.islink(os.path.join(out, folder))
        return linked[folder]

    return {name for name in names if is_linked(name.rpartition("/")[0])}


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
    _replace(MANIFEST, with_checksum(content), out)


def read_index(out: str) -> dict[str, Any]:
    """What an earlier build remembered of this machine; nothing if it cannot be believed."""
    try:
        content: dict[str, Any] = json.loads(_read(os.path.join(out, INDEX)))
    except _DAMAGE:
        return {}
    return content


def write_index(content: Mapping[str, Any], out: str) -> None:
    """Replace the memory; that it cannot be written harms nobody and is not said."""
    try:
        _replace(INDEX, with_checksum(content), out)
    except OSError:
        return


def with_checksum(content: Mapping[str, Any]) -> str:
    """The content as JSON that begins with a checksum; its keys come after «checksum».

    In one line, since Python writes indented JSON ten times as slowly.
    """
    text = json.dumps({"checksum": "", **content}, sort_keys=True) + "\n"
    head, mark, rest = text.partition(_CHECKSUM)
    return f"{head}{mark}{hashlib.sha256(rest.encode()).hexdigest()}{rest}"


def _read(path: str) -> bytes:
    """What ``with_checksum`` made; raises ``OSError``, or ``ValueError`` if it was altered."""
    if not os.path.isfile(path):
        raise ValueError("no file: to open a pipe would wait for ever")
    with open(path, "rb") as stream:
        text = stream.read()
    rest = text.partition(_CHECKSUM.encode())[2]
    if hashlib.sha256(rest[_DIGITS:]).hexdigest().encode() != rest[:_DIGITS]:
        raise ValueError("the checksum is another one")
    return text


def _replace(name: str, text: str, out: str) -> None:
    """Replace ``out/<name>`` in one step, also where a folder has its name."""
    path = os.path.join(out, name)
    scratch = os.path.join(out, f"{SCRATCH}{os.getpid()}-{name}")
    try:
        _remove(scratch)
        with open(scratch, "x", encoding="utf-8") as stream:
            stream.write(text)
        if os.path.isdir(path) and not os.path.islink(path):
            os.replace(path, f"{scratch}-old")
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
