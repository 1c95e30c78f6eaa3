"""SIGTERM and SIGHUP end a command as Ctrl-C does: what it has begun is removed first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def exit_on_signals() -> Iterator[None]:
    """Raise ``SystemExit`` on SIGTERM or SIGHUP, with the exit code of a shell: 128 + number.

    The first signal counts, so that tidying up is not broken off.  One that is ignored, as SIGHUP
    is under ``nohup``, stays so.
    """
    names = ("SIGTERM", "SIGHUP") if threading.current_thread() is threading.main_thread() else ()
    present = (getattr(signal, name) for name in names if hasattr(signal, name))
    numbers = [number for number in present if signal.getsignal(number) is signal.SIG_DFL]

    def leave(number: int, frame: FrameType | None) -> None:
        for each in numbers:
            signal.signal(each, signal.SIG_IGN)
        raise SystemExit(128 + number)

    for number in numbers:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)
