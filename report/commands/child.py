"""``python build.py`` as a process of its own, which has today's code, or other folders."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from report.core.system.processes import started
from report.engine.pipeline import Request


def run_build(
    request: Request,
    project: Path,
    environment: Mapping[str, str] | None = None,
    umask: int = -1,
) -> str | None:
    """Build what is asked for with the code of ``project``.

    Returns what went wrong, a line for each thing, None if nothing did.
    """
    # Not in the terminal's group, so that Ctrl-C reaches only what has started it.
    with started(
        [sys.executable, str(project / "build.py"), *_words(request), "--quiet"],
        cwd=project,
        env=os.environ if environment is None else environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        umask=umask,
    ) as process:
        _, said = process.communicate()
    errors = f"\n{said.strip()}".replace("\nerror: ", "\n").strip()
    if process.returncode == 0:
        return None
    return errors or f"build.py ended with the exit code {process.returncode}."


def _words(request: Request) -> list[str]:
    """The command line that asks for the same."""
    named = [f"--{output}" for output in request.outputs]
    use = [f"--use={request.data / file}" for files in request.use.values() for file in files]
    style = [f"--style={request.style}"] if request.style else []
    places = [f"--out={request.out}", f"--data={request.data}"]
    how = [f"--engine={request.engine}", f"--jobs={request.jobs}"]
    return [*request.studies, *named, *how, *places, *style, *use]
