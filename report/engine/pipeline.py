"""The build as ``build.py`` asks for it: what is stale, and making it.

This module and what it imports are on the way to «nothing to do», so they import little; the
rest, with matplotlib and the engines, is imported when a step is stale.  For the same reason the
values here are named tuples: importing ``dataclasses`` takes as long as looking at all files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from report.engine.code import Code
from report.engine.contents import Contents
from report.engine.graph import SCRATCH
from report.engine.manifest import Manifest, read_index, read_manifest, write_index
from report.engine.plan import Goal, Places, Verdict, World, list_files, survey
from report.engine.programs import Tex, find_tex, installed
from report.engine.step import Step, Wanted
from report.errors import RenderError
from report.render.styles import DEFAULT_STANDARD, PdfStandard

if TYPE_CHECKING:
    from report.engine.run import Outcome

Engine: TypeAlias = Literal["auto", "latex", "typst", "quarto"]
Output: TypeAlias = Literal["html", "pdf", "single-file"]
#: Called with a few words when a step begins or ends, and the share of the build that is done.
Announce: TypeAlias = Callable[[str, float], None]
#: Called with a step that is run, and why.
Explain: TypeAlias = Callable[[Step, tuple[str, ...]], None]

ROOT: Final = Path(__file__).resolve().parents[2]


class Request(NamedTuple):
    """What to build, from where and to where.

    ``use`` are records to build from instead of the chosen ones of their devices: study → files
    relative to ``data``.  ``style`` replaces the print style that the papers ask for;
    ``standard`` is that of Typst's PDFs.
    """

    studies: tuple[str, ...]
    outputs: tuple[Output, ...]
    out: Path
    engine: Engine = "auto"
    jobs: int = 1
    data: Path = ROOT / "data"
    papers: Path = ROOT / "templates" / "papers"
    use: Mapping[str, tuple[str, ...]] = MappingProxyType({})
    style: str | None = None
    standard: PdfStandard = DEFAULT_STANDARD


class PdfEngine(NamedTuple):
    """The PDF engine of a build, and the sentence that says why it is this one."""

    name: Literal["latex", "typst"]
    note: str


class Survey(NamedTuple):
    """What a build would do: each step with why it is stale, and the engine of the PDFs."""

    verdicts: tuple[Verdict, ...]
    notices: tuple[str, ...]
    engine: PdfEngine

    @property
    def stale(self) -> tuple[Verdict, ...]:
        """The steps that have something to do, or may have."""
        return tuple(verdict for verdict in self.verdicts if not verdict.fresh)


class Summary(NamedTuple):
    """What a build did; ``outcomes`` are empty when there was nothing to do."""

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


class _Situation(NamedTuple):
    """All that is known before anything is run."""

    goal: Goal
    world: World
    manifest: Manifest
    engine: PdfEngine
    memory: dict[str, dict[str, object]]
    programs: dict[str, object]

    def survey(self) -> Survey:
        verdicts = survey(self.goal, self.manifest, self.world)
        entries = [self.manifest.steps.get(verdict.step.id) for verdict in verdicts]
        notices = (notice for entry in entries if entry for notice in entry.notices)
        return Survey(verdicts, tuple(dict.fromkeys(notices)), self.engine)


def look(request: Request) -> Survey:
    """What ``build`` would do, without doing it and without writing anything.

    Raises ``RidgepointError`` for an engine that is not there.
    """
    return _situation(request).survey()


def build(request: Request, announce: Announce, explain: Explain | None = None) -> Summary:
    """Make what is stale of what ``request`` asks for.

    Raises ``RidgepointError`` only for what stops every study, such as a missing engine or a folder
    that cannot be written; what goes wrong in one study is in the summary.
    """
    situation = _situation(request)
    found = situation.survey()
    if not found.stale:
        _remember(situation, request)
        if _was_killed(situation):
            from report.engine.place import tidy

            tidy(request.out)
        return Summary((), found.notices, found.engine.note)
    from report.engine.place import only_build

    with only_build(request.out, lambda: announce("waiting for another build to end", 0.0)):
        # What another build has made meanwhile need not be made again.
        return _run(_situation(request), request, announce, explain or _silent)


def _was_killed(situation: _Situation) -> bool:
    """Whether a build has left the folder in which it worked, after everything was in place."""
    return any(name.startswith(SCRATCH) for name in os.listdir(situation.world.places.out))


def _run(situation: _Situation, request: Request, announce: Announce, explain: Explain) -> Summary:
    from contextlib import ExitStack

    from report.engine.place import stage_in
    from report.engine.progress import Progress
    from report.engine.run import Runner
    from report.engine.scratch import remove_abandoned
    from report.engine.workers import Workers

    remove_abandoned()
    progress = Progress(announce)
    found = situation.survey()
    progress.plan(verdict.step for verdict in found.stale)
    with ExitStack() as stack:
        stage = stack.enter_context(stage_in(request.out))
        workers = stack.enter_context(Workers(request.jobs))
        runner = Runner(
            situation.goal, situation.world, situation.manifest, stage, workers, progress, explain
        )
        outcomes = tuple(runner.run())
    _remember(situation, request, runner.manifest)
    notices = (notice for outcome in outcomes for notice in outcome.notices)
    return Summary(outcomes, tuple(dict.fromkeys(notices)), situation.engine.note)


def _silent(step: Step, why: tuple[str, ...]) -> None:
    """Nobody asked why."""


def _situation(request: Request) -> _Situation:
    index = read_index(str(request.out))
    contents = Contents(index.get("files"))
    places = Places(str(ROOT), str(request.data), str(request.papers), str(request.out))
    code = Code(places.root, contents, index.get("imports"))
    packages = installed()
    programs: dict[str, object] = dict(index.get("programs", {}))
    tex = Tex("none", "")
    if request.engine in ("auto", "latex") and "pdf" in request.outputs:
        tex, programs = find_tex(programs)
    if request.engine == "quarto":
        packages = {**packages, "quarto": _quarto()}
    engine = choose_engine(request.engine, tex)
    wanted = Wanted(
        html="html" in request.outputs,
        pdf="pdf" in request.outputs,
        single="single-file" in request.outputs,
        engine="quarto" if request.engine == "quarto" else engine.name,
        style=request.style,
        standard=request.standard,
    )
    world = World(places, contents, code, {**packages, "tex": tex.version})
    goal = Goal(request.studies, wanted, list_files(places), request.use)
    return _Situation(goal, world, read_manifest(places.out), engine, index, programs)


def _quarto() -> str:
    """The version of the quarto command; raises ``RenderError`` if there is none that will do."""
    from report.render.quarto import quarto_version

    return quarto_version()


def choose_engine(engine: Engine, tex: Tex | None = None) -> PdfEngine:
    """The engine that makes the PDFs; ``tex`` is what TeX there is, found out if it is not given.

    Raises ``RenderError`` if LaTeX is asked for by name and something of it is missing.
    """
    if engine == "typst":
        return PdfEngine("typst", "PDF by Typst, as asked.")
    if engine == "quarto":
        return PdfEngine("typst", "PDF and HTML by the quarto command, as asked.")
    found = tex or find_tex({})[0]
    if not found.lacking:
        return PdfEngine(
            "latex",
            "PDF by LaTeX, without tags; --engine typst makes the tagged edition, PDF/UA-1.",
        )
    if engine == "latex":
        raise RenderError(f"--engine latex: {found.lacking}")
    return PdfEngine("typst", f"PDF by Typst, for LaTeX is not complete here: {found.lacking}")


def _remember(
    situation: _Situation,
    request: Request,
    manifest: Manifest | None = None,
) -> None:
    """Note what was learnt of this machine, so that the next build need not ask again.

    What a build has put in place is read once more, since putting it there has touched it.
    """
    contents, code = situation.world.contents, situation.world.code
    made = manifest.steps.values() if manifest else ()
    for path in (situation.world.places.made(name) for entry in made for name in entry.outputs):
        contents.forget(path)
        contents.digest(path)
    known = situation.memory
    learned = contents.learned or code.learned or situation.programs != known.get("programs")
    if not (learned or manifest) or not request.out.is_dir():
        return
    write_index(
        {
            "files": {**_others(known.get("files", {}), contents), **contents.memory()},
            "imports": code.memory(),
            "programs": situation.programs,
        },
        str(request.out),
    )


def _others(known: dict[str, object], contents: Contents) -> dict[str, object]:
    """What is remembered of files that this build did not ask for and that still exist."""
    asked = contents.memory()
    return {
        path: seen for path, seen in known.items() if path not in asked and os.path.exists(path)
    }
