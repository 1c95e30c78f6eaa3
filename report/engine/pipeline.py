"""The build as ``build.py`` asks for it: what is stale, and making it.

This module and what it imports are on the way to «nothing to do», so they import little; the
rest, with matplotlib and the engines, is imported when a step is stale.  For the same reason the
values here are named tuples: importing ``dataclasses`` takes as long as looking at all files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from report.core.errors import RenderError
from report.core.records import OPERATORS, SHARED
from report.engine.cache import SCRATCH, Entry, Index, files_below, installed, read_manifest
from report.engine.steps import (
    READ,
    ROOT,
    SITE,
    Engine,
    Output,
    Request,
    Step,
    make_step,
    paper_files,
)
from report.studies import STUDIES

__all__ = ["ROOT", "Engine", "Output", "Request"]

#: The data of no study alone.
_COMMON = ("devices.yaml", "editions.yaml", "references.bib", "site.yaml", OPERATORS)
#: What reasons call a setting of a step or a version; a package is called by its name.
_WORDS: Final = {
    "use": "what --use names",
    "style": "the print style asked for",
    "formats": "the formats",
    "studies": "the studies",
    "papers": "the studies with a PDF",
    "engine": "the engine of the PDF",
    "tex": "LaTeX",
    "quarto": "Quarto",
    "to": "what Quarto prints by",
    "python": "Python",
}
#: Lists the new files of a study in the manifest until all of them are in place.
PLACING: Final = "placing"
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


def look(request: Request, *, as_built: bool = False) -> World:
    """The project as it is now; ``stale`` lists the steps that ``build`` would run.

    With ``as_built`` the engine ``auto`` stands for the one that made the PDF of each study.
    Raises ``RidgepointError`` for an engine that is not there.
    """
    index = Index(str(request.out))
    if request.engine != "typst" and "pdf" in request.outputs:
        index.find_tex()
    if request.engine != "auto" or not as_built:
        engine, _ = choose_engine(request.engine, index.tex.get("lacking", ""))
        request = request._replace(engine=engine)
    return World(request, index)


def build(request: Request, announce: Announce) -> Summary:
    """Make what is stale of what ``request`` asks for.

    Raises ``RidgepointError`` only for what stops every study, such as a missing engine or a folder
    that cannot be written; what goes wrong in one study is in the summary.
    """
    world = look(request)
    stale = world.stale()
    made: dict[str, Sequence[Path]] = {}
    failed: list[Failure] = []
    if stale or any(name.startswith(SCRATCH) for name in os.listdir(request.out)):
        from report.engine.place import only_build
        from report.engine.run import run

        with only_build(request.out, lambda: announce("waiting for another build to end", 0.0, "")):
            # What another build has made meanwhile need not be made again.
            world = look(request)
            if stale := world.stale():
                made, failed = run(world, stale, announce)
    world.index.save()
    rooms = {*request.studies, SITE} - {failure.study for failure in failed}
    own = (entry for id, entry in world.made.items() if id.partition("/")[0] in rooms)
    notices = tuple(dict.fromkeys(notice for entry in own for notice in entry.notices))
    _, engine = choose_engine(request.engine, world.index.tex.get("lacking", ""))
    return Summary(stale, notices, engine, made, tuple(failed))


def choose_engine(engine: Engine, lacking: str) -> tuple[Engine, str]:
    """The engine that makes the PDFs, and the sentence that says why it is this one.

    ``lacking`` says what of LaTeX is missing; raises ``RenderError`` if an engine was asked for by
    name that cannot be used.
    """
    if engine == "typst":
        return "typst", "PDF by Typst, as asked."
    if engine == "quarto":
        from report.render.quarto import quarto_version

        by = "Typst, for LaTeX is not complete here" if lacking else "LaTeX"
        return "quarto", f"PDF by Quarto {quarto_version()} with {by}; its site: quarto/_site."
    if not lacking:
        tagged = "--engine typst makes the tagged edition, PDF/UA-1"
        return "latex", f"PDF by LaTeX, without tags; {tagged}."
    if engine == "latex":
        raise RenderError(f"--engine latex: {lacking}")
    return "typst", f"PDF by Typst, for LaTeX is not complete here: {lacking}"


class World:
    """All that the steps of a ``request`` depend on, as it is now, and the steps ``made`` before.

    ``files`` are the inputs that there may be, ``index`` says what is in them and what TeX there
    is.
    """

    def __init__(self, request: Request, index: Index | None = None, root: str = str(ROOT)) -> None:
        self.request, self.root = request, root
        self.index = index or Index(str(request.out))
        self.made = read_manifest(str(request.out))
        self.files = sorted(self._files())
        self._paths = {name: self.source(name) for name in self.files}
        self._versions = installed()

    def _files(self) -> Iterator[str]:
        """The templates, the code and the data that there may be, as the project names them."""
        for room in ("report", "figures", "templates"):
            names = files_below(os.path.join(self.root, room))
            yield from (f"{room}/{name}" for name in names if not name.startswith("papers/"))
        yield from (f"templates/papers/{name}" for name in files_below(str(self.request.papers)))
        for study in self.request.studies:
            names = files_below(os.path.join(self.request.data, study))
            yield from (f"data/{study}/{name}" for name in names)
        yield from (f"data/{name}" for name in _COMMON)
        yield from (f"data/reported/{study}.json" for study in STUDIES)

    def _programs(self, engine: str) -> dict[str, str]:
        """The programs that a PDF by ``engine`` depends on."""
        by_latex = {"tex": str(self.index.tex.get("version", "none"))}
        if engine == "quarto":
            printer = (
                {"to": "typst"} if self.index.tex.get("lacking") else {"to": "pdf", **by_latex}
            )
            return {"quarto": self._quarto(), **printer}
        return by_latex if engine == "latex" else {}

    def _quarto(self) -> str:
        """The version of Quarto, "none" where it cannot be used: then it was not asked for."""
        from report.render.quarto import quarto_version

        with suppress(RenderError):
            return quarto_version()
        return "none"

    def source(self, name: str) -> str:
        """The path of an input file, which is named as in the project."""
        folders = {"data/": self.request.data, "templates/papers/": self.request.papers}
        for prefix, folder in folders.items():
            if name.startswith(prefix):
                own = name.removeprefix(prefix)
                path = f"{folder}/{own}"
                if not own.startswith(SHARED) or os.path.lexists(path):
                    return path
        return f"{self.root}/{name}"

    def output(self, name: str) -> str:
        """The path of an output, which is named relative to ``out/``."""
        return f"{self.request.out}/{name}"

    def study_steps(self, study: str) -> list[Step]:
        """The steps of ``study`` in an order of theirs; its document keeps a format that it has.

        So whoever asks for pages and for print in turns has nothing converted again.
        """
        request, outputs = self.request, self.request.outputs
        page = "html" in outputs or self._has_format(study, "page")
        printed = "pdf" in outputs or self._has_paper(study)
        word = "docx" in outputs or self._has_format(study, "word")
        formats = ["page"] * page + ["print"] * printed
        settings: dict[str, dict[str, str]] = {
            "study": {"use": ", ".join(request.use.get(study, ()))},
            "figures": {},
            "document": {
                "formats": " ".join(formats + ["word"] * word),
                "style": request.style or "",
            },
            "editions": {"formats": " ".join(formats)},
        }
        if "pdf" in outputs:
            built = self.made.get(f"{study}/pdf", Entry({})).inputs.get("engine", "auto")
            engine = built if request.engine == "auto" else request.engine
            settings["pdf"] = {"engine": engine, **self._programs(engine)}
        if "docx" in outputs:
            settings["docx"] = {}
        return [make_step(study, kind, [study], self.files, s) for kind, s in settings.items()]

    def shared_steps(self, sure: Collection[str] = ()) -> list[Step]:
        """The steps that read all studies that have been built by now, those not asked for too.

        They make the Quarto project and the site.  What the studies that are not ``sure`` have made
        is looked at first.
        """
        written = [study for study in STUDIES if self._is_written(study, sure)]
        pages = [study for study in written if self._has_format(study, "page")]
        papers = " ".join(study for study in pages if self._has_paper(study))
        wanted = {"quarto": (written, {"studies": " ".join(written)})}
        if "html" in self.request.outputs:
            wanted["index"] = pages, {"studies": " ".join(pages), "papers": papers}
            by_quarto = f"{SITE}/quarto_site" in self.made and self.request.engine == "auto"
            if written and (by_quarto or self.request.engine == "quarto"):
                wanted["quarto_site"] = [SITE], {"quarto": self._quarto()}
        steps = ((kind, *asked) for kind, asked in wanted.items() if asked[0])
        return [make_step(SITE, kind, studies, self.files, told) for kind, studies, told in steps]

    def _is_written(self, study: str, sure: Collection[str]) -> bool:
        entries = [self.made.get(f"{study}/{kind}") for kind in READ]
        return all(entry and (study in sure or not any(self.altered(entry))) for entry in entries)

    def _has_format(self, study: str, name: str) -> bool:
        """Whether the document of ``study`` was converted to this format."""
        made = self.made.get(f"{study}/document")
        return made is not None and name in made.inputs["formats"].split()

    def _has_paper(self, study: str) -> bool:
        """Whether the PDF lies beside the page of ``study``."""
        return os.path.exists(self.output(paper_files(study)[1]))

    def inputs(self, step: Step, made: Mapping[str, Entry]) -> dict[str, str]:
        """What ``step`` depends on now; ``made`` holds the steps that it reads."""
        found = {name: self.index.digest(self._paths[name]) for name in step.files}
        read = {f"out/{n}": made[id].outputs[n] for id, n in outputs_read(step, made)}
        there = {name: digest for name, digest in found.items() if digest is not None}
        return {**there, **read, **self._versions, **step.settings}

    def reasons(self, step: Step, now: Mapping[str, str]) -> str:
        """Why a step has to run with these inputs, in words; nothing if it is fresh."""
        before = self.made.get(step.id)
        if before is None:
            return "it has not been made yet"
        return "; ".join((*changes(before.inputs, now), *self.altered(before)))

    def altered(self, entry: Entry) -> Iterator[str]:
        """The outputs of a step that are not as it made them."""
        for name, digest in entry.outputs.items():
            found = self.index.digest(self.output(name))
            if found != digest:
                yield f"{name} {'is missing' if found is None else 'was altered'}"

    def left(self) -> list[str]:
        """Entries of the manifest that no step makes: of deleted studies and of broken builds."""
        rooms = (*STUDIES, SITE)
        return [id for id in self.made if id.endswith(PLACING) or id.partition("/")[0] not in rooms]

    def stale(self) -> dict[str, str]:
        """The steps that would have to run, each with the reason, found without running anything.

        Whether a step that reads a stale one has to is known only when that one has run.
        """
        why = "no step makes some of its files any more; a build removes them"
        found = {id.partition("/")[0]: why for id in self.left()}
        studies = self.request.studies
        own = [step for study in studies for step in self.study_steps(study)]
        for step in (*own, *self.shared_steps(studies)):
            read = [id for id, _ in step.reads if id in found or id not in self.made]
            if read:
                found[step.id] = f"it follows from {', '.join(read)}"
            elif why := self.reasons(step, self.inputs(step, self.made)):
                found[step.id] = why
        return found


def outputs_read(step: Step, made: Mapping[str, Entry]) -> Iterator[tuple[str, str]]:
    """The outputs of other steps that ``step`` reads, each behind the step that made it."""
    for id, parts in step.reads:
        for name in made[id].outputs:
            if name.startswith(parts) or name.endswith(parts):
                yield id, name


def changes(old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    """What two inputs of a step differ in, in words: files, and versions and settings."""
    for name in sorted(old.keys() | new.keys()) if old != new else ():
        one, other = old.get(name), new.get(name)
        if one != other and "/" in name:
            yield f"{name} {'is new' if one is None else 'is gone' if other is None else 'changed'}"
        elif one != other:
            yield f"{_WORDS.get(name, name)} changed from {_listed(one)} to {_listed(other)}"


def _listed(value: str | None) -> str:
    return ", ".join((value or "none").replace(",", "").split())
