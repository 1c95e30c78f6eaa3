"""Show a run's progress to the user: finished cases and remaining time."""

import shutil
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from experiments.machine.text import period_text
from report.core.records.record import Case
from report.core.text.format import NO_BREAK, quantity_text

#: Steps of a run: measure memory, measure times, and count executed work.
Stage: TypeAlias = Literal["memory", "times", "counts"]
#: Time between two lines if the standard error is not a terminal (s).
_LINE_EVERY_S: Final = 10.0
#: Largest finished share that is printed before a run ends.
_LARGEST_SHARE: Final = 0.99


class Observer:
    """Progress on the standard error; on a terminal, each line overwrites the last line.

    The finished share weights the steps of the run by their expected times.  Without a terminal, a
    line is printed every ten seconds, even while a long case is measured.
    """

    def __init__(self, *, debug: bool = False) -> None:
        """With ``debug``, also print the output of worker processes."""
        self._debug = debug
        self._expected: dict[Stage, float] = {}
        # Shares of the run's time: earlier steps, current step, and all finished cases.
        self._earlier_share, self._step_share, self._finished_share = 0.0, 1.0, 0.0
        self._start = time.monotonic()
        self._printed_at, self._line = -_LINE_EVERY_S, ""

    def expect(self, seconds: Mapping[Stage, float]) -> None:
        """Set the expected times of all steps (s); from now on, print progress regularly."""
        self._expected = dict(seconds)
        threading.Thread(target=self._show_regularly, daemon=True).start()

    def finish(self) -> None:
        """Stop printing progress."""
        self._line = ""

    def _show_regularly(self) -> None:
        while True:
            time.sleep(_LINE_EVERY_S)
            self.show()

    def note(self, text: str, end: str = "\n") -> None:
        """Print a line, in place of the progress on a terminal."""
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)

    def begin(self, text: str, step: Stage = "memory") -> None:
        """Begin a step of the run, which ``text`` describes to the user."""
        if not self._expected:  # the printed share is then the share of the step
            self._start = time.monotonic()
        total = sum(self._expected.values())
        if total:
            steps = list(self._expected)
            earlier = steps[: steps.index(step)] if step in steps else []
            self._earlier_share = sum(self._expected[name] for name in earlier) / total
            self._step_share = self._expected.get(step, 0.0) / total
        self._printed_at = -_LINE_EVERY_S
        self.note(text)

    def debug(self, text: str) -> None:
        """Print the output of a process if ``--debug`` is given."""
        if self._debug and text:
            self.note(text)

    def progressed(self, text: str, done: float) -> None:
        """Print a finished case and the remaining time; ``done`` is the step's finished share."""
        finished = self._earlier_share + self._step_share * done
        self._finished_share = min(finished, _LARGEST_SHARE)
        self._line = text
        self.show()

    def show(self) -> None:
        """Print the latest progress with the remaining time, if a line is due."""
        now = time.monotonic()
        share = self._finished_share
        divisor = max(share, 1e-3)  # before the first progress, the share is 0
        left = period_text((now - self._start) / divisor * (1 - share))
        line = f"[{share:.0%}, {left} left] {self._line}"
        if sys.stderr.isatty() and self._line:
            self.note(line[: shutil.get_terminal_size().columns - 1], end="")
        elif self._line and now - self._printed_at >= _LINE_EVERY_S:
            self._printed_at = now
            self.note(line)


def measured_text(number: float, unit: str) -> str:
    """Format a measured number with an SI prefix: ``2.04 ms``."""
    return quantity_text(number, unit).replace(NO_BREAK, " ")


def outcome_text(case: Case) -> str:
    """Return the status of a case with its reason, if any."""
    return f"{case.status}: {case.reason}" if case.reason else case.status
