"""``python build.py`` as a process of its own, whose progress and errors are read as it runs."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from report.system.streams import PROGRESS
from report.system.subprocesses import started

#: Called with a few words when a step begins or ends, and the share of the build that is done.
Announce: TypeAlias = Callable[[str, float], None]

_PROGRESS: Final = re.compile(r"\[\s*(\d+)%\] (.*?)(?:, about \d+ s left)?")
_ERROR: Final = "error: "
#: How long a build may take to tidy up when it is stopped.
_GRACE_S: Final = 10.0


@dataclass(frozen=True)
class Ended:
    """How a build ended: its exit code, what it printed, and its sentences of errors."""

    code: int
    output: str
    errors: tuple[str, ...]

    @property
    def failure(self) -> str | None:
        """What went wrong, a line for each thing; None if nothing did."""
        if self.code == 0:
            return None
        return "\n".join(self.errors) or f"build.py ended with the exit code {self.code}."


class Child:
    """A build that runs while this process goes on; use it with ``with``.

    ``arguments`` are those of build.py, which is the one in ``project``.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        project: Path,
        announce: Announce,
        environment: Mapping[str, str] | None = None,
        umask: int = -1,
    ) -> None:
        self._announce = announce
        self._output: list[str] = []
        self._lines: list[str] = []
        self._stack = ExitStack()
        # Not in the terminal's group, so that Ctrl-C reaches it once and from here.
        self._process = self._stack.enter_context(
            started(
                [sys.executable, str(project / "build.py"), *arguments],
                cwd=project,
                env={**(os.environ if environment is None else environment), PROGRESS: "lines"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                umask=umask,
            )
        )
        self._readers = [
            threading.Thread(target=read, args=(stream,), daemon=True)
            for read, stream in (
                (self._output.extend, self._process.stdout),
                (self._read_steps, self._process.stderr),
            )
        ]
        for reader in self._readers:
            reader.start()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        self._stack.close()

    def wait(self) -> Ended:
        """How the build ended, when it has."""
        code = self._process.wait()
        for reader in self._readers:
            reader.join()
        return Ended(code, "".join(self._output), errors_in(self._lines))

    def _read_steps(self, stream: Iterable[str]) -> None:
        for line in stream:
            step = _PROGRESS.fullmatch(line.rstrip("\n"))
            if step is None:
                self._lines.append(line)
            else:
                self._announce(step[2], int(step[1]) / 100)


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
