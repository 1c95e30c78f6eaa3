"""``python build.py`` as a process of its own, which has today's code, or other folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from report.system.processes import started

#: How long a build may take to tidy up when it is stopped.
_GRACE_S: Final = 10.0


def run_build(
    arguments: Sequence[str],
    project: Path,
    environment: Mapping[str, str] | None = None,
    umask: int = -1,
) -> str | None:
    """Run build.py in ``project``; what went wrong, a line for each thing, None if nothing did."""
    # Not in the terminal's group, so that Ctrl-C reaches it once and from here.
    with started(
        [sys.executable, str(project / "build.py"), *arguments, "--quiet"],
        cwd=project,
        env=os.environ if environment is None else environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        umask=umask,
    ) as process:
        try:
            _, said = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            raise
    if process.returncode == 0:
        return None
    errors = f"\n{said.strip()}".replace("\nerror: ", "\n").strip()
    return errors or f"build.py ended with the exit code {process.returncode}."
