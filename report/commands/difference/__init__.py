"""What the papers would say differently from other data: ``python build.py --diff REV``.

``revision`` finds the other data, ``study`` computes each study on both sides where its data
differ, ``compare`` says what differs, and ``text`` and ``page`` tell it.  Code and prose are
today's on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from report.commands.difference.page import write_page
from report.commands.difference.revision import find_data
from report.commands.difference.study import Announce, Studied, study_all
from report.commands.difference.text import difference_text
from report.engine.place import only_build, stage_in
from report.engine.task import unwritable
from report.system.outputs import install

if TYPE_CHECKING:
    from report.engine.pipeline import Request


@dataclass(frozen=True)
class Difference:
    """What the command prints, the page it wrote, and the outcome of each study."""

    text: str
    page: Path
    studies: tuple[Studied, ...]

    @property
    def refused(self) -> tuple[str, ...]:
        """Why studies cannot be computed from the present data, a sentence each."""
        found = (side for studied in self.studies for side in studied.refused)
        return tuple(side.sentence for side in found if side.age == "new")

    @property
    def traces(self) -> tuple[str, ...]:
        """The tracebacks of everything that could not be computed, for ``--debug``."""
        return tuple(side.trace for studied in self.studies for side in studied.refused)

    @property
    def exit_code(self) -> int:
        """0 whether or not anything differs; 1 if the present data cannot be computed."""
        return 1 if self.refused else 0


def difference(request: Request, against: str, announce: Announce = lambda *_: None) -> Difference:
    """Compare the papers from ``against``, a git revision or a directory, with those of today.

    Writes ``diff/`` below ``request.out`` in one step.  Raises ``RidgepointError`` if there are no
    data to compare with, or the page cannot be written; what cannot be computed is in the outcome
    of its study.
    """
    waiting = partial(announce, "waiting for a build to end", 0.0)
    with only_build(request.out, waiting), stage_in(request.out) as scratch:
        origin = find_data(against, request.data, scratch)
        studies = study_all(request, origin.data, announce)
        present, page = _shown(request.data), request.out / "diff" / "index.html"
        try:
            write_page(origin.words, present, studies, scratch / "diff")
            install(scratch / "diff", page.parent)
        except OSError as error:
            raise unwritable(error) from error
    text = difference_text(origin.words, present, studies, _shown(page))
    return Difference(text, page, studies)


def _shown(path: Path) -> str:
    """The path as the user would type it here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
