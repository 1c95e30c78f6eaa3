"""Which steps are stale, and why: what they depend on now against what the manifest says."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from report.engine.code import Code
from report.engine.contents import Contents, files_below, text_digest
from report.engine.graph import paper_files, shared_steps, study_steps
from report.engine.manifest import Entry, Inputs, Manifest, chosen
from report.engine.programs import versions
from report.engine.step import Files, Step, Wanted
from report.records import ENDING, IMPORTED, SHARED
from report.studies import STUDIES

_NONE = "none"
#: The steps of a study that those read which all share.
_SHARED = ("manuscript", "convert", "figures")
#: What the parameters of a step say, where they do not say in which formats it is shown.
_PARAMETERS = {"study": "records", "manuscript": "print styles"}


class Places(NamedTuple):
    """Where the project's files lie, as absolute paths."""

    root: str
    data: str
    papers: str
    out: str

    def of(self, name: str) -> str:
        """The path of an input file, which is named as in the project."""
        for prefix, folder in (("data/", self.data), ("templates/papers/", self.papers)):
            if name.startswith(prefix):
                own = name.removeprefix(prefix)
                path = os.path.join(folder, own)
                if own.startswith(SHARED) and not os.path.lexists(path):
                    break
                return path
        return os.path.join(self.root, name)

    def made(self, name: str) -> str:
        """The path of an output, which is named relative to ``out/``."""
        return os.path.join(self.out, name)


class World(NamedTuple):
    """All that steps depend on, as it is now."""

    places: Places
    contents: Contents
    code: Code
    packages: Mapping[str, str]


def list_files(places: Places, studies: Iterable[str] = STUDIES) -> Files:
    """The records of each study and the templates that there are."""
    records = {
        study: tuple(
            f"data/{folder}/{name}"
            for folder in (study, f"{study}/{IMPORTED}")
            for name in sorted(_names(os.path.join(places.data, folder)))
            if name.endswith(ENDING) and not name.startswith(".")
        )
        for study in studies
    }
    templates = files_below(os.path.join(places.root, "templates"))
    return Files(records, tuple(f"templates/{name}" for name in templates))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def inputs_of(step: Step, world: World, done: Mapping[str, Entry]) -> Inputs:
    """What ``step`` depends on now; ``done`` holds the steps that it reads.

    Files that are not there count too: a step is run again when they appear.
    """
    files = {name: world.contents.digest(world.places.of(name)) or _NONE for name in step.files}
    return Inputs(
        files=files,
        code=world.code.digest(step.roots),
        versions=versions(step.packages, world.packages),
        upstream={
            read.id: _digest_of(chosen(done[read.id].outputs, read.endings)) for read in step.reads
        },
        parameters=dict(step.parameters),
    )


def _digest_of(outputs: Mapping[str, str]) -> str:
    return text_digest(*(f"{name} {outputs[name]}" for name in sorted(outputs)))


def reasons(step: Step, inputs: Inputs, old: Manifest, world: World) -> Iterator[str]:
    """Why ``step`` has to run, in words; nothing if it is fresh."""
    entry = old.steps.get(step.id)
    if entry is None:
        yield "it has not been made yet"
        return
    before = entry.inputs
    yield from _changes("", before.files, inputs.files)
    if before.code != inputs.code:
        now = world.code.closure(step.roots)
        yield from _changes("", old.closures.get(before.code, {}), now) or ("its code changed",)
    yield from _versions(before.versions, inputs.versions)
    yield from _changes("what it reads of ", before.upstream, inputs.upstream)
    if not _is_as_good(before.parameters, inputs.parameters):
        yield f"other {_PARAMETERS.get(step.action, 'formats')} are wanted"
    yield from altered(entry, world)


