"""The build as ``build.py`` asks for it: what is stale, and making it.

This module and what it imports are on the way to «nothing to do», so they import little; the
rest, with matplotlib and the engines, is imported when a step is stale.  For the same reason the
values here are named tuples: importing ``dataclasses`` takes as long as looking at all files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from report.engine.cache import SCRATCH, Index
from report.engine.plan import World
from report.engine.programs import find_tex
from report.engine.steps import ROOT, SITE, Engine, Output, Request
from report.errors import RenderError

__all__ = ["ROOT", "Engine", "Output", "Request"]

#: Called with the name of a step that begins, the share of the build that is done, and why it runs.
Announce: TypeAlias = Callable[[str, float, str], None]


class Failure(NamedTuple):
    """Why a study could not be built: one sentence, and its traceback.

    What all studies share is called ``site``.
    """

    study: str
    sentence: str
    trace: str = ""


class Summary(NamedTuple):
    """What a build did, or would do: the ``stale`` steps with the reasons, and what to say.

    ``engine`` is the sentence that says by what the PDFs are made, ``made`` the folders and files
    of each study that were replaced.
    """

    stale: Mapping[str, str]
    notices: tuple[str, ...]
    engine: str
    made: Mapping[str, Sequence[Path]] = MappingProxyType({})
    failed: tuple[Failure, ...] = ()


def look(request: Request) -> Summary:
    """What ``build`` would do, without doing it and without writing anything.

    Raises ``RidgepointError`` for an engine that is not there.
    """
    return _look(request)[1]


def build(request: Request, announce: Announce) -> Summary:
    """Make what is stale of what ``request`` asks for.

    Raises ``RidgepointError`` only for what stops every study, such as a missing engine or a folder
    that cannot be written; what goes wrong in one study is in the summary.
    """
    world, found = _look(request)
    if not found.stale and not any(name.startswith(SCRATCH) for name in os.listdir(request.out)):
        world.index.save()
        return found
    from report.engine.place import only_build
    from report.engine.run import run

    with only_build(request.out, lambda: announce("waiting for another build to end", 0.0, "")):
        # What another build has made meanwhile need not be made again.
        world, found = _look(request)
        if found.stale:
            made, failed = run(world, found.stale, announce)
            notices = _notices(world, {failure.study for failure in failed})
            found = found._replace(notices=notices, made=made, failed=tuple(failed))
        world.index.save()
    return found


def _look(request: Request) -> tuple[World, Summary]:
    index = Index(str(request.out))
    if request.engine != "typst" and "pdf" in request.outputs:
        tex = find_tex(index.tex)
        index.learned |= tex != index.tex
        index.tex = tex
    engine, said = choose_engine(request.engine, index.tex.get("lacking", ""))
    world = World(request._replace(engine=engine), index)
    return world, Summary(world.stale(), _notices(world), said)


def _notices(world: World, failed: Collection[str] = ()) -> tuple[str, ...]:
    """What is to be said of the papers that are in place and were asked for."""
    rooms = {*world.request.studies, SITE}.difference(failed)
    own = (entry for id, entry in world.made.items() if id.partition("/")[0] in rooms)
    return tuple(dict.fromkeys(notice for entry in own for notice in entry.notices))


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
