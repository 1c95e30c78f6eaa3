"""Runs one attack under a time limit and judges what came of it."""

from __future__ import annotations

import math
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from report.errors import RidgepointError
from tests.fuzz.outcome import Outcome, Report

TIME_LIMIT_S = 20


class SlowError(BaseException):
    """Longer than any input of this size may take; no handler of errors catches it."""


@contextmanager
def limited() -> Iterator[None]:
    """Stop what takes too long."""

    def stop(*_: object) -> None:
        raise SlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def judge(kind: str, file: str, act: Callable[[], Outcome]) -> Report:
    """What came of ``act``, which reads ``file``; a refusal must name it in one short line."""
    try:
        with limited():
            return Report(kind, act(), "")
    except RidgepointError as error:
        text = str(error)
        sound = len(text) <= 300 and len(text.splitlines()) == 1 and file in text
        return Report(kind, Outcome.REFUSED if sound else Outcome.WRONG, text)
    except SlowError:
        return Report(kind, Outcome.WRONG, f"took longer than {TIME_LIMIT_S} s")
    except AssertionError as error:
        return Report(kind, Outcome.WRONG, str(error))
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{place.filename}:{place.lineno}"
        return Report(kind, Outcome.WRONG, f"{type(error).__name__} at {where}: {error}"[:400])


def not_finite(content: Any, path: str = "") -> Iterator[str]:
    """The places of numbers in ``content`` that are none."""
    if isinstance(content, dict):
        for key, part in content.items():
            yield from not_finite(part, f"{path}.{key}")
    elif isinstance(content, list | tuple):
        for index, part in enumerate(content):
            yield from not_finite(part, f"{path}[{index}]")
    elif isinstance(content, float) and not math.isfinite(content):
        yield path
