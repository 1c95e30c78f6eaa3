"""What a person sees of a run: what ended and the time left, then a table of its cases."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from statistics import median

from experiments.machine.text import factors_text, period_text
from report.instruments import gates
from report.records.record import Case, Record
from report.text.format import NO_BREAK, quantity_text


class Observer:
    """On a terminal a line that the next one is written over; elsewhere a line a case."""

    def __init__(self, *, debug: bool = False) -> None:
        """Print to the standard error, with ``debug`` what processes print too."""
        self._debug = debug
        self._began = 0.0

    def note(self, text: str, end: str = "\n") -> None:
        """Print a line."""
        start = "\r\x1b[K" if sys.stderr.isatty() else ""
        print(f"{start}{text}", end=end, file=sys.stderr, flush=True)

    def begin(self, text: str) -> None:
        """Print what begins now, and of which parts will be done."""
        self._began = time.monotonic()
        self.note(text)

    def debug(self, text: str) -> None:
        """Print what a process printed, if asked to."""
        if self._debug and text:
            self.note(text)

    def progressed(self, text: str, done: float) -> None:
        """Show what ended, the share ``done`` of 1 and the time left at this pace."""
        pace = (time.monotonic() - self._began) / done
        line = f"[{done:.0%}, {period_text(pace * (1 - done))} left] {text}"
        if sys.stderr.isatty() and done < 1:
            self.note(line[: shutil.get_terminal_size().columns - 1], end="")
        else:
            self.note(line)


def shown(number: float, unit: str) -> str:
    """A measured number with a prefix of its unit: ``2.04 ms``."""
    return quantity_text(number, unit).replace(NO_BREAK, " ")


def outcome(record: Record) -> bool:
    """Print all cases, and name what of them is not to be trusted; whether any was measured."""
    print(table(record.cases))
    measured = any(case.status == "ok" for case in record.cases)
    nothing = None if measured else "No case could be measured; the record says why."
    for warning in (instability(record.cases), gates.problem(record), nothing):
        if warning:
            print(warning, file=sys.stderr)
    return measured


def outcome_text(case: Case) -> str:
    """The status of a case, with the reason where there is one."""
    return f"{case.status}: {case.reason}" if case.reason else case.status


def instability(cases: Sequence[Case], named: int = 5) -> str | None:
    """Which results may be unstable and why, in one sentence; None if none is.

    Those whose processes fall into two groups, and those that were disturbed in every process;
    ``named`` of them by name.
    """
    found = [f"{factors_text(case.factors)} ({why})" for case in cases if (why := _unstable(case))]
    if not found:
        return None
    more = f" and {len(found) - named} more" if len(found) > named else ""
    return (
        f"{len(found)} of {len(cases)} results may be unstable: {'; '.join(found[:named])}{more}; "
        "end other programs and run again with --wait-quiet 10."
    )


def _unstable(case: Case) -> str | None:
    for policy in gates.policies(case):
        rounds = case.rounds_under(policy)
        if all(r.disturbance for r in rounds):
            return f"{rounds[0].disturbance}, memory {policy}"
    for policy, low, high in gates.bimodal_times(case):
        groups = f"{shown(low, 's')} to {shown(high, 's')}"
        return f"processes in two groups, {groups}, memory {policy}"
    return None


def table(cases: Sequence[Case]) -> str:
    """One row a case: its factors, median time, samples, allocated peak and outcome."""
    import pandas as pd

    rows = []
    for case in cases:
        times, peaks = case.samples("time"), case.samples("allocated_peak")
        measured = {
            "median time": shown(median(times), "s") if times else "–",
            "timings": len(times) or "–",
            "peak memory": shown(max(peaks), "B") if peaks else "–",
        }
        rows.append({**case.factors, **measured})
    lines = pd.DataFrame(rows, dtype=object).to_string(index=False, na_rep="–").splitlines()
    # Behind the frame, which would make every row as wide as the longest reason.
    ends = ("outcome", *map(outcome_text, cases))
    return "\n".join(f"{line}  {end}" for line, end in zip(lines, ends, strict=True))
