"""Which program measures: the commit, and a hash of the sources that decide what is measured."""

from __future__ import annotations

import hashlib
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
    commit = _git(root, "rev-parse", "HEAD") if _is_toplevel(root) else None
    if commit is None:
        reason = "the code does not lie in a git checkout, or git is not installed"
        missing = {"code.commit": reason, "code.tree_clean": reason}
        return Code(commit=None, tree_clean=None, measuring_code=digest), missing
    # Records of earlier runs lie under data/ before they are committed; they are no code.
    changes = _git(root, "status", "--porcelain", "--", ".", ":(exclude)data")
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
    """SHA-256 over relative names and contents, in the order given."""
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _is_toplevel(root: Path) -> bool:
    """Whether ``root`` is itself a checkout, not a folder inside somebody else's."""
    found = _git(root, "rev-parse", "--show-toplevel")
    return found is not None and Path(found).resolve() == root.resolve()


def _git(root: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, check=True, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