def _is_as_good(before: Mapping[str, str], now: Mapping[str, str]) -> bool:
    """Whether the parameters are the same, but for formats that nobody asks for this time.

    A page leads to a PDF where a format of print was written with it, whichever that was.
    """
    if before.keys() == now.keys() == {"formats"}:
        old, new = before["formats"].split(), now["formats"].split()
        return set(new) <= set(old) and (len(new) > 1) == (len(old) > 1)
    return before == now


def altered(entry: Entry, world: World) -> Iterator[str]:
    """The outputs of a step that are not as it made them."""
    for name, digest in entry.outputs.items():
        found = world.contents.digest(world.places.made(name))
        if found != digest:
            yield f"{name} {'is missing' if found is None else 'was altered'}"


def _changes(what: str, old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    names = sorted(old.keys() | new.keys())
    return [
        f"{what}{name} {_change(old.get(name, _NONE), new.get(name, _NONE))}"
        for name in names
        if old.get(name, _NONE) != new.get(name, _NONE)
    ]


def _change(old: str, new: str) -> str:
    return "is new" if old == _NONE else "is gone" if new == _NONE else "changed"


def _versions(old: Mapping[str, str], new: Mapping[str, str]) -> list[str]:
    return [
        f"{name} is {new.get(name, _NONE)} and was {old.get(name, _NONE)}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name) != new.get(name)
    ]


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


def survey(goal: Goal, old: Manifest, world: World) -> tuple[Verdict, ...]:
    """What would have to run, found without running anything."""
    verdicts: dict[str, Verdict] = {}
    for step in goal.steps(old, world):
        after = tuple(
            read.id
            for read in step.reads
            if read.id not in old.steps or (read.id in verdicts and not verdicts[read.id].fresh)
        )
        why = () if after else tuple(reasons(step, inputs_of(step, world, old.steps), old, world))
        verdicts[step.id] = Verdict(step, why, after)
    return tuple(verdicts.values())


class Goal(NamedTuple):
    """What a build is asked for: the studies, the formats, and all input files there are.

    ``use`` are the records that the user wants in this build: study → files relative to the data
    directory.
    """

    studies: tuple[str, ...]
    wanted: Wanted
    files: Files
    use: Mapping[str, tuple[str, ...]] = MappingProxyType({})

    def steps(self, entries: Manifest, world: World) -> tuple[Step, ...]:
        """All steps."""
        own = [step for study in self.studies for step in self.study_steps(study, world)]
        return (*own, *self.shared_steps(entries.steps, world, self.studies))

    def study_steps(self, study: str, world: World) -> tuple[Step, ...]:
        """The steps of ``study``."""
        links = self.wanted.pdf or _has_paper(study, world)
        use = self.use.get(study, ())
        return study_steps(study, self.files, self.wanted, use, links_pdf=links)

    def shared_steps(
        self, entries: Mapping[str, Entry], world: World, sure: Iterable[str]
    ) -> tuple[Step, ...]:
        """The steps that read all studies that have been built by now, those not asked for too.

        What the studies that are not ``sure`` have made is looked at first.
        """
        there = [
            study
            for study in STUDIES
            if _is_built(study, entries) and (study in sure or _is_in_place(study, entries, world))
        ]
        pages = {
            study: _has_paper(study, world)
            for study in there
            if (page := entries.get(f"{study}/html")) is not None
            and (study in sure or not any(altered(page, world)))
        }
        return shared_steps(there, pages, self.files, self.wanted)


def _has_paper(study: str, world: World) -> bool:
    """Whether the PDF lies beside the page of ``study``."""
    return os.path.exists(world.places.made(paper_files(study)[1]))


def _is_built(study: str, entries: Mapping[str, Entry]) -> bool:
    return all(f"{study}/{action}" in entries for action in _SHARED)


def _is_in_place(study: str, entries: Mapping[str, Entry], world: World) -> bool:
    """Whether what the shared steps read of a study is as it was made."""
    return not any(any(altered(entries[f"{study}/{action}"], world)) for action in _SHARED)
