"""How SIGTERM, SIGHUP and Ctrl-C end a command: with what it has begun ended and removed."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import active_children
from pathlib import Path
from types import FrameType
from typing import Final

from report.system.subprocesses import kill_programs

#: The signals that wait for each ``hold_signals`` that has not ended.
_HELD: Final[list[list[int]]] = []
#: How often what still dies is given 10 ms to do so.
_PATIENCE: Final = 200


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise ``SystemExit`` on SIGTERM and SIGHUP, with the exit code of a shell: 128 + number.

    Only for what waits for other processes; see ``leave_on_signals``.
    """

    def leave(number: int) -> None:
        raise SystemExit(128 + number)

    with _handled(leave, ("SIGTERM", "SIGHUP")):
        yield


@contextmanager
def leave_on_signals(leftovers: Callable[[], Iterable[Path]]) -> Iterator[None]:
    """On SIGTERM, SIGHUP and Ctrl-C, remove ``leftovers`` and end this process and its children.

    Nothing is raised, since an exception that comes at any moment crashes libraries: msgspec dies
    of one while it defines a class.
    """

    def leave(number: int) -> None:
        for worker in active_children():
            worker.kill()
            worker.join()
        kill_programs()
        for _ in range(_PATIENCE):
            left = list(leftovers())
            for path in left:
                remove(path)
            if not left:
                break
            time.sleep(0.01)
        os._exit(128 + number)

    with _handled(leave, ("SIGTERM", "SIGHUP", "SIGINT")):
        yield


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


@contextmanager
def _handled(leave: Callable[[int], None], names: Iterable[str]) -> Iterator[None]:
    """Call ``leave`` on the first of the signals, and ignore all that follow.

    One that is ignored before, as SIGHUP is under ``nohup``, stays so.
    """
    main = threading.current_thread() is threading.main_thread()
    numbers = [getattr(signal, name) for name in names if main and hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    usual = {n for n, h in before.items() if h in (signal.SIG_DFL, signal.default_int_handler)}

    def handle(number: int, frame: FrameType | None) -> None:
        if _HELD:
            _HELD[-1].append(number)
            return
        for each in usual:
            signal.signal(each, signal.SIG_IGN)
        leave(number)

    for number in usual:
        signal.signal(number, handle)
    try:
        yield
    finally:
        for number in usual:
            signal.signal(number, before[number])
