"""``python build.py`` as a process of its own, whose progress and errors are read as it runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from report.system.processes import started
from report.system.streams import PROGRESS

#: Called with a few words when a step begins or ends, and the share of the build that is done.
Announce: TypeAlias = Callable[[str, float], None]

_PROGRESS: Final = re.compile(r"\[\s*(\d+)%\] (.*?)(?:, about \d+ s left)?")
_ERROR: Final = "error: "
#: How long a build may take to tidy up when it is stopped.
_GRACE_S: Final = 10.0


def run_build(
    arguments: Sequence[str],
    project: Path,
    announce: Announce,
    environment: Mapping[str, str] | None = None,
    umask: int = -1,
) -> str | None:
    """Run build.py in ``project``; what went wrong, a line for each thing, None if nothing did."""
    # Not in the terminal's group, so that Ctrl-C reaches it once and from here.
    with started(
        [sys.executable, str(project / "build.py"), *arguments],
        cwd=project,
        env={**(os.environ if environment is None else environment), PROGRESS: "lines"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        umask=umask,
    ) as process:
        assert process.stderr is not None
        lines: list[str] = []
        try:
            for line in process.stderr:
                if step := _PROGRESS.fullmatch(line.rstrip("\n")):
                    announce(step[2], int(step[1]) / 100)
                else:
                    lines.append(line)
            code = process.wait()
        except BaseException:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(_GRACE_S)
            raise
    if code == 0:
        return None
    return "\n".join(errors_in(lines)) or f"build.py ended with the exit code {code}."


def errors_in(lines: Iterable[str]) -> tuple[str, ...]:
    """The errors among the lines of a build that are no progress.

    An error may have several lines.  Where a build broke off without one, its last line.
    """
    texts: list[str] = []
    others = ""
    for line in lines:
        text = line.rstrip()
        if text.startswith(_ERROR):
            texts.append(text.removeprefix(_ERROR))
        elif texts and text:
            texts[-1] += f"\n{text}"
        else:
            others = text or others
    return tuple(texts) or ((others,) if others else ())
