"""How a run shows itself on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from experiments.harness.study import Factors, Study
from experiments.harness.summary import factors_text, outcome_text
from report.records.record import Case

if TYPE_CHECKING:
    from rich.console import Console


class _Watch:
    """What the bar and the lines share."""

    def __init__(self, console: Console, debug: bool = False) -> None:
        self.console = console
        self.debug = debug
        self.cases: tuple[Factors, ...] = ()

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def began(self, cases: tuple[Factors, ...], finished: Mapping[int, Case], study: Study) -> None:
        """Say how much there is to do."""
        self.cases = cases
        left = "; the others are kept from an earlier run, or left to other shards"
        of = f"{len(cases) - len(finished)} of " if finished else ""
        self.note(f"Measuring {of}{len(cases)} cases{left if finished else ''}.")

    def case_began(self, index: int) -> None:
        """Nothing: a line is printed when the case ends."""

    def case_raised(self, index: int, error: Exception) -> None:
        """The traceback, for who asked for it."""
        if self.debug:
            self.note("".join(traceback.format_exception(error)))

    def ended(self) -> None:
        """Nothing to close."""

    def progressed(self, text: str | None, done: float, left: str) -> None:
        """A line for each case, with the time left."""
        if text is not None:
            self.note(f"[{done:.0%}, {left} left] {text}")


class Lines(_Watch):
    """One line a case."""

    def case_ended(self, index: int, case: Case) -> None:
        """The case, its median time and its outcome."""
        place = f"[{index + 1}/{len(self.cases)}]"
        self.note(f"{place} {factors_text(case.factors)}: {outcome_text(case)}")


class Bar(_Watch):
    """A bar with the time left."""

    def began(self, cases: tuple[Factors, ...], finished: Mapping[int, Case], study: Study) -> None:
        """Open the bar; its length is the estimated effort, its count the cases."""
        super().began(cases, finished, study)
        self._effort = [study.effort(factors) for factors in cases]
        # No thread of its own: it would take a core from the case that is being measured.
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}/{task.fields[cases]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self.console,
            auto_refresh=False,
            transient=True,
            speed_estimate_period=3600,
        )
        self._done = len(finished)
        done: Any = sum(self._effort[index] for index in finished)  # rich wants a whole number
        self._task: TaskID = self._bar.add_task(
            "starting",
            total=sum(self._effort),
            completed=done,
            done=self._done,
            cases=len(cases),
        )
        self._bar.start()

    def case_began(self, index: int) -> None:
        """Name the case."""
        self._bar.update(self._task, description=factors_text(self.cases[index]))
        self._bar.refresh()

    def case_ended(self, index: int, case: Case) -> None:
        """Move on; say what did not go well."""
        self._done += 1
        self._bar.update(self._task, advance=self._effort[index], done=self._done)
        self._bar.refresh()
        if case.status != "ok":
            self.note(f"{factors_text(case.factors)}: {outcome_text(case)}")

    def ended(self) -> None:
        """Close the bar."""
        self._bar.stop()

    def progressed(self, text: str | None, done: float, left: str) -> None:
        """One line that is written over, with the time left."""
        shown = f"{done:4.0%}  {left} left  {text or ''}".rstrip()
        width = self.console.width - 1
        end = "\n" if done == 1 else "\r"
        self.console.print(shown[:width].ljust(width), end=end, highlight=False, markup=False)


def watch(console: Console, debug: bool = False) -> Lines | Bar:
    """The bar on a terminal, else lines."""
    return Bar(console, debug) if console.is_terminal else Lines(console, debug)
