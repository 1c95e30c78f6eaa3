"""How many things of each kind differ in a study, in the words of the text and of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from report.commands.difference.cells import TableChange
from report.commands.difference.compare import FileChange, Kind
from report.commands.difference.study import Compared


@dataclass(frozen=True)
class Count:
    """``changed`` of ``total`` things, which are called ``noun`` (``one`` where it is one)."""

    noun: str
    one: str
    changed: int
    total: int

    @property
    def ratio(self) -> str:
        """Such as «3 of 11»; what has no total is only counted."""
        return f"{self.changed:,} of {self.total:,}" if self.total else f"{self.changed:,}"

    @property
    def words(self) -> str:
        """Such as «3 of 11 claims»."""
        return f"{self.ratio} {self.one if (self.total or self.changed) == 1 else self.noun}"


def counts(compared: Compared) -> tuple[Count, ...]:
    """All kinds in the order of their weight; what was removed counts with the total of today."""
    changes, old, new = compared.changes, compared.old, compared.new
    sentences = (old.document.sentences, new.document.sentences)
    return (
        Count("claims", "claim", len(changes.claims), _all(old.claims, new.claims)),
        Count("sentences", "sentence", len(changes.sentences), max(map(len, sentences))),
        Count("numbers", "number", len(changes.values), _all(old.values, new.values)),
        Count("table cells", "table cell", changes.cells, 0),
        Count("tables", "table", len(changes.tables), _all(old.tables, new.tables)),
        Count("figures", "figure", len(changes.figures), _all(old.figures, new.figures)),
    )


def _all(old: Iterable[str], new: Iterable[str]) -> int:
    """How many ids there are on both sides together."""
    return len({*old, *new})


def table_words(change: TableChange) -> str:
    """What happened in one table, such as «12 cells, 1 row added»."""
    if change.old is None or change.new is None:
        return "new" if change.old is None else "gone"
    parts = (
        (len(change.cells), "cell", "cells", ""),
        (len(change.rows_added), "row", "rows", " added"),
        (len(change.rows_removed), "row", "rows", " removed"),
        (len(change.columns_added), "column", "columns", " added"),
        (len(change.columns_removed), "column", "columns", " removed"),
    )
    words = (
        f"{count:,} {one if count == 1 else many}{what}"
        for count, one, many, what in parts
        if count
    )
    return ", ".join(words) or "caption or notes"


def file_words(files: Iterable[FileChange]) -> Iterator[tuple[Kind, str]]:
    """The files of the data that differ; those beside a record that came or went are counted."""
    found = tuple(files)
    records = {(change.kind, change.id.removesuffix(".json")) for change in found}
    beside = Counter((change.kind, change.id.rpartition("/")[0]) for change in found)
    for change in found:
        if (change.kind, change.id.rpartition("/")[0]) not in records:
            count = beside[change.kind, change.id.removesuffix(".json")]
            more = f", with {count:,} {'file' if count == 1 else 'files'} beside it"
            yield change.kind, change.id + (more if count else "")


def unseen_words(count: int) -> str:
    """How many numbers differ and print the same."""
    noun = "number differs" if count == 1 else "numbers differ"
    return f"{count:,} more {noun} beyond the printed digits"
