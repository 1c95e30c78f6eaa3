"""What differs between the two sides of a study: pure comparisons, without files and processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar

from report.commands.difference.alignment import SentenceChange, sentence_changes
from report.commands.difference.cells import TableChange, table_changes
from report.commands.difference.prints import Step, samples, step, value_text
from report.commands.difference.side import Drawn, Side
from report.paper.findings import Claim
from report.paper.values import Value

Kind: TypeAlias = Literal["added", "removed", "changed"]
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Change(Generic[Thing]):
    """Something by its id on both sides; None where a side has none."""

    id: str
    old: Thing | None
    new: Thing | None

    @property
    def kind(self) -> Kind:
        """What happened to it."""
        if self.old is None:
            return "added"
        return "removed" if self.new is None else "changed"

    @property
    def present(self) -> Thing:
        """The new one, or the old one of what is gone."""
        found = self.old if self.new is None else self.new
        if found is None:
            raise ValueError(f"{self.id}: a change has at least one side")
        return found


ClaimChange: TypeAlias = Change[Claim]
FigureChange: TypeAlias = Change[Drawn]
#: A file of the data; the sides are digests.
FileChange: TypeAlias = Change[str]


@dataclass(frozen=True)
class Printed:
    """A number of the prose as it is read, with the samples that it rests on."""

    text: str
    n: int | None


@dataclass(frozen=True)
class ValueChange:
    """A number of the prose that reads otherwise, or rests on other samples."""

    id: str
    name: str
    old: Printed | None
    new: Printed | None
    step: Step

    @property
    def rank(self) -> tuple[int, float]:
        """Smaller for what matters more: there or not, intervals apart, overlapping; then size."""
        if self.step.size == float("inf"):
            return 0, 0.0
        return (2 if self.step.apart is False else 1), -self.step.size


@dataclass(frozen=True)
class Changes:
    """All that differs in one study.

    ``unseen`` counts numbers of prose and tables that differ beyond the digits printed.
    """

    claims: tuple[ClaimChange, ...]
    sentences: tuple[SentenceChange, ...]
    values: tuple[ValueChange, ...]
    tables: tuple[TableChange, ...]
    figures: tuple[FigureChange, ...]
    unseen: int

    @property
    def cells(self) -> int:
        """Cells that differ, in tables that both sides have."""
        return sum(len(table.cells) for table in self.tables)

    @property
    def nothing(self) -> bool:
        """Whether the paper reads the same on both sides."""
        parts = (self.claims, self.sentences, self.values, self.tables, self.figures)
        return not any(parts)


def compare(old: Side, new: Side) -> Changes:
    """What a reader of the paper would see differently with the new data."""
    values, unseen = value_changes(old.values, new.values)
    tables = table_changes(old.tables, new.tables)
    return Changes(
        claims=claim_changes(old.claims, new.claims),
        sentences=sentence_changes(old.document.sentences, new.document.sentences),
        values=values,
        tables=tuple(table for table in tables if table.visible),
        figures=differing(old.figures, new.figures),
        unseen=unseen + sum(table.unseen for table in tables),
    )


def differing(old: Mapping[str, Thing], new: Mapping[str, Thing]) -> tuple[Change[Thing], ...]:
    """What is not equal on both sides, in today's order, then what is gone."""
    found = (Change(id, old.get(id), new.get(id)) for id in {**new, **old})
    return tuple(change for change in found if change.old != change.new)


def claim_changes(old: Mapping[str, Claim], new: Mapping[str, Claim]) -> tuple[ClaimChange, ...]:
    """Claims whose sentence, verdict or reason differs; first those with another verdict."""
    found = (pair for pair in differing(old, new) if _words(pair.old) != _words(pair.new))
    return tuple(sorted(found, key=lambda change: not verdict_differs(change)))


def verdict_differs(change: ClaimChange) -> bool:
    """Whether the verdict is another one, or is on one side only."""
    old, new = change.old, change.new
    return old is None or new is None or old.verdict != new.verdict


def _words(claim: Claim | None) -> tuple[str, ...]:
    return () if claim is None else (claim.sentence, claim.verdict, claim.because)


def value_changes(
    old: Mapping[str, Value], new: Mapping[str, Value]
) -> tuple[tuple[ValueChange, ...], int]:
    """The numbers that print otherwise, what matters most first; and how many differ unseen."""
    pairs = ((id, old.get(id), new.get(id)) for id in {**new, **old})
    found = [_value_change(*pair) for pair in pairs if _known(pair[1]) != _known(pair[2])]
    seen = [change for change in found if change.old != change.new]
    return tuple(sorted(seen, key=lambda change: change.rank)), len(found) - len(seen)


def _known(value: Value | None) -> tuple[object, ...]:
    """What is known of a number; that its record has another name makes no change."""
    return () if value is None else (value.number, value.unit, value.style)


def _value_change(id: str, old: Value | None, new: Value | None) -> ValueChange:
    present = new or old
    return ValueChange(
        id,
        present.name if present else id,
        _printed(old),
        _printed(new),
        step(
            old.number if old else None,
            new.number if new else None,
            comparable=old is not None and new is not None and old.unit == new.unit,
        ),
    )


def _printed(value: Value | None) -> Printed | None:
    return None if value is None else Printed(value_text(value), samples(value))
