"""How far a build is, judged by what steps of each kind usually take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from report.engine.step import Step

#: Called with a few words when a step begins, and the share of the build that is done.
Announce: TypeAlias = Callable[[str, float], None]

#: What each kind of step is called, and the seconds that it usually takes.
_KINDS: Final = {
    "study": ("tables and values", 3.0),
    "samples": ("samples", 2.0),
    "figures": ("figures", 3.0),
    "manuscript": ("document", 0.4),
    "convert": ("text of all formats", 2.0),
    "html": ("HTML", 0.1),
    "single": ("HTML in one file", 0.7),
    "tex": ("LaTeX source", 0.1),
    "latex": ("PDF by LaTeX", 4.0),
    "typst": ("PDF by Typst", 1.5),
    "bundle": ("archive of the LaTeX source", 0.1),
    "index": ("list of studies", 0.6),
    "quarto": ("Quarto project", 0.2),
}


class Progress:
    """Counts what is done of a build in seconds of work."""

    def __init__(self, announce: Announce) -> None:
        self._announce = announce
        self._planned: dict[str, float] = {}
        self._finished: set[str] = set()
        self._share = 0.0

    def plan(self, steps: Iterable[Step]) -> None:
        """Expect ``steps``."""
        self._planned |= {step.id: _KINDS[step.action][1] for step in steps}

    def starts(self, step: Step) -> None:
        """A step begins."""
        words, seconds = _KINDS[step.action]
        self._planned.setdefault(step.id, seconds)
        finished = sum(self._planned.get(id, 0.0) for id in self._finished)
        # New steps may turn up, and a share that falls would look like work undone.
        self._share = max(self._share, finished / sum(self._planned.values()))
        self._announce(f"{step.study or 'all studies'}: {words}", self._share)

    def done(self, step: Step) -> None:
        """A step has ended, or was fresh and counts only if it was expected."""
        self._finished.add(step.id)
