"""Run ``build.py`` in a process of its own: with code that just changed, or in another folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from report.core.system.programs import managed_process
from report.engine.steps import BuildRequest, is_report, study_of


def run_build(
    request: BuildRequest,
    project: Path,
    environment: Mapping[str, str] | None = None,
    umask: int = -1,
) -> str | None:
    """Run a build with the code of ``project``; return its errors, a line each, or None.

    The process leaves the terminal's group, so that Ctrl-C reaches only its parent.
    """
    with managed_process(
        [sys.executable, str(project / "build.py"), *_arguments(request), "--quiet"],
        cwd=project,
        env=os.environ if environment is None else environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        umask=umask,
    ) as process:
        _, output = process.communicate()
    if process.returncode == 0:
        return None
    errors = [line.removeprefix("error: ") for line in output.strip().splitlines()]
    return "\n".join(errors) or f"build.py ended with the exit code {process.returncode}."


def _arguments(request: BuildRequest) -> list[str]:
    """Turn a request back into the arguments of ``build.py``."""
    arguments = [
        *map(study_of, request.studies),
        f"--out={request.out}",
        f"--data={request.data}",
        f"--engine={request.engine}",
        f"--jobs={request.jobs}",
    ]
    arguments += [f"--{output}" for output in request.outputs]
    if request.style:
        arguments.append(f"--style={request.style}")
    paths = [str(request.data / file) for files in request.use.values() for file in files]
    if any(map(is_report, request.studies)):
        return [*arguments, "--replicate", *paths]
    return arguments + [f"--use={path}" for path in paths]
