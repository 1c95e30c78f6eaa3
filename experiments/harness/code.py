"""Which program measures: the commit, and a hash of the sources that decide what is measured."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from report.records.record import Code

ROOT = Path(__file__).parents[2]
_FOLDERS = ("experiments", "report/records", "report/instruments")
_FILES = ("report/errors.py",)
_NOT_MEASURING = ("experiments/importers", "experiments/cluster")


def identify(root: Path = ROOT) -> tuple[Code, dict[str, str]]:
    """The code under ``root``, and the reason for each field that is null."""
    digest = hash_of(measuring_sources(root), root)
    try:
        # A folder inside somebody else's checkout is not one.
        if not Path(_git(root, "rev-parse", "--show-toplevel")).samefile(root):
            raise _NoCommitError("the code does not lie in a git checkout")
        commit = _git(root, "rev-parse", "HEAD")
        # Records of earlier runs lie under data/ before they are committed; they are no code.
        changes = _git(root, "status", "--porcelain", "--", ".", ":(exclude)data")
    except _NoCommitError as error:
        missing = dict.fromkeys(("code.commit", "code.tree_clean"), str(error))
        return Code(commit=None, tree_clean=None, measuring_code=digest), missing
    return Code(commit=commit, tree_clean=changes == "", measuring_code=digest), {}


def measuring_sources(root: Path) -> tuple[Path, ...]:
    """Everything under ``experiments/``, and what reads records and counters, sorted.

    But for what reads measurements of others and submits jobs: nothing that is measured depends on
    it.
    """
    inside = (path for folder in _FOLDERS for path in (root / folder).rglob("*.py"))
    others = tuple(root / folder for folder in _NOT_MEASURING)
    measuring = (path for path in inside if not any(map(path.is_relative_to, others)))
    files = (*measuring, *(root / name for name in _FILES))
    return tuple(sorted(files, key=lambda path: path.relative_to(root).as_posix()))


def hash_of(files: Iterable[Path], root: Path) -> str:
    """SHA-256 over relative names and contents, in the order given; line ends are ``\\n``.

    git writes others where it is set to (``core.autocrlf``), and the code is the same.
    """
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


class _NoCommitError(Exception):
    """Why no commit is known, in words for a record."""


def _git(root: Path, *words: str) -> str:
    """What git prints, which may hold a folder of any name; raises ``_NoCommitError``."""
    try:
        done = subprocess.run(
            ("git", *words),
            cwd=root,
            env={**os.environ, "LC_ALL": "C"},
            capture_output=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise _NoCommitError("git is not installed, or does not answer") from error
    if done.returncode == 0:
        return os.fsdecode(done.stdout).strip()
    if b"not a git repository" in done.stderr:
        raise _NoCommitError("the code does not lie in a git checkout")
    if b"dubious ownership" in done.stderr:
        raise _NoCommitError(
            "git refuses the checkout, since its folder belongs to another user; see "
            "safe.directory in git help config"
        )
    raise _NoCommitError(f"git {words[0]} fails with exit code {done.returncode}")
