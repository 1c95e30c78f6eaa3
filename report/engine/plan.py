"""Which steps are stale, and why: what they depend on now against what the manifest says."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from report.engine.cache import Entry, Index, files_below, read_manifest
from report.engine.programs import installed
from report.engine.steps import READ, ROOT, SITE, Request, Step, make_step, paper_files
from report.records import ENDING, OPERATORS, SHARED
from report.studies import STUDIES

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
    "python": "Python",
}


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
        self._versions, self._tex = installed(), str(self.index.tex.get("version", "none"))

    def _files(self) -> Iterator[str]:
        """The templates, the code and the data that there may be, as the project names them."""
        for room in ("report", "figures", "templates"):
            names = files_below(os.path.join(self.root, room))
            yield from (f"{room}/{name}" for name in names if not name.startswith("papers/"))
        yield from (f"templates/papers/{name}" for name in files_below(str(self.request.papers)))
        for study in self.request.studies:
            names = files_below(os.path.join(self.request.data, study))
            yield from (f"data/{study}/{name}" for name in names if name.endswith(ENDING))
        yield from (f"data/{name}" for name in _COMMON)
        yield from (f"data/reported/{study}.json" for study in STUDIES)

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
        page = "html" in outputs or self._has_page(study)
        printed = "pdf" in outputs or self._has_paper(study)
        formats = " ".join(["page"] * page + ["print"] * printed)
        settings: dict[str, dict[str, str]] = {
            "study": {"use": ", ".join(request.use.get(study, ()))},
            "figures": {},
            "document": {"formats": formats, "style": request.style or ""},
            "editions": {"formats": formats},
        }
        if "pdf" in outputs:
            settings["pdf"] = {"engine": request.engine}
        return [make_step(study, kind, [study], self.files, s) for kind, s in settings.items()]

    def shared_steps(self, sure: Collection[str] = ()) -> list[Step]:
        """The steps that read all studies that have been built by now, those not asked for too.

        They make the Quarto project and the site.  What the studies that are not ``sure`` have made
        is looked at first.
        """
        written = [
            study
            for study in STUDIES
            if all(f"{study}/{kind}" in self.made for kind in READ)
            and (study in sure or not any(self._altered(study)))
        ]
        pages = [study for study in written if self._has_page(study)]
        papers = " ".join(study for study in pages if self._has_paper(study))
        steps: list[Step] = []
        if written:
            settings = {"studies": " ".join(written)}
            steps.append(make_step(SITE, "quarto", written, self.files, settings))
        if pages and "html" in self.request.outputs:
            settings = {"studies": " ".join(pages), "papers": papers}
            steps.append(make_step(SITE, "index", pages, self.files, settings))
        return steps

    def _altered(self, study: str) -> Iterator[str]:
        for kind in READ:
            yield from self.altered(self.made[f"{study}/{kind}"])

    def _has_page(self, study: str) -> bool:
        made = self.made.get(f"{study}/document")
        return made is not None and "page" in made.inputs["formats"]

    def _has_paper(self, study: str) -> bool:
        """Whether the PDF lies beside the page of ``study``."""
        return os.path.exists(self.output(paper_files(study)[1]))

    def inputs(self, step: Step, made: Mapping[str, Entry]) -> dict[str, str]:
        """What ``step`` depends on now; ``made`` holds the steps that it reads."""
        found = {name: self.index.digest(self._paths[name]) for name in step.files}
        read = {f"out/{n}": made[id].outputs[n] for id, n in outputs_read(step, made)}
        there = {name: digest for name, digest in found.items() if digest is not None}
        tex = {"tex": self._tex} if step.settings.get("engine") == "latex" else {}
        return {**there, **read, **self._versions, **tex, **step.settings}

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

    def stale(self) -> dict[str, str]:
        """The steps that would have to run, each with the reason, found without running anything.

        Whether a step that reads a stale one has to is known only when that one has run.
        """
        found: dict[str, str] = {}
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
