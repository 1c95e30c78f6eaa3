"""The difference as plain text for a terminal or a log, what matters most first.

Long lists end with how many more there are; the page has them all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from report.commands.difference.alignment import SentenceChange
from report.commands.difference.cells import TableChange
from report.commands.difference.compare import Changes, ClaimChange, FigureChange, ValueChange
from report.commands.difference.counts import counts, file_words, table_words, unseen_words
from report.commands.difference.prints import Step
from report.commands.difference.study import Studied
from report.text.format import NO_BREAK

#: How many of each kind are written of one study.
LIMITS: Final = {"claims": 12, "sentences": 8, "numbers": 15, "tables": 12, "figures": 12}

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}


def difference_text(old: str, new: str, studies: Sequence[Studied], page: str) -> str:
    """All lines; ``old`` and ``new`` say where the data are from, ``page`` where the page is."""
    lines = [
        f"old: {old}",
        f"new: {new}",
        "The code and the prose are today's on both sides; only the data differ.",
        "Changes in per cent are relative to the old number.",
        *(line for studied in studies for line in ("", *_study(studied))),
        "",
        f"Everything, with the figures side by side: {page}",
    ]
    return "\n".join(lines).replace(NO_BREAK, " ")


def _study(studied: Studied) -> Iterator[str]:
    if not studied.files:
        yield f"{studied.study}: its data are the same; nothing was computed."
        return
    compared = studied.compared
    if compared is None:
        for refused in studied.refused:
            yield f"{studied.study}: cannot be computed from the {refused.age} data:"
            yield f"  {refused.sentence}"
    elif compared.changes.nothing:
        yield f"{studied.study}: its data differ, but its paper reads the same."
    else:
        changed = (count.words for count in counts(compared) if count.changed)
        yield f"{studied.study}: {', '.join(changed)} differ"
    yield from _data(studied)
    if compared is not None:
        yield from _changes(compared.changes)


def _data(studied: Studied) -> Iterator[str]:
    files = (f"    {_SIGNS[kind]} {words}" for kind, words in file_words(studied.files))
    yield from _listed("data", "files", files)
    if studied.compared is not None:
        old, new = studied.compared.old.records, studied.compared.new.records
        if old != new:
            yield f"  records used: {_names(old)} -> {_names(new)}"


def _names(files: Iterable[str]) -> str:
    return ", ".join(files) or "none"


def _changes(changes: Changes) -> Iterator[str]:
    yield from _listed("claims", "claims", map(_claim, changes.claims))
    yield from _listed("sentences", "sentences", map(_sentence, changes.sentences))
    yield from _listed("numbers", "numbers", map(_value, changes.values))
    yield from _listed("tables", "tables", map(_table, changes.tables))
    yield from _listed("figures", "figures", map(_figure, changes.figures))
    if changes.unseen:
        yield f"  {unseen_words(changes.unseen)}"


def _listed(title: str, noun: str, items: Iterable[str]) -> Iterator[str]:
    """A heading and the items up to their limit, and how many more there are."""
    found = list(items)
    limit = LIMITS.get(title, 10)
    if found:
        yield f"  {title}"
        yield from found[:limit]
    if len(found) > limit:
        yield f"    ... and {len(found) - limit:,} more {noun}, which the page lists"


def _claim(change: ClaimChange) -> str:
    old, new = change.old, change.new
    lines = [f"    {_SIGNS[change.kind]} {change.present.sentence}"]
    if old is not None:
        lines.append(f"      old: {old.verdict}, since {old.because}")
    if new is not None:
        lines.append(f"      new: {new.verdict}, since {new.because}")
    return "\n".join(lines)


def _sentence(change: SentenceChange) -> str:
    lines = [f"    [{change.section}]"]
    if change.old is not None:
        lines.append(f"      - {change.old.text}")
    if change.new is not None:
        lines.append(f"      + {change.new.text}")
    return "\n".join(lines)


def _value(change: ValueChange) -> str:
    sides = (side and f"{side.text}{_samples(side.n)}" for side in (change.old, change.new))
    old, new = (text or "none" for text in sides)
    return f"    {change.name}: {old} -> {new}{_step(change.step)}"


def _samples(n: int | None) -> str:
    return "" if n is None else f" (n = {n:,})"


def _step(step: Step) -> str:
    words = {True: "intervals apart", False: "intervals overlap", None: ""}[step.apart]
    return "".join(f", {part}" for part in (step.relative, words) if part)


def _table(change: TableChange) -> str:
    kind = "+" if change.old is None else "-" if change.new is None else "~"
    return f"    {kind} {change.id}: {table_words(change)}"


def _figure(change: FigureChange) -> str:
    drawn = change.old is None or change.new is None or change.old.svg != change.new.svg
    return f"    {_SIGNS[change.kind]} fig-{change.id}{'' if drawn else ': its words only'}"
