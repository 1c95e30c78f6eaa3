"""The data of another time: a git revision of the data directory, or a directory of its own.

A name that git knows is taken for a revision, also where a directory has the same name, since that
is what the option is for; ``./name`` means the directory.
"""

from __future__ import annotations

import os
import stat
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from report.errors import RecordError
from report.missing import Missing

#: What a git hook sets, and what would lead git elsewhere than to the folder it is asked about.
_OF_A_HOOK: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX")
_SHORT: Final = 12


@dataclass(frozen=True)
class Origin:
    """A data directory and what a reader learns of where it came from."""

    data: Path
    words: str


@dataclass(frozen=True)
class _Repository:
    """The top folder of a working tree, and the data directory relative to it (``data/``)."""

    top: Path
    prefix: str


def find_data(against: str, data: Path, scratch: Path) -> Origin:
    """The data directory that ``against`` names, for comparison with ``data``.

    A git revision of the repository that holds ``data`` is unpacked below ``scratch``; else
    ``against`` is a directory of data.  Raises ``RecordError`` if it is neither, or holds no data.
    """
    if not data.is_dir():
        raise RecordError(f"{data}: no such directory; name the present data with --data.")
    repository = _repository(data)
    if isinstance(repository, _Repository):
        commit = _commit(against, repository)
        if commit is not None:
            folder = _unpacked(against, commit, repository, scratch)
            return Origin(folder, f"revision {against}, commit {commit[:_SHORT]}")
    directory = Path(against)
    if against and directory.is_dir():
        return Origin(_checked(directory), f"directory {against}")
    raise _neither(against, data, repository)


def _repository(data: Path) -> _Repository | Missing:
    """The working tree that ``data`` lies in, or why there is none."""
    found = _git(data, "rev-parse", "--show-toplevel", "--show-prefix")
    if isinstance(found, Missing):
        return found
    top, prefix = (*found.split("\n"), "")[:2]
    return _Repository(Path(top), prefix)


def _commit(against: str, repository: _Repository) -> str | None:
    """The full name of the commit; None if git knows no such revision."""
    if against.startswith("-"):
        return None  # git would take it for an option
    found = _git(repository.top, "rev-parse", "--verify", "--quiet", f"{against}^{{commit}}")
    return None if isinstance(found, Missing) else found.strip()


def _unpacked(against: str, commit: str, repository: _Repository, scratch: Path) -> Path:
    """The data directory at ``commit``, in a folder named after it, as messages then do."""
    path = repository.prefix.rstrip("/") or "."
    tree = f"{commit}:{repository.prefix.rstrip('/')}"
    if isinstance(_git(repository.top, "cat-file", "-e", tree), Missing):
        raise RecordError(
            f"--diff {against}: the commit {commit[:_SHORT]} has no {path}; name a later one, or a "
            "directory of data."
        )
    archive, target = scratch / "old.zip", scratch / commit[:_SHORT]
    made = _git(repository.top, "archive", f"--output={archive}", commit, "--", path)
    if isinstance(made, Missing):
        raise RecordError(f"--diff {against}: git cannot unpack {path} ({made.reason}); mend that.")
    _extract(archive, target, against)
    return target / repository.prefix


def _extract(archive: Path, target: Path, against: str) -> None:
    """Unpack what git has packed; ``zipfile`` lets nothing land outside the folder."""
    try:
        with zipfile.ZipFile(archive) as packed:
            for item in packed.infolist():
                if stat.S_ISLNK(item.external_attr >> 16):
                    raise zipfile.BadZipFile(f"{item.filename} is a link")
            packed.extractall(target)
    except (zipfile.BadZipFile, OSError) as error:
        raise RecordError(
            f"--diff {against}: the data of that revision cannot be unpacked ({error}); check it "
            "out elsewhere and name its directory."
        ) from error
    archive.unlink()


def _checked(directory: Path) -> Path:
    if not (directory / "devices.yaml").is_file():
        raise RecordError(
            f"--diff {directory}: the directory holds no devices.yaml, so it is no data directory; "
            "name one such as data/."
        )
    return directory.resolve()


def _neither(against: str, data: Path, repository: _Repository | Missing) -> RecordError:
    if isinstance(repository, Missing):
        return RecordError(
            f"--diff {against}: there is no such directory, and {data} is in no git repository "
            f"that could know it as a revision ({repository.reason}); name a directory of data."
        )
    shallow = _git(repository.top, "rev-parse", "--is-shallow-repository")
    hint = "" if shallow != "true\n" else " (this clone is shallow: git fetch --unshallow)"
    return RecordError(
        f"--diff {against}: found neither a git revision nor a directory of this name; name a "
        f"revision such as HEAD~1{hint}, or a directory of data."
    )


def _git(folder: Path, *arguments: str) -> str | Missing:
    """What git prints when it is run in ``folder``, or why it fails."""
    command = ["git", "--literal-pathspecs", "-C", str(folder), *arguments]
    environment = {key: text for key, text in os.environ.items() if key not in _OF_A_HOOK}
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, errors="replace", check=False
        )
    except OSError as error:
        return Missing(f"git cannot be started: {error.strerror}")
    words = " ".join(done.stderr.split()).removeprefix("fatal: ").rstrip(".")
    return done.stdout if done.returncode == 0 else Missing(words or "git refused")
