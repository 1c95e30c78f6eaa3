"""Start programs that never outlive this process, and end all of them when a signal arrives.

Each program runs in a process group led by a guard: a shell that reads from a pipe which only this
process holds open.  When this process ends, even by ``kill -9``, the system closes the pipe and the
guard kills the group.  No Python code runs between fork and exec, so threads may start programs.
Process groups exist on Linux and macOS.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any, Final

_GUARD: Final = ("/bin/sh", "-c", "read -r _; kill -KILL 0")


@contextmanager
def managed_process(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[Any]]:
    """Start ``command`` with the settings of ``Popen``; on leaving, kill its whole group.

    Raises ``OSError`` if it cannot be started.
    """
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    with ExitStack() as leaving:
        guard = subprocess.Popen(
            _GUARD, stdin=pipe, stdout=null, stderr=null, cwd="/", env={}, process_group=0
        )
        leaving.enter_context(guard)
        leaving.callback(_kill, guard.pid)
        process = subprocess.Popen(command, process_group=guard.pid, **settings)
        leaving.enter_context(process)
        leaving.callback(_kill, guard.pid)
        yield process


def _kill(group: int) -> None:
    # Some systems refuse to signal a group whose processes have all ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


@contextmanager
def leave_on_signals(leftovers: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """On SIGTERM, SIGHUP and SIGINT, kill all children, remove ``leftovers`` and exit.

    The handler raises nothing, since an exception at an arbitrary moment crashes libraries (msgspec
    while it defines a class).  A signal that was ignored before, such as SIGHUP under ``nohup``,
    stays ignored; signals after the first are ignored.
    """
    import psutil  # type: ignore[import-untyped]  # not in the handler, which may interrupt one

    main = threading.current_thread() is threading.main_thread()
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT) if main else ()
    handlers = {number: signal.getsignal(number) for number in numbers}
    usual = {n: h for n, h in handlers.items() if h in (signal.SIG_DFL, signal.default_int_handler)}

    def leave(number: int, frame: FrameType | None) -> None:
        for other in usual:
            signal.signal(other, signal.SIG_IGN)
        # For two seconds: a child may just be starting, and a dying one may still write a file.
        for _ in range(200):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error, ProcessLookupError):
                    if (group := os.getpgid(child.pid)) == os.getpgrp():
                        child.kill()
                    else:
                        _kill(group)  # includes grandchildren whose parent has ended
            for path in (left := list(leftovers())):
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


def remove(path: Path) -> None:
    """Remove a file, a link or a folder as far as possible; follow no link."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
