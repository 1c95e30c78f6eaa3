"""The cache of a build: the inputs and outputs of each step, and the digests of files.

``out/manifest.json`` lists the digests of each step's inputs and outputs.  A step is stale if its
inputs differ from the manifest.  The manifest also tells readers where a file comes from.  It
depends on data and code alone, so that two builds write the same bytes.  ``out/.index.json``
contains facts of this machine, such as the times of files.  Without this index, a build reads every
file again and has the same result.  A damaged manifest or index counts as missing.
"""

import json
import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final, NamedTuple

MANIFEST: Final = "manifest.json"
#: File of a site with the digests of its files, for ``sha256sum -c MANIFEST.sha256``.
DIGESTS: Final = "MANIFEST.sha256"
INDEX: Final = ".index.json"
#: Prefix of temporary files in ``out/``; a build leaves them only if it is killed.
SCRATCH: Final = ".scratch-"
#: Increased when the meaning of the manifest changes; a manifest of another version is ignored.
VERSION: Final = 6
#: Digests of files younger than this (ns) are not stored: such a file may change again without a
#: new time stamp, because systems round times to milliseconds, old file systems to two seconds.
_CLOCK_STEP_NS, _COARSE_CLOCK_STEP_NS = 20_000_000, 2_000_000_000
#: Errors of reading damaged content.
_DAMAGE: Final = (OSError, ValueError, LookupError, TypeError, AttributeError)

_TEX_PROGRAMS: Final = ("latexmk", "pdflatex", "kpsewhich")


class StepEntry(NamedTuple):
    """The inputs and outputs of a step that was run.

    ``inputs`` maps files to digests, packages to versions, and settings to values.  Files are data,
    templates and code as named in the project, and outputs of other steps below ``out/``.  In place
    of the digest of ``editions.yaml``, there are the lines that concern the study.  ``outputs``
    maps files, relative to ``out/``, to digests.
    """

    inputs: Mapping[str, str]
    outputs: Mapping[str, str] = MappingProxyType({})
    notices: tuple[str, ...] = ()


class Index:
    """The digests of files, and the state of TeX, on this machine.

    ``files`` maps a path to size, times, inode and digest.  A file is read again only if its size,
    times or inode changed.
    """

    def __init__(self, out: str) -> None:
        """Load the index of ``out``; start empty if it is damaged."""
        self._out, self._digests = out, dict[str, str | None]()
        #: Path of each file that this build has put in place → status then, digest, and time (ns).
        self._placed: dict[str, tuple[list[int], str, int]] = {}
        content = _read_json(INDEX, out)
        #: True if a build has written to the folder before.
        self.folder_used = content is not None
        self.files: dict[str, list[Any]] = {}
        self.tex: Mapping[str, Any] = {}
        with suppress(*_DAMAGE):
            self.files, self.tex = dict(content["files"]), dict(content["tex"])
        #: True if this index differs from its file.
        self.is_changed = False

    @property
    def missing_latex(self) -> str:
        """The missing programs and styles of LaTeX with their installation; empty if complete."""
        return str(self.tex.get("lacking", ""))

    def digest(self, path: str) -> str | None:
        """Return what ``file_digest`` returns for an absolute path, from the index if possible."""
        if path not in self._digests:
            self._digests[path] = self._digest_of_file(path)
        return self._digests[path]

    def place(self, path: str, digest: str | None) -> None:
        """Note the digest of a file that a build has just put in place, or that it has removed."""
        status = _status(path)
        self._digests[path] = digest if status else None
        if status and digest is not None:
            self._placed[path] = status, digest, time.time_ns()

    def _digest_of_file(self, path: str) -> str | None:
        status = _status(path)
        if not status:
            return None
        before = self.files.get(path)
        if before and before[:4] == status:
            return str(before[4])
        self.files.pop(path, None)
        now, digest = time.time_ns(), file_digest(path)
        self.is_changed = True
        if digest is not None and now - max(status[1:3]) > _clock_step_ns(status):
            self.files[path] = [*status, digest]
        return digest

    def find_tex(self) -> None:
        """Set ``tex`` to the present state of TeX.

        ``version`` identifies all parts that a paper depends on; ``lacking`` lists missing parts
        and how to install them.  Asking TeX takes longer than the rest of a build without stale
        steps.  So an earlier answer is used again if the status of three kinds of files is the
        same: the programs on the PATH, TeX's lists of its files, and the styles.
        """
        path = os.environ.get("PATH", "").split(os.pathsep)
        programs = [os.path.join(folder, name) for folder in path for name in _TEX_PROGRAMS]
        files = [*programs, *self.tex.get("files", ())]
        if self.tex.get("status") == {file: _status(file) for file in files}:
            return
        from hashlib import sha256

        from report.render.latex import latex_lacks, tex_files, tex_version

        missing_parts, version = latex_lacks(), "none"
        files, styles = tex_files()
        if not missing_parts:
            parts = (tex_version(), *(file_digest(path) or "none" for path in styles))
            version = sha256("\n".join(parts).encode()).hexdigest()
            files = [*files, *styles]
        status = {file: _status(file) for file in (*programs, *files)}
        self.tex = {"version": version, "lacking": missing_parts, "files": files, "status": status}
        self.is_changed = True

    def save(self) -> None:
        """Write the entries of existing files, if the index has changed and ``out`` is writable.

        The removal of temporary links changed only the third entry of a placed file's status.
        """
        for path, (placed, digest, moment) in self._placed.items():
            status = _status(path)
            is_unchanged = status[:2] == placed[:2] and status[3:] == placed[3:]
            if status and is_unchanged and moment - status[1] > _clock_step_ns(status):
                self.files[path] = [*status, digest]
                self.is_changed = True
        if self.is_changed:
            files = {path: entry for path, entry in self.files.items() if os.path.exists(path)}
            with suppress(OSError):
                _write_json(INDEX, {"files": files, "tex": self.tex}, self._out)


