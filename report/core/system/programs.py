"""Run pandoc and other renderers in a fixed environment with limits of time and memory."""

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
from report.core.system.processes import managed_process

#: Other versions write other bytes for the same paper.
PANDOC_VERSION: Final = "3.9"

#: Variables passed on from the user's environment; any other could change the output.
_INHERITED: Final = ("PATH", "HOME", "SYSTEMROOT", "TMPDIR", "TEMP", "TEXMFHOME", "TEXMFVAR")

#: The same time, language and time zone for every run.
_FIXED: Final[Mapping[str, str]] = {
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "SOURCE_DATE_EPOCH": "0",
    "FORCE_SOURCE_DATE": "1",
    # TeX reads and writes only its own folders and the one where it runs.
    "openin_any": "p",
    "openout_any": "p",
    "NO_COLOR": "1",
}
#: Memory limit of a program (B), seven times the need of the largest paper.
_MEMORY_B: Final = 2 << 30

#: Time limit of printing a version.
_TIME_LIMIT_S: Final = 60.0


def run(
    command: Sequence[str | Path], folder: Path, limit_s: float, place: str = "", stdin: str = ""
) -> CompletedProcess[str]:
    """Run ``command`` in ``folder`` with the text ``stdin`` as its input.

    After ``limit_s`` seconds the program and its children are killed; none gets more memory than
    ``_MEMORY_B``.  Raises ``RenderError``, which names ``place``, if the program is killed or
    cannot be started.  The caller judges the exit status.
    """
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    try:
        with managed_process(
            [str(part) for part in command],
            cwd=folder,
            env={**inherited, **_FIXED},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        ) as process:
            if sys.platform == "linux":
                # Limit the data only, since pandoc reserves a terabyte of addresses.
                resource.prlimit(process.pid, resource.RLIMIT_DATA, (_MEMORY_B, _MEMORY_B))
            stdout, stderr = process.communicate(stdin, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise RenderError(
            f"{place or folder}: {Path(command[0]).name} was not done after {limit_s:g} s and was "
            "killed; look for an endless loop in the document, or make the document smaller."
        ) from None
    except OSError as error:
        raise RenderError(f"{command[0]}: cannot be started ({error.strerror}).") from error
    return CompletedProcess(process.args, process.returncode, stdout, stderr)


@functools.cache
def pandoc_path() -> Path:
    """Return the path of the pinned pandoc; raises ``RenderError`` for another version."""
    try:
        import pypandoc
    except ImportError as error:
        raise RenderError(
            "pandoc: the package pypandoc_binary is not installed; run 'pip install -e .'."
        ) from error
    path = Path(pypandoc.__file__).parent / "files" / "pandoc"
    printed = run([path, "--version"], path.parent, _TIME_LIMIT_S).stdout
    version = printed.split("\n")[0].split()[-1]
    if version != PANDOC_VERSION:
        raise RenderError(
            f"{path}: found pandoc {version}, but papers need {PANDOC_VERSION}, since versions "
            "differ in their output; install the pinned pypandoc_binary."
        )
    return path
