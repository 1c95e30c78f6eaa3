"""Version of the measuring program: git commit, and hash of the sources that affect a sample."""

import hashlib
import os
from functools import cache
from modulefinder import ModuleFinder
from pathlib import Path
from typing import Final

from experiments.machine.text import program_output
from report.core.records.record import Code

#: Folder of the project.
ROOT: Final = Path(__file__).parents[2]


def identify(study: str, root: Path = ROOT) -> tuple[Code, dict[str, str]]:
    """Identify the code below ``root`` that measures ``study``; also return why fields are null."""
    digest = hashlib.sha256()
    for path in measuring_sources(study, root):
        content = path.read_bytes().replace(b"\r\n", b"\n")  # line ends as git stores them
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    checkout = program_output("git", "rev-parse", "--show-toplevel", folder=root)
    commit = program_output("git", "rev-parse", "HEAD", folder=root)
    # The folder may lie in another project's checkout, whose commit does not describe this code.
    if not (checkout and commit and Path(checkout).samefile(root)):
        reason = "the code does not lie in a git checkout with a commit that git shows"
        missing = dict.fromkeys(("code.commit", "code.tree_clean"), reason)
        return Code(commit=None, tree_clean=None, measuring_code=digest.hexdigest()), missing
    # Records under data/ are not code, and may not be committed yet.
    changes = program_output(
        "git", "status", "--porcelain", "--", ".", ":(exclude)data", folder=root
    )
    return Code(commit=commit, tree_clean=changes == "", measuring_code=digest.hexdigest()), {}


@cache
def measuring_sources(study: str, root: Path) -> tuple[Path, ...]:
    """List the files of the worker, of ``study`` and of all that they import from ``root``, sorted.

    A C source beside such a file is listed, too.  Code that only plans a run or writes its record
    cannot change a measurement and is not listed.
    """
    finder = ModuleFinder([os.fspath(root)])
    for name in ("harness/worker.py", f"{study}.py", f"{study}/study.py"):
        path = root / "experiments" / name
        if path.is_file():
            finder.load_file(os.fspath(path))
    sources = set[Path]()
    for module in finder.modules.values():
        if file := getattr(module, "__file__", None):
            source = Path(file)
            sources |= {path for path in (source, source.with_suffix(".c")) if path.is_file()}
    return tuple(sorted(sources))
