"""A peer as a participant: its project in a scratch folder, its changes, its checks."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from benchmarks.pages import read_page
from benchmarks.peers.install import cores, install
from benchmarks.peers.peer import Peer, project_files, write_project
from benchmarks.peers.shared.results_of import numbers
from benchmarks.peers.work import (
    DOCUMENTS,
    EDITED_DATA,
    EDITED_FIGURE,
    EDITED_PROSE,
    FIGURES,
    WORDS,
    data_text,
    shown_figures,
)
from benchmarks.results import Sample, Tool
from benchmarks.scenarios import Expected, Pages, Scenario, cold_faults, faults
from benchmarks.timing import Command, run

#: Makes every edited number another one, in all of its digits that are printed.
_STEP: Final = 1_003_007
_COLOUR: Final = re.compile(r'color="#0072b[0-9a-f]"')


class PeerSubject:
    """See ``benchmarks.subject.Subject``."""

    scenarios: Final = frozenset(Scenario) - {Scenario.STYLE}

    def __init__(self, peer: Peer, folder: Path, cache: Path) -> None:
        """``folder`` is where the project is written, ``cache`` where the peer is installed."""
        self._peer, self._folder, self._cache = peer, folder, cache
        self._environment: dict[str, str] = {}
        self._before: Pages = {}
        self.tool: Final = Tool(
            name=peer.name, title=peer.title, makes=peer.makes, caching=peer.caching, missing=None
        )

    def prepare(self) -> dict[str, str]:
        """See ``Subject``; raises ``InstallError`` where the peer cannot be had."""
        kit = install(self._peer.kit, self._cache)
        self._environment = kit.environment
        write_project(self._peer, self._folder)
        self.measure(Scenario.COLD)
        return kit.versions

    def change(self, scenario: Scenario, turn: int) -> None:
        """See ``Subject``."""
        self._before = self._pages()
        changes: dict[Scenario, Callable[[], None]] = {
            Scenario.COLD: self._remove_built,
            Scenario.RECORD: lambda: change_data(self._folder),
            Scenario.PROSE: lambda: change_word(self._folder, self._peer, turn),
            Scenario.DRAWING: lambda: change_drawing(self._folder, turn),
            Scenario.TOUCH: self._touch,
        }
        changes.get(scenario, lambda: None)()

    def measure(self, scenario: Scenario) -> Sample:
        """See ``Subject``."""
        arguments = tuple(part.format(cores=cores()) for part in self._peer.command)
        sample, _ = run(Command(arguments, self._folder, self._environment))
        return sample

    def faults(self, scenario: Scenario, last: bool) -> tuple[str, ...]:
        """See ``Subject``."""
        after, shown = self._pages(), self._shown()
        if scenario is Scenario.COLD:
            return cold_faults(after, shown, len(FIGURES))
        return faults(self._before, after, expected(scenario, shown))

    def _pages(self) -> Pages:
        paths = {document: self._peer.page.format(document=document) for document in DOCUMENTS}
        return {document: read_page(self._folder / path) for document, path in paths.items()}

    def _shown(self) -> dict[str, tuple[str, ...]]:
        """The numbers that each page has to print, and the word that stands in it now."""
        return {
            document: (
                *numbers(read_data(self._folder, document)).values(),
                word_in((self._folder / self._peer.source.format(document=document)).read_text()),
            )
            for document in DOCUMENTS
        }

    def _remove_built(self) -> None:
        for name in self._peer.built:
            shutil.rmtree(self._folder / name, ignore_errors=True)
            if (self._folder / name).is_file():
                (self._folder / name).unlink()

    def _touch(self) -> None:
        for name in project_files(self._peer):
            os.utime(self._folder / name)


def expected(scenario: Scenario, shown: dict[str, tuple[str, ...]]) -> Expected:
    """What each change has to lead to in the five documents.

    What an earlier change left stale is not held against a later one.
    """
    place = shown_figures().index(EDITED_FIGURE)
    if scenario is Scenario.RECORD:
        new = {EDITED_DATA: shown[EDITED_DATA]}
        return Expected(frozenset({EDITED_DATA}), frozenset({(EDITED_DATA, place)}), new)
    if scenario is Scenario.PROSE:
        new = {EDITED_PROSE: shown[EDITED_PROSE]}
        return Expected(words=frozenset({EDITED_PROSE}), shown=new)
    if scenario is Scenario.DRAWING:
        return Expected(figures=frozenset((d, place) for d in DOCUMENTS))
    return Expected()


def read_data(folder: Path, document: str) -> dict[str, Any]:
    """The data of a document in the project in ``folder``."""
    content: dict[str, Any] = json.loads((folder / "data" / f"{document}.json").read_text("utf-8"))
    return content


def change_data(folder: Path) -> None:
    """Change one value of one document's data; one number, one cell and one figure show it."""
    content = read_data(folder, EDITED_DATA)
    content["peak_bytes"][-1] += _STEP
    (folder / "data" / f"{EDITED_DATA}.json").write_text(data_text(content), "utf-8")


def change_word(folder: Path, peer: Peer, turn: int) -> None:
    """Put the next word in the place of the one that stands there."""
    path = folder / peer.source.format(document=EDITED_PROSE)
    text = path.read_text("utf-8")
    path.write_text(text.replace(f" {word_in(text)} ", f" {WORDS[turn + 1]} ", 1), "utf-8")


def word_in(text: str) -> str:
    """The word of ``WORDS`` that stands in a document; raises ``ValueError`` if none does."""
    found: Iterator[str] = (word for word in WORDS if f" {word} " in text)
    for word in found:
        return word
    raise ValueError("the document holds none of the words that are changed")


def change_drawing(folder: Path, turn: int) -> None:
    """Give the bars another colour, in the function that draws them."""
    path = folder / "drawing.py"
    text, count = _COLOUR.subn(f'color="#0072b{3 + turn:x}"', path.read_text("utf-8"))
    if count != 1:
        raise ValueError(f"{path}: found {count} colours of bars where one is changed")
    path.write_text(text, "utf-8")
