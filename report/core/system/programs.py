"""Runs pandoc and the programs that render, in one environment, with limits of time and memory."""

from __future__ import annotations

import functools
import os
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Final

from report.core.errors import RenderError
from report.core.system.processes import started

#: Writers drift between versions, and with them the bytes of a paper.
PANDOC_VERSION: Final = "3.9"

#: What a program may see of the user's environment.  Everything else could change its output.
_INHERITED: Final = ("PATH", "HOME", "SYSTEMROOT", "TMPDIR", "TEMP", "TEXMFHOME", "TEXMFVAR")

#: The same moment, language and place for every run.
_FIXED: Final[Mapping[str, str]] = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SOURCE_DATE_EPOCH": "0",
    "FORCE_SOURCE_DATE": "1",
    # TeX reads and writes no file beyond its own folders and the one where it runs.
    "openin_any": "p",
    "openout_any": "p",
    "NO_COLOR": "1",
}
#: Memory that a program may fill, seven times what the largest paper needs.
_MEMORY_B: Final = 2 << 30

#: To print its version, a program may take this long.
_TIME_LIMIT_S: Final = 60.0


def run(
    command: Sequence[str | Path], folder: Path, limit_s: float, place: str = "", stdin: str = ""
) -> CompletedProcess[str]:
    """Run ``command`` in ``folder`` with the text ``stdin`` as its input.

    A program that is not done after ``limit_s`` seconds is ended together with the programs that
    it started; none gets more memory than ``_MEMORY_B``.  Raises ``RenderError`` for the
    ``place`` that it works for if it is ended or cannot be started; its exit status is the
    caller's to judge.
    """
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        with started(
            [str(part) for part in command],
            cwd=folder,
            env={**kept, **_FIXED},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        ) as process:
            if sys.platform == "linux":
                # pandoc reserves a terabyte of addresses, so that only what is filled is limited.
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY_B, _MEMORY_B))
            stdout, stderr = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise RenderError(
            f"{place or folder}: {Path(command[0]).name} was not done after {limit_s:g} s and was "
            "ended; look for what it waits for, or make the document smaller."
        ) from None
    except OSError as error:
        raise RenderError(f"{command[0]}: cannot be started ({error.strerror}).") from error
    return CompletedProcess(process.args, process.returncode, stdout, stderr)


@functools.cache
def pandoc_path() -> Path:
    """The pandoc of the installed wheel; raises ``RenderError`` for another version than pinned."""
    try:
        import pypandoc
    except ImportError as error:
        raise RenderError(
            "pandoc: the package pypandoc_binary is not installed; run 'pip install -e .'."
        ) from error
    path = Path(pypandoc.__file__).parent / "files" / "pandoc"
    printed = run([path, "--version"], path.parent, _TIME_LIMIT_S).stdout
    found = printed.split("\n")[0].split()[-1]
    if found != PANDOC_VERSION:
        raise RenderError(
            f"{path}: found pandoc {found} where {PANDOC_VERSION} is needed, since writers differ; "
            "install the pinned pypandoc_binary."
        )
    return path
