"""What a build remembers: digests of files, and in ``out/manifest.json`` what steps made of what.

The manifest is the cache, the check of what is stale, and the provenance.  It depends on the data
and the code alone, so that two builds write the same one.  What only this machine can know, such as
the times of files, is kept in ``out/.index.json``; without it a build reads every file once more
and is right all the same.  One of the two that is damaged counts as none.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

MANIFEST: Final = "manifest.json"
INDEX: Final = ".index.json"
#: How all begins that a build leaves in ``out/`` only when it is killed.
SCRATCH: Final = ".scratch-"
#: Raised when the meaning of the manifest changes; another one is as good as none.
VERSION: Final = 6

#: A file touched so shortly before it was read may be changed once more without a new time stamp:
#: systems round their clocks to milliseconds, old file systems to two seconds.
_UNSURE_NS: Final = 2_000_000_000
#: How the names begin of what lies among a project's files and is none of its inputs.
_NO_INPUT: Final = (".", "__pycache__")
#: What reading damaged content raises.
_DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, AttributeError)

#: What installers leave beside a package; ``importlib.metadata`` takes a hundred times as long.
_ENDING: Final = ".dist-info"
#: Whatever a paper may depend on; an upgrade is rare, and makes all of it anew.
PACKAGES: Final = (
    "contourpy", "cycler", "fonttools", "jinja2", "kiwisolver", "markupsafe", "matplotlib",
    "msgspec", "numpy", "packaging", "pandas", "pillow", "pylatex", "pyparsing", "pypandoc_binary",
    "python_dateutil", "pyyaml", "typst",
)  # fmt: skip
_PROGRAMS: Final = ("latexmk", "pdflatex", "kpsewhich")


class Entry(NamedTuple):
    """What a step was made from, and what it made.

    ``inputs`` are digests of files (data, templates and code as named in the project, outputs of
    other steps below ``out/``), versions of packages and settings.  ``outputs`` are digests of
    files relative to ``out/``.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str] = MappingProxyType({})
    notices: tuple[str, ...] = ()


class Index:
    """What builds have learnt of this machine: the digests of files, and what TeX there is.

    ``files`` are path → size, times, inode, digest: a file is read again only when the system says
    that it was touched.
    """

    def __init__(self, out: str) -> None:
        """Load the index of ``out``; start empty if it is damaged."""
        self._out, self._digests = out, dict[str, str | None]()
        content = _read(INDEX, out)
        #: Whether builds have worked in the folder before.
        self.used = content is not None
        self.files: dict[str, list[Any]] = {}
        self.tex: Mapping[str, Any] = {}
        with suppress(*_DAMAGE):
            self.files, self.tex = dict(content["files"]), dict(content["tex"])
        #: Whether it says something new.
        self.learned = False

    def digest(self, path: str) -> str | None:
        """SHA-256 of the file at the absolute ``path`` in hexadecimal; None where there is none."""
        if path not in self._digests:
            self._digests[path] = self._read(path)
        return self._digests[path]

    def forget(self, path: str) -> None:
        """Look again when ``path`` is asked for next, because it was written."""
        self._digests.pop(path, None)

    def _read(self, path: str) -> str | None:
        seen = _look(path)
        if not seen:
            return None
        known = self.files.pop(path, None)
        if known and known[:4] == seen:
            self.files[path] = known
            return str(known[4])
        now, digest = time.time_ns(), file_digest(path)
        self.learned = True
        if digest is not None and now - max(seen[1:3]) > _UNSURE_NS:
            self.files[path] = [*seen, digest]
        return digest

    def find_tex(self) -> None:
        """Let ``tex`` be TeX as it is now.

        ``version`` names all of it that a paper depends on; ``lacking`` says what is missing and
        how to install it, where LaTeX is not complete.  Asking TeX takes longer than all else in a
        build that has nothing to do, so that the answer is kept with the ``looks`` that the system
        has of what it rests on: the programs on the PATH, TeX's lists of its files, and the styles.
        """
        path = os.environ.get("PATH", "").split(os.pathsep)
        programs = [os.path.join(folder, name) for folder in path for name in _PROGRAMS]
        files = [*programs, *self.tex.get("files", ())]
        if self.tex.get("looks") == {file: _look(file) for file in files}:
            return
        from hashlib import sha256

        from report.render.latex import latex_lacks, tex_files, tex_version

        lacking, version = latex_lacks(), "none"
        files, styles = tex_files()
        if not lacking:
            parts = (tex_version(), *(file_digest(path) or "none" for path in styles))
            version = sha256("\n".join(parts).encode()).hexdigest()
            files = [*files, *styles]
        looks = {file: _look(file) for file in (*programs, *files)}
        self.tex = {"version": version, "lacking": lacking, "files": files, "looks": looks}
        self.learned = True

    def save(self) -> None:
        """Keep what is new and exists, where that can be written."""
        if self.learned:
            files = {path: seen for path, seen in self.files.items() if os.path.exists(path)}
            with suppress(OSError):
                _write(INDEX, {"files": files, "tex": self.tex}, self._out)


