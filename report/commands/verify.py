"""``--verify``: building twice from nothing, in unlike environments, and comparing every byte."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from report.commands.child import run_build
from report.engine.cache import SCRATCH
from report.engine.pipeline import Announce, Request
from report.engine.place import install, only_build, stage_in
from report.errors import OutputError, RenderError, first_uncopied, unwritable

#: In the format of ``sha256sum``, for ``cd out && sha256sum -c MANIFEST.sha256``.
MANIFEST: Final = "MANIFEST.sha256"
#: What a build keeps for itself: the times of this machine's files, a lock, and scratch folders;
#: and what other commands than a build write.
_NOT_BUILT: Final = (".index.json", ".lock", MANIFEST, "diff/", "verify/", SCRATCH)
#: What a build needs of the project; of its data, what a folder of records alone lacks.
_NEEDED: Final = ("build.py", "pyproject.toml", "report", "figures", "templates", "data")
#: The language that is most unlike English to programs: the capital of i is not I.
_TURKISH: Final = "tr_TR.utf8"
#: How many bytes are printed of what differs.
_BYTES: Final = 60


class Environment(NamedTuple):
    """Where and how one build runs; ``folder`` is relative to that of both."""

    name: str
    folder: str
    umask: int
    variables: Mapping[str, str]

    def words(self) -> str:
        """What differs, in one line."""
        varied = "".join(f", {key}={value}" for key, value in self.variables.items())
        return f"{self.name}: folder {self.folder}, umask {self.umask:03o}{varied}"


def unlike_environments() -> tuple[Environment, Environment]:
    """Two that differ in everything; the second speaks Turkish where this system does."""
    known = ""
    with suppress(OSError):
        known = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout
    first = {"TZ": "UTC0", "LC_ALL": "C", "PYTHONHASHSEED": "0"}
    # Python takes this locale for UTF-8 unless it is told not to.
    first |= {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    foreign = _TURKISH if _TURKISH in known else "C.UTF-8"
    second = {"TZ": "FAR-13:45", "LC_ALL": foreign, "PYTHONHASHSEED": "4242"}
    far = "second/a folder/très profond"
    return Environment("first", "first", 0o022, first), Environment("second", far, 0o077, second)


class Verified(NamedTuple):
    """What two builds from nothing gave: the digest of each file, and where files differ first.

    ``kept`` is where both builds lie if they differ, or the list of digests.
    """

    files: Mapping[str, str]
    differences: Mapping[str, str]
    kept: Path

    def lines(self) -> Iterator[str]:
        """What to print."""
        yield from (each.words() for each in unlike_environments())
        if self.differences:
            yield f"Files that differ: {len(self.differences)}"
            yield from (f"  {name}: {where}" for name, where in self.differences.items())
            yield f"Both builds are kept in {self.kept}; {MANIFEST} was not written."
        else:
            yield f"The same bytes: {len(self.files)} files, built twice from nothing."
            yield str(self.kept)


def verify(request: Request, project: Path, announce: Announce) -> Verified:
    """Build what ``request`` asks for twice from nothing and compare the bytes.

    Each build is a process of its own in a fresh copy of ``project``.  If they are the same,
    ``MANIFEST.sha256`` is written to ``request.out``.

    Raises ``RenderError`` if a build fails, and ``OutputError`` if copies or manifest cannot be
    written.
    """
    waiting = partial(announce, "waiting for a build to end", 0.0)
    with only_build(request.out, waiting), stage_in(request.out) as stage:
        both, outs = stage / "verify", []
        for turn, each in enumerate(unlike_environments()):
            announce(f"the {each.name} build", turn / 2)
            outs.append(_build(each, request, project, both / each.folder))
        files, others = map(files_of, outs)
        differ = sorted({name for name, _ in files.items() ^ others.items()})
        differences = {name: where_unlike(*(out / name for out in outs)) for name in differ}
        digests = "".join(f"{digest}  {name}\n" for name, digest in files.items())
        found = both if differences else stage / MANIFEST
        try:
            (stage / MANIFEST).write_text(digests, "utf-8", newline="\n")
            install(found, request.out / found.name)
        except OSError as error:
            raise unwritable(error) from error
    return Verified(files, differences, request.out / found.name)


def _build(environment: Environment, request: Request, project: Path, folder: Path) -> Path:
    """Build in a copy of the project and of other data than its own; returns ``folder/out``."""
    data = folder / ("data" if request.data == project / "data" else "other data")
    hidden = shutil.ignore_patterns("__pycache__", ".*")
    try:
        for name in (name for name in _NEEDED if (project / name).exists()):
            if (project / name).is_dir():
                shutil.copytree(project / name, folder / name, ignore=hidden)
            else:
                folder.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(project / name, folder / name)
        if not data.exists():
            shutil.copytree(request.data, data, ignore=hidden)
    except OSError as error:
        file, _, why = first_uncopied(error)
        raise OutputError(
            f"{file}: cannot be copied to {request.out} ({why}); mend the file, or take an --out "
            "with more room."
        ) from error
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    own = {**kept, **environment.variables, "PYTHONIOENCODING": "utf-8"}
    asked = request._replace(out=folder / "out", data=data)
    failure = run_build(asked, folder, own, environment.umask)
    if failure is not None:
        raise RenderError(f"--verify: the {environment.name} build failed: {failure}")
    return asked.out


def files_of(out: Path) -> dict[str, str]:
    """Each built file below ``out``, relative to it, and its SHA-256 in hexadecimal; sorted."""
    every = (path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
    built = sorted(name for name in every if not name.startswith(_NOT_BUILT))
    return {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in built}


def where_unlike(first: Path, second: Path) -> str:
    """Where two unequal files differ first: the byte, its line, and what is around it in both."""
    for path, name in ((second, "first"), (first, "second")):
        if not path.is_file():
            return f"only the {name} build has it"
    one, other = first.read_bytes(), second.read_bytes()
    shorter = min(len(one), len(other))
    place = next((i for i in range(shorter) if one[i] != other[i]), shorter)
    begin = max(0, place - _BYTES // 2)
    line = 1 + one.count(b"\n", 0, place)
    shown = (each[begin : begin + _BYTES].decode("utf-8", "replace") for each in (one, other))
    return f"byte {place + 1}, line {line}: {' and '.join(map(repr, shown))}"