def _status(path: str) -> list[int]:
    """Return size, times and inode of a file; an empty list if it does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return []
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]


def _clock_step_ns(status: Sequence[int]) -> int:
    """Return the time within which a file may change twice and keep its time stamps."""
    is_coarse = status[1] % 1_000_000_000 == 0 == status[2] % 1_000_000_000
    return _COARSE_CLOCK_STEP_NS if is_coarse else _CLOCK_STEP_NS


def file_digest(path: str) -> str | None:
    """Return the SHA-256 of a file in hexadecimal; None if it is no file or cannot be read."""
    import hashlib  # a slow import, which a build without stale steps does not need

    try:
        if not os.path.isfile(path):
            return None  # opening a pipe would wait for ever
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return None


def read_manifest(out: str) -> dict[str, StepEntry]:
    """Read the steps in the manifest of ``out``; empty if it is missing or damaged."""
    content = _read_json(MANIFEST, out)
    try:
        steps = content["steps"] if content["version"] == VERSION else {}
        return {
            id: StepEntry(entry["inputs"], entry["outputs"], tuple(entry["notices"]))
            for id, entry in steps.items()
        }
    except _DAMAGE:
        return {}


def write_manifest(steps: Mapping[str, StepEntry], out: str) -> None:
    """Replace the manifest in ``out`` in one step; raise ``OSError`` if this fails."""
    entries = {id: entry._asdict() for id, entry in steps.items()}
    _write_json(MANIFEST, {"version": VERSION, "steps": entries}, out)


def digest_lines(digests: Mapping[str, str]) -> str:
    """Format ``digests`` (file → SHA-256) for ``sha256sum --check``."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items()))


def site_digests(steps: Mapping[str, StepEntry]) -> bytes:
    """Return the content of ``DIGESTS``, so that others can compare their build of the site."""
    digests: dict[str, str] = {}
    for entry in steps.values():
        for name, digest in entry.outputs.items():
            if name.startswith("html/"):
                digests[name.removeprefix("html/")] = digest
    return digest_lines(digests).encode()


def lists_site(steps: Mapping[str, StepEntry], out: str) -> bool:
    """Return whether ``DIGESTS`` of ``out`` lists the files of the site, if there is a site."""
    path, expected = f"{out}/html/{DIGESTS}", site_digests(steps)
    with suppress(OSError):
        if expected and os.path.isfile(path):  # opening a pipe would wait for ever
            with open(path, "rb") as stream:
                return stream.read() == expected
    return not expected


def write_site_digests(steps: Mapping[str, StepEntry], out: str) -> None:
    """Write ``DIGESTS`` of ``out``, if there is a site."""
    if digests := site_digests(steps):
        with suppress(OSError):  # the disk may be full
            _replace(f"{out}/html/{DIGESTS}", digests, out)


def _read_json(name: str, out: str) -> Any:
    """Read JSON from ``out/<name>``; None if the file is missing or damaged."""
    path = os.path.join(out, name)
    with suppress(OSError, ValueError, RecursionError):
        if os.path.isfile(path):  # opening a pipe would wait for ever
            with open(path, "rb") as stream:
                return json.loads(stream.read())
    return None


def _write_json(name: str, content: object, out: str) -> None:
    """Replace ``out/<name>``, a file or a folder, by a file with JSON in one step.

    The JSON is one line, since Python writes indented JSON ten times as slowly.
    """
    text = json.dumps(content, sort_keys=True) + "\n"
    _replace(os.path.join(out, name), text.encode(), out)


def _replace(path: str, content: bytes, out: str) -> None:
    """Replace a file or a folder by a file in one step; raise ``OSError`` if this fails."""
    scratch = os.path.join(out, f"{SCRATCH}{os.getpid()}-{os.path.basename(path)}")
    with open(scratch, "wb") as stream:
        stream.write(content)
    if os.path.isdir(path) and not os.path.islink(path):
        os.replace(path, f"{scratch}-old")  # a build removes all temporary files
    os.replace(scratch, path)
