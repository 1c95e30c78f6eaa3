"""Which steps are stale, and why: what they depend on now against what the manifest says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from report.engine.cache import Contents, Entry, files_below, text_digest
from report.engine.programs import versions
from report.engine.steps import Request, Step, formats, paper_files, shared_steps, study_steps
from report.records import SHARED
from report.studies import STUDIES

_NONE = "none"
#: What is otherwise where a parameter is, as a user asks for it.
_WANTED = {"use": "records", "style": "print styles"}


class World(NamedTuple):
    """All that steps depend on, as it is now, and the ``entries`` of those that have been made.

    ``names`` are all input files but data that studies share, ``inputs`` the digests of those that
    were looked at; the engine of the ``request`` is latex or typst, and ``note`` says why.
    ``known`` is what was remembered of this machine, ``tex`` what TeX there is.
    """

    root: str
    request: Request
    names: tuple[str, ...]
    contents: Contents
    packages: Mapping[str, str]
    entries: dict[str, Entry]
    inputs: dict[str, str]
    known: Mapping[str, Any] = MappingProxyType({})
    tex: Mapping[str, Any] = MappingProxyType({})
    note: str = ""

    def source(self, name: str) -> str:
        """The path of an input file, which is named as in the project."""
        folders = {"data/": self.request.data, "templates/papers/": self.request.papers}
        for prefix, folder in folders.items():
            if name.startswith(prefix):
                own = name.removeprefix(prefix)
                path = f"{folder}/{own}"
                if own.startswith(SHARED) and not os.path.lexists(path):
                    break
                return path
        return f"{self.root}/{name}"

    def made(self, name: str) -> str:
        """The path of an output, which is named relative to ``out/``."""
        return f"{self.request.out}/{name}"

    def digests(self, names: Iterable[str]) -> dict[str, str]:
        """What is to be found in input files; those that are not there count too."""
        for name in names:
            if name not in self.inputs:
                self.inputs[name] = self.contents.digest(self.source(name)) or _NONE
        return {name: self.inputs[name] for name in names}

    def study_steps(self, study: str) -> list[Step]:
        """The steps of ``study``."""
        old = self.entries.get(f"{study}/document")
        before = old.parameters.get("formats", "") if old else ""
        written = formats(self.request, before, has_paper=self._has_paper(study))
        return study_steps(study, self.request, self.names, written)

    def shared_steps(self, sure: Iterable[str] = ()) -> list[Step]:
        """The steps that read all studies that have been built by now, those not asked for too.

        What the studies that are not ``sure`` have made is looked at first.
        """
        there = {
            study: document
            for study in STUDIES
            if (document := self.entries.get(f"{study}/document")) is not None
            and (figures := self.entries.get(f"{study}/figures")) is not None
            and (study in sure or not any((*altered(document, self), *altered(figures, self))))
        }
        pages = {
            study: self._has_paper(study)
            for study, document in there.items()
            if "html" in document.parameters.get("formats", "").split()
        }
        return shared_steps([*there], pages, self.request, self.names)

    def _has_paper(self, study: str) -> bool:
        """Whether the PDF lies beside the page of ``study``."""
        return os.path.exists(self.made(paper_files(study)[1]))


def list_files(root: str, request: Request) -> tuple[str, ...]:
    """The templates, the code and the records that there are, as the project names them."""
    rooms = [(f"{name}/", os.path.join(root, name)) for name in ("report", "figures", "templates")]
    own = [(f"data/{study}/", os.path.join(request.data, study)) for study in request.studies]
    return tuple(prefix + name for prefix, folder in (*rooms, *own) for name in files_below(folder))


def inputs_of(step: Step, world: World, done: Mapping[str, Entry]) -> Entry:
    """What ``step`` depends on now; ``done`` holds the steps that it reads."""
    return Entry(
        files=world.digests(step.files),
        versions=versions(step.packages, world.packages),
        upstream={
            id: text_digest(*(f"{name} {digest}" for name, digest in chosen(done[id], prefixes)))
            for id, prefixes in step.reads
        },
        parameters=dict(step.parameters),
    )


def chosen(entry: Entry, prefixes: tuple[str, ...]) -> list[tuple[str, str]]:
    """The outputs of a step whose names begin with one of ``prefixes``, with their digests."""
    return sorted(item for item in entry.outputs.items() if item[0].startswith(prefixes))


def reasons(id: str, now: Entry, world: World) -> Iterator[str]:
    """Why a step has to run, in words; nothing if it is fresh."""
    before = world.entries.get(id)
    if before is None:
        yield "it has not been made yet"
        return
    yield from _changes("", before.files, now.files)
    for name, (old, new) in _unequal(before.versions, now.versions):
        yield f"{name} is {new} and was {old}"
    yield from _changes("what it reads of ", before.upstream, now.upstream)
    for name, _ in _unequal(before.parameters, now.parameters):
        yield f"other {_WANTED.get(name, 'formats')} are wanted"
    yield from altered(before, world)


def altered(entry: Entry, world: World) -> Iterator[str]:
    """The outputs of a step that are not as it made them."""
    for name, digest in entry.outputs.items():
        found = world.contents.digest(world.made(name))
        if found != digest:
            yield f"{name} {'is missing' if found is None else 'was altered'}"


def _changes(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for name, (one, other) in _unequal(old, new):
        change = "is new" if one == _NONE else "is gone" if other == _NONE else "changed"
        yield f"{what}{name} {change}"


def _unequal(
    old: Mapping[str, str], new: Mapping[str, str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """What differs, by its name, with both sides."""
    for name in sorted(old.keys() | new.keys()) if old != new else ():
        sides = old.get(name, _NONE), new.get(name, _NONE)
        if sides[0] != sides[1]:
            yield name, sides


class Verdict(NamedTuple):
    """Whether a step has to run; with no ``reasons`` it may still follow from ``after``.

    ``after`` are the stale steps that it reads: whether it runs is known when they have run.
    """

    step: Step
    reasons: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def fresh(self) -> bool:
        """Whether the step has nothing to do for certain."""
        return not self.reasons and not self.after


def survey(world: World) -> tuple[Verdict, ...]:
    """What would have to run, found without running anything."""
    verdicts: dict[str, Verdict] = {}
    studies = world.request.studies
    own = [step for study in studies for step in world.study_steps(study)]
    for step in (*own, *world.shared_steps(studies)):
        after = tuple(
            id
            for id, _ in step.reads
            if id not in world.entries or (id in verdicts and not verdicts[id].fresh)
        )
        now = None if after else inputs_of(step, world, world.entries)
        why = tuple(reasons(step.id, now, world)) if now else ()
        verdicts[step.id] = Verdict(step, why, after)
    return tuple(verdicts.values())
