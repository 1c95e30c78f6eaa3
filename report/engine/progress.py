"""How far a build is, judged by what its steps took the last time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from report.engine.step import Step

#: Called with a few words when a step begins or ends, and the share of the build that is done.
Announce: TypeAlias = Callable[[str, float], None]

#: What a step of each kind takes, as measured once; only the time left is computed from it.
_USUAL: Final = {
    "study": 1.2, "samples": 0.6, "figure": 0.2, "manuscript": 0.3, "convert": 1.0,
    "html": 0.2, "single": 0.7, "tex": 0.1, "latex": 4.0, "typst": 0.6, "bundle": 0.1,
    "index": 0.3, "quarto": 0.3,
}  # fmt: skip
#: How many figures a study is taken to have before it is known.
_FIGURES: Final = 10
_WORDS: Final = {
    "study": "tables and values", "samples": "samples", "figure": "figure",
    "manuscript": "document", "convert": "text of all formats", "html": "HTML",
    "single": "HTML in one file", "tex": "LaTeX source", "latex": "PDF by LaTeX",
    "typst": "PDF by Typst", "bundle": "archive of the LaTeX source",
    "index": "list of studies", "quarto": "Quarto project",
}  # fmt: skip


class Progress:
    """Counts what is done of a build in seconds of work; ``seconds`` are those of last time."""

    def __init__(self, announce: Announce, seconds: dict[str, float]) -> None:
        self._announce = announce
        self.seconds = dict(seconds)
        self._planned: dict[str, float] = {}
        self._finished: set[str] = set()
        self._share = 0.0

    def plan(self, steps: Iterable[Step], studies: Iterable[str]) -> None:
        """Expect ``steps``, and figures for the ``studies`` whose figures are not known yet."""
        self._planned |= {step.id: self._expected(step) for step in steps}
        for study in studies:
            self._planned[f"{study}/figures"] = _FIGURES * _USUAL["figure"]

    def starts(self, step: Step) -> None:
        """A step begins."""
        self._planned.setdefault(step.id, self._expected(step))
        self._say(step, "")

    def done(self, step: Step, seconds: float | None = None) -> None:
        """A step has ended after ``seconds``, or was fresh."""
        self._finished.add(step.id)
        if step.action == "study":
            self._planned.pop(f"{step.study}/figures", None)
        if seconds is None:
            self._planned[step.id] = 0.0
            return
        self.seconds[step.id] = round(seconds, 3)
        self._planned.setdefault(step.id, seconds)

    def _expected(self, step: Step) -> float:
        return self.seconds.get(step.id, _USUAL[step.action])

    def _say(self, step: Step, end: str) -> None:
        total = sum(self._planned.values())
        finished = sum(self._planned.get(id, 0.0) for id in self._finished)
        name = dict(step.parameters).get("name", "") if step.action == "figure" else ""
        words = " ".join(word for word in (_WORDS[step.action], name, end) if word)
        # New steps may turn up, and a share that falls would look like work undone.
        self._share = max(self._share, finished / total if total else 0.0)
        self._announce(f"{step.study or 'all studies'}: {words}", self._share)