def _look(path: str) -> list[int]:
    """What the system says of a file: size, times and inode; nothing where there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def file_digest(path: str) -> str | None:
    """SHA-256 of a file in hexadecimal; None if it cannot be read, or is no file."""
    import hashlib  # which takes longer to import than to find that there is nothing to do

    try:
        if not os.path.isfile(path):
            return None  # to open a pipe would wait for ever
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def files_below(folder: str) -> list[str]:
    """The files below ``folder``, relative to it and sorted.

    Hidden files and folders, and Python's own caches, are none of a project's inputs.
    """
    found: list[str] = []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not name.startswith(_NO_INPUT)]
        below = f"{place}/"[len(folder) + 1 :]
        found += [below + name for name in files if not name.startswith(_NO_INPUT)]
    return sorted(found)


def read_manifest(out: str) -> dict[str, Entry]:
    """The steps in the manifest of ``out``; none if there is none that can be understood."""
    content = _read(MANIFEST, out)
    try:
        steps = content["steps"] if content["version"] == VERSION else {}
        return {
            id: Entry(entry["inputs"], entry["outputs"], tuple(entry["notices"]))
            for id, entry in steps.items()
        }
    except _DAMAGE:
        return {}


def write_manifest(steps: Mapping[str, Entry], out: str) -> None:
    """Replace the manifest in ``out`` in one step; raises ``OSError``."""
    entries = {id: entry._asdict() for id, entry in steps.items()}
    _write(MANIFEST, {"version": VERSION, "steps": entries}, out)


def _read(name: str, out: str) -> Any:
    """The JSON in ``out/<name>``; None where it cannot be read."""
    path = os.path.join(out, name)
    with suppress(OSError, ValueError, RecursionError):
        if os.path.isfile(path):  # to open a pipe would wait for ever
            with open(path, "rb") as stream:
                return json.loads(stream.read())
    return None


def _write(name: str, content: object, out: str) -> None:
    """Replace ``out/<name>`` by JSON in one step, also where a folder is.

    In one line, since Python writes indented JSON ten times as slowly.
    """
    path = os.path.join(out, name)
    scratch = os.path.join(out, f"{SCRATCH}{os.getpid()}-{name}")
    with open(scratch, "w", encoding="utf-8") as stream:
        stream.write(json.dumps(content, sort_keys=True) + "\n")
    if os.path.isdir(path) and not os.path.islink(path):
        os.replace(path, f"{scratch}-old")
    os.replace(scratch, path)


def installed() -> dict[str, str]:
    """Python and the packages that papers are made by, name → version.

    Of packages that are there twice the first on ``sys.path`` counts.
    """
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for folder in sys.path:
        try:
            names = os.listdir(folder or ".")
        except OSError:
            continue
        for name in sorted(name for name in names if name.endswith(_ENDING)):
            package, _, version = name.removesuffix(_ENDING).partition("-")
            found.setdefault(package.lower().replace("-", "_"), version)
    return {name: found.get(name, "none") for name in ("python", *PACKAGES)}
