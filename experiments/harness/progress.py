"""How a run shows itself on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.console import Console


class Observer(Protocol):
    """Who watches a run: a terminal, or a test."""

    def note(self, text: str) -> None:
        """Something worth a line."""

    def debug(self, text: str) -> None:
        """What a process printed, for who asked for it."""

    def progressed(self, text: str | None, done: float, left: str) -> None:
        """The share ``done`` of 1 is done; ``text`` says what just ended, None that time passed."""


class Lines:
    """One line a case."""

    def __init__(self, console: Console, *, debug: bool = False) -> None:
        """Print to ``console``, with ``debug`` what processes print too."""
        self.console = console
        self._debug = debug

    def note(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def debug(self, text: str) -> None:
        """Print what a process printed, if asked to."""
        if self._debug and text:
            self.note(text)

    def progressed(self, text: str | None, done: float, left: str) -> None:
        """A line for each case, with the time left."""
        if text is not None:
            self.note(f"[{done:.0%}, {left} left] {text}")


class Bar(Lines):
    """A bar with the time left, in one line that is written over."""

    def progressed(self, text: str | None, done: float, left: str) -> None:
        """Write over the line; a second in which nothing ended leaves it."""
        if text is None:
            return
        filled = round(20 * done)
        shown = f"{'━' * filled}{' ' * (20 - filled)} {done:4.0%}  {left} left  {text}"
        width = self.console.width - 1
        end = "\n" if done == 1 else "\r"
        self.console.print(shown[:width].ljust(width), end=end, highlight=False, markup=False)


def watch(console: Console, debug: bool = False) -> Lines:
    """The bar on a terminal, else lines."""
    return Bar(console, debug=debug) if console.is_terminal else Lines(console, debug=debug)
