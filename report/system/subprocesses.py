"""Programs that never outlive this process, and end together with all that they start.

Each runs in a process group that a guard leads: a shell that reads from a pipe which only this
process holds open.  When this process ends, by ``kill -9`` too, the system closes the pipe and the
guard kills the group.  No code of ours runs between fork and exec, so threads may start programs.
This needs process groups, which Linux and macOS have; elsewhere the program alone is killed, and
only while this process lives.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

_GUARD: Final = ("/bin/sh", "-c", "read -r _; kill -KILL 0")
#: The groups that run now, each named by the process id of its guard.
_GROUPS: Final[set[int]] = set()


@contextmanager
def started(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start ``command`` with the settings of ``Popen``; on leaving, what still runs is killed.

    Raises ``OSError`` if it cannot be started.
    """
    if os.name != "posix":
        with subprocess.Popen(command, **settings) as process:
            try:
                yield process
            finally:
                process.kill()
        return
    with subprocess.Popen(
        _GUARD,
        cwd="/",
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    ) as guard:
        _GROUPS.add(guard.pid)
        try:
            with subprocess.Popen(command, process_group=guard.pid, **settings) as process:
                try:
                    yield process
                finally:
                    _kill(guard.pid)
        finally:
            _kill(guard.pid)
            _GROUPS.discard(guard.pid)


def kill_programs() -> None:
    """Kill every program that runs now; a thread that waits for one goes on."""
    for group in tuple(_GROUPS):
        _kill(group)


def _kill(group: int) -> None:
    # Some systems refuse to signal a group whose processes have all ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)
