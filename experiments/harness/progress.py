"""What a person sees of a run: a bar or lines while it measures, then a table of its cases."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import TYPE_CHECKING

from experiments.harness.text import bytes_text, duration_text, factors_text, period_text
from report.instruments import gates
from report.records.record import Case, Record

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


class Observer:
    """On a terminal a bar with the time left, which is written over; elsewhere a line a case."""

    def __init__(self, console: Console, *, debug: bool = False) -> None:
        """Print to ``console``, with ``debug`` what processes print too."""
        self.console = console
        self._debug = debug
        self._began = 0.0

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

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
        left = f"{period_text(pace * (1 - done))} left"
        if not self.console.is_terminal:
            self.note(f"[{done:.0%}, {left}] {text}")
            return
        shown = f"{'━' * round(20 * done):20} {done:4.0%}  {left}  {text}"
        width, end = self.console.width - 1, "\n" if done == 1 else "\r"
        self.console.print(shown[:width].ljust(width), end=end, highlight=False, markup=False)


def outcome(record: Record) -> bool:
    """Print all cases, and name what of them is not to be trusted; whether any was measured."""
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 120).print(table(record.cases))
    measured = any(case.status == "ok" for case in record.cases)
    nothing = None if measured else "No case could be measured; the record says why."
    for warning in (instability(record.cases), gates.problem(record), nothing):
        if warning:
            print(warning, file=sys.stderr)
    return measured


def outcome_text(case: Case) -> str:
    """The median time of a case that is ok, else its status with the reason."""
    if case.status != "ok":
        return f"{case.status}: {case.reason}"
    times = case.samples("time")
    return f"{duration_text(median(times))} ({len(times)} samples)" if times else "ok"


def instability(cases: Sequence[Case], named: int = 5) -> str | None:
    """Which results may be unstable and why, in one sentence; None if none is.

    Those whose processes fall into two groups, and those that were disturbed in every process;
    ``named`` of them by name.
    """
    reasons = ((factors_text(case.factors), _unstable(case)) for case in cases)
    found = [f"{name} ({why})" for name, why in reasons if why]
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
        groups = f"{duration_text(low)} to {duration_text(high)}"
        return f"processes in two groups, {groups}, memory {policy}"
    return None


def table(cases: Sequence[Case]) -> Table:
    """One row a case: median time, samples, allocated peak, outcome; 80 columns."""
    from rich.box import SIMPLE
    from rich.markup import escape
    from rich.table import Table

    found = Table(box=SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    found.add_column("case", overflow="fold")
    for name in ("median time", "samples", "peak memory"):
        found.add_column(name, justify="right", no_wrap=True)
    found.add_column("outcome", overflow="fold", min_width=8)
    for case in cases:
        times, peaks = case.samples("time"), case.samples("allocated_peak")
        cells = (
            factors_text(case.factors),
            duration_text(median(times)) if times else "–",
            str(len(times)) if times else "–",
            bytes_text(max(peaks)) if peaks else "–",
            case.status if case.reason is None else f"{case.status}: {case.reason}",
        )
        found.add_row(*map(escape, cells))  # «.[jax]» is no style
    return found
