"""Which program measures: the commit, and a hash of the sources that decide what is measured."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Final

from experiments.machine.text import printed
from report.records.record import Code

ROOT: Final = Path(__file__).parents[2]
#: The program of the processes that measure.
_WORKER: Final = "experiments/harness/worker.py"


def identify(study: str, root: Path = ROOT) -> tuple[Code, dict[str, str]]:
    """The code under ``root`` that measures ``study``, and the reason for each field that is null.

    ``study`` is the name of a file of ``experiments``.
    """
    digest = _hash(measuring_sources(study, root), root)
    top = printed("git", "rev-parse", "--show-toplevel", folder=root)
    commit = printed("git", "rev-parse", "HEAD", folder=root)
    # A folder inside somebody else's checkout is not one.
    if not (top and commit and Path(top).samefile(root)):
        reason = "the code does not lie in a git checkout with a commit that git shows"
        missing = dict.fromkeys(("code.commit", "code.tree_clean"), reason)
        return Code(commit=None, tree_clean=None, measuring_code=digest), missing
    # Records of earlier runs lie under data/ before they are committed; they are no code.
    changes = printed("git", "status", "--porcelain", "--", ".", ":(exclude)data", folder=root)
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
