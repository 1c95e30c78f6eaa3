"""The build as ``build.py`` asks for it: what is stale, and making it.

This module and what it imports are on the way to «nothing to do», so they import little; the
rest, with matplotlib and the engines, is imported when a step is stale.  For the same reason the
values here are named tuples: importing ``dataclasses`` takes as long as looking at all files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeAlias

from report.engine.cache import SCRATCH, read_index, write_index
from report.engine.plan import World
from report.engine.programs import find_tex
from report.engine.steps import ROOT, Engine, Output, Request
from report.errors import RenderError

__all__ = ["ROOT", "Engine", "Output", "Request"]

#: Called with the name of a step that begins, and the share of the build that is done.
Announce: TypeAlias = Callable[[str, float], None]
#: Called with a step that is run, and why.
Explain: TypeAlias = Callable[[str, str], None]


class Outcome(NamedTuple):
    """What a build did with one study: what it replaced, what to say, or why it failed.

    What all studies share is called ``site``.  ``failure`` is one sentence, ``trace`` its
    traceback.
    """

    study: str
    made: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()
    failure: str | None = None
    trace: str = ""


class Summary(NamedTuple):
    """What a build did, or would do: the ``stale`` steps with the reasons, and their outcomes.

    ``engine`` is the sentence that says by what the PDFs are made.
    """

    stale: Mapping[str, str]
    outcomes: tuple[Outcome, ...]
    notices: tuple[str, ...]
    engine: str

    @property
    def made(self) -> tuple[Path, ...]:
        """The folders and files that were replaced."""
        return tuple(path for outcome in self.outcomes for path in outcome.made)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The studies that could not be built."""
        return tuple(outcome for outcome in self.outcomes if outcome.failure)


def look(request: Request) -> Summary:
    """What ``build`` would do, without doing it and without writing anything.

    Raises ``RidgepointError`` for an engine that is not there.
    """
    return _look(request)[1]


def build(request: Request, announce: Announce, explain: Explain | None = None) -> Summary:
    """Make what is stale of what ``request`` asks for.

    Raises ``RidgepointError`` only for what stops every study, such as a missing engine or a folder
    that cannot be written; what goes wrong in one study is in the summary.
    """
    world, found = _look(request)
    if not found.stale and not any(name.startswith(SCRATCH) for name in os.listdir(request.out)):
        _remember(world)
        return found
    from report.engine.place import only_build
    from report.engine.run import run

    with only_build(request.out, lambda: announce("waiting for another build to end", 0.0)):
        # What another build has made meanwhile need not be made again.
        world, found = _look(request)
        if found.stale:
            outcomes = run(world, found.stale, announce, explain)
            notices = (notice for outcome in outcomes for notice in outcome.notices)
            found = found._replace(outcomes=outcomes, notices=tuple(dict.fromkeys(notices)))
        _remember(world)
    return found


def _look(request: Request) -> tuple[World, Summary]:
    known = read_index(str(request.out))
    tex = known["tex"]
    if request.engine != "typst" and "pdf" in request.outputs:
        tex = find_tex(tex)
    engine, note = choose_engine(request.engine, tex.get("lacking", ""))
    world = World(request._replace(engine=engine), known, tex)
    stale, rooms = world.stale(), {*request.studies, "site"}
    own = (entry for id, entry in world.made.items() if id.partition("/")[0] in rooms)
    notices = dict.fromkeys(notice for entry in own for notice in entry.notices)
    return world, Summary(stale, (), tuple(notices), note)


def choose_engine(engine: Engine, lacking: str) -> tuple[Engine, str]:
    """The engine that makes the PDFs, and the sentence that says why it is this one.

    ``lacking`` says what of LaTeX is missing; raises ``RenderError`` if it was asked for by name.
    """
    if engine == "typst":
        return "typst", "PDF by Typst, as asked."
    if not lacking:
        tagged = "--engine typst makes the tagged edition, PDF/UA-1"
        return "latex", f"PDF by LaTeX, without tags; {tagged}."
    if engine == "latex":
        raise RenderError(f"--engine latex: {lacking}")
    return "typst", f"PDF by Typst, for LaTeX is not complete here: {lacking}"


def _remember(world: World) -> None:
    """Note what was learnt of this machine, so that the next build need not ask again."""
    if world.contents.learned or world.tex != world.known["tex"]:
        write_index(world.contents, world.tex, str(world.request.out))
