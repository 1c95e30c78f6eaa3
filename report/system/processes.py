"""Programs that never outlive this process, and how a signal ends it with all that it has begun.

Each program runs in a process group that a guard leads: a shell that reads from a pipe which only
this process holds open.  When this process ends, by ``kill -9`` too, the system closes the pipe and
the guard kills the group.  No code of ours runs between fork and exec, so threads may start
programs.  This needs process groups, which Linux and macOS have.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import active_children
from pathlib import Path
from types import FrameType
from typing import Any, Final

_GUARD: Final = ("/bin/sh", "-c", "read -r _; kill -KILL 0")
#: The groups that run now, each named by the process id of its guard.
_GROUPS: Final[set[int]] = set()
#: The signals that wait for each ``hold_signals`` that has not ended.
_HELD: Final[list[list[int]]] = []
#: How often what still dies is given 10 ms to do so.
_PATIENCE: Final = 200


@contextmanager
def started(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start ``command`` with the settings of ``Popen``; on leaving, what still runs is killed.

    Raises ``OSError`` if it cannot be started.
    """
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


def _kill(group: int) -> None:
    # Some systems refuse to signal a group whose processes have all ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextmanager
def leave_on_signals(leftovers: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """On SIGTERM, SIGHUP and SIGINT, remove ``leftovers`` and end this process with all it began.

    Nothing is raised, since an exception that comes at any moment crashes libraries: msgspec dies
    of one while it defines a class.  A signal that is ignored before, as SIGHUP is under ``nohup``,
    stays so; all that follow the first are ignored.
    """
    names = ("SIGTERM", "SIGHUP", "SIGINT")
    main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in names if main and hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    usual = {n: h for n, h in before.items() if h in (signal.SIG_DFL, signal.default_int_handler)}

    def leave(number: int, frame: FrameType | None) -> None:
        if _HELD:
            _HELD[-1].append(number)
            return
        for each in usual:
            signal.signal(each, signal.SIG_IGN)
        for worker in active_children():
            worker.kill()
            worker.join()
        for group in tuple(_GROUPS):
            _kill(group)
        for _ in range(_PATIENCE):
            left = list(leftovers())
            for path in left:
                remove(path)
            if not left:
                break
            time.sleep(0.01)
        os._exit(128 + number)

    for number in usual:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


@contextmanager
def hold_signals() -> Iterator[None]:
    """Let a signal wait until the block ends: a child that is half started cannot be ended."""
    _HELD.append([])
    try:
        yield
    finally:
        for number in _HELD.pop():
            signal.raise_signal(number)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder as far as possible; nothing behind a link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
