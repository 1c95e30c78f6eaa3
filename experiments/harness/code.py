"""Which program measures: the commit, and a hash of the sources that decide what is measured."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Iterable
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Final

from report.records.record import Code

ROOT: Final = Path(__file__).parents[2]
#: The program of the processes that measure.
_WORKER: Final = "experiments/harness/worker.py"


def identify(study: str, root: Path = ROOT) -> tuple[Code, dict[str, str]]:
    """The code under ``root`` that measures ``study``, and the reason for each field that is null.

    ``study`` is the name of a file of ``experiments``.
    """
    digest = _hash(measuring_sources(study, root), root)
    top, commit = _git(root, "rev-parse", "--show-toplevel"), _git(root, "rev-parse", "HEAD")
    # A folder inside somebody else's checkout is not one.
    if not (top and commit and Path(top).samefile(root)):
        reason = "the code does not lie in a git checkout with a commit that git shows"
        missing = dict.fromkeys(("code.commit", "code.tree_clean"), reason)
        return Code(commit=None, tree_clean=None, measuring_code=digest), missing
    # Records of earlier runs lie under data/ before they are committed; they are no code.
    changes = _git(root, "status", "--porcelain", "--", ".", ":(exclude)data")
    return Code(commit=commit, tree_clean=changes == "", measuring_code=digest), {}


def measuring_sources(study: str, root: Path) -> tuple[Path, ...]:
    """The worker, the experiment of ``study``, and all that they import of this repository, sorted.

    What plans a run, writes its record or looks at the machine before it does not change a sample.
    """
    finder = ModuleFinder([os.fspath(root)])
    for path in (root / _WORKER, root / "experiments" / f"{study}.py"):
        if path.is_file():
            finder.load_file(os.fspath(path))
    places = (getattr(module, "__file__", None) for module in finder.modules.values())
    found = {Path(place) for place in places if place}
    found |= {source for path in found if (source := path.with_suffix(".c")).is_file()}
    return tuple(sorted(found, key=lambda path: path.relative_to(root).as_posix()))


def _hash(files: Iterable[Path], root: Path) -> str:
    """SHA-256 over relative names and contents; git may write other line ends (core.autocrlf)."""
    digest = hashlib.sha256()
    for path in files:
        content = path.read_bytes().replace(b"\r\n", b"\n")
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _git(root: Path, *words: str) -> str | None:
    """What git prints, which may hold a folder of any name; None where it cannot say it."""
    try:
        done = subprocess.run(
            ("git", *words), cwd=root, capture_output=True, check=False, timeout=30
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return os.fsdecode(done.stdout).strip() if done.returncode == 0 else None
