"""The difference as a page: the same look as the papers' own pages, figures side by side.

The template gets finished text: what is counted, named or marked is made here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

from report.commands.difference.alignment import Piece, SentenceChange, marked
from report.commands.difference.cells import TableChange
from report.commands.difference.compare import (
    ClaimChange,
    FigureChange,
    Printed,
    ValueChange,
    verdict_differs,
)
from report.commands.difference.counts import Count, counts, file_words, table_words, unseen_words
from report.commands.difference.prints import Step
from report.commands.difference.side import Drawn
from report.commands.difference.study import Compared, Refused, Studied
from report.render.settings import Settings
from report.render.shell import PAPER_SCRIPTS, render_template, write_assets

Part: TypeAlias = Literal["claims", "sentences", "numbers", "tables", "figures"]

#: What the intervals of both sides say; a wider meaning stands at the head of the page.
_INTERVALS: Final = {True: "apart", False: "overlap", None: ""}
#: Tables with more changed cells than this begin closed.
_OPEN: Final = 12
#: A longer text in a cell may break.
_WHOLE: Final = 34


@dataclass(frozen=True)
class TextPair:
    """A text of both sides in pieces; nothing where a side has no such text."""

    old: tuple[Piece, ...]
    new: tuple[Piece, ...]


@dataclass(frozen=True)
class ClaimItem:
    """A claim; verdicts are empty where a side does not have it."""

    sentence: str
    old_verdict: str
    new_verdict: str
    because: TextPair
    verdict_differs: bool


@dataclass(frozen=True)
class SentenceItem:
    """A sentence and the heading it stands under."""

    section: str
    texts: TextPair


@dataclass(frozen=True)
class Line:
    """A line of a table: its head, both sides with their samples, change and intervals."""

    head: tuple[str, ...]
    old: str
    new: str
    old_n: str
    new_n: str
    change: str
    intervals: str

    @property
    def long(self) -> bool:
        """Whether a side has text that must be allowed to break."""
        return max(len(self.old), len(self.new)) > _WHOLE


@dataclass(frozen=True)
class TableItem:
    """A table: what happened in words, its lines, and what else was added and removed."""

    id: str
    caption: str
    summary: str
    open: bool
    lines: tuple[Line, ...]
    others: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True)
class Picture:
    """A figure of one side: its file relative to the page, and its alternative text."""

    file: str
    alt: str
    drawn: Drawn


@dataclass(frozen=True)
class FigureItem:
    """A figure of both sides."""

    id: str
    old: Picture | None
    new: Picture | None
    caption: TextPair
    caption_differs: bool


@dataclass(frozen=True)
class PartItem:
    """A kind of change with its heading, its count in words and what changed."""

    kind: Part
    id: str
    heading: str
    count: str
    items: Sequence[ClaimItem | SentenceItem | Line | TableItem | FigureItem]


@dataclass(frozen=True)
class StudyItem:
    """A study: what is said of it in a sentence and, as ``words``, in the contents; its parts.

    ``files`` are those that differ, as (what happened, which), ``records`` those used on each side.
    """

    id: str
    title: str
    says: str
    words: str
    parts: tuple[PartItem, ...]
    refused: tuple[Refused, ...]
    files: tuple[tuple[str, str], ...]
    records: tuple[tuple[str, ...], tuple[str, ...]]


def write_page(old: str, new: str, studies: Sequence[Studied], folder: Path) -> None:
    """Write ``index.html``, its style and the figures that differ into ``folder``.

    ``old`` and ``new`` say where the data are from.
    """
    items = [study_item(studied) for studied in studies]
    folder.mkdir(parents=True, exist_ok=True)
    for picture in _pictures(items):
        file = folder / picture.file
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(picture.drawn.svg)
    write_assets(folder)
    (folder / "index.html").write_text(render_page(old, new, items), "utf-8", newline="\n")


def render_page(old: str, new: str, items: Sequence[StudyItem]) -> str:
    """The HTML of the page."""
    same = not any(item.files for item in items)
    return render_template(
        "diff.html.j2",
        settings=Settings(),
        root="",
        scripts=PAPER_SCRIPTS,
        old=old,
        new=new,
        studies=items,
        same=same,
    )


def _pictures(items: Sequence[StudyItem]) -> Iterator[Picture]:
    for item in items:
        for figure in (f for part in item.parts for f in part.items if isinstance(f, FigureItem)):
            yield from (picture for picture in (figure.old, figure.new) if picture is not None)


def study_item(studied: Studied) -> StudyItem:
    """What the page says of a study."""
    compared = studied.compared
    return StudyItem(
        id=studied.study,
        title=compared.new.document.title if compared else studied.study,
        says=_says(studied),
        words=_words(studied),
        parts=tuple(_parts(studied.study, compared)) if compared else (),
        refused=studied.refused,
        files=tuple(file_words(studied.files)),
        records=(compared.old.records, compared.new.records) if compared else ((), ()),
    )


def _says(studied: Studied) -> str:
    if not studied.files:
        return "The data of this study are the same on both sides, so that it was not computed."
    if studied.compared is None:
        return "This study cannot be computed on both sides, so that nothing can be compared."
    changes = studied.compared.changes
    differ = [count.words for count in counts(studied.compared) if count.changed]
    found = f"{', '.join(differ)} differ." if differ else "The paper reads the same on both sides."
    return found + (f" {unseen_words(changes.unseen)}." if changes.unseen else "")


def _words(studied: Studied) -> str:
    if not studied.files:
        return "same data"
    if studied.compared is None:
        return "cannot be computed"
    return "reads the same" if studied.compared.changes.nothing else ""


def _parts(study: str, compared: Compared) -> Iterator[PartItem]:
    changes = compared.changes
    by_noun = {count.noun: count for count in counts(compared)}
    items: dict[Part, Sequence[ClaimItem | SentenceItem | Line | TableItem | FigureItem]] = {
        "claims": [_claim(change) for change in changes.claims],
        "sentences": [_sentence(change) for change in changes.sentences],
        "numbers": [_value(change) for change in changes.values],
        "tables": [_table(change) for change in changes.tables],
        "figures": [_figure(study, change) for change in changes.figures],
    }
    for kind, found in items.items():
        if found:
            count = _count(by_noun[kind], by_noun["table cells"] if kind == "tables" else None)
            yield PartItem(kind, f"{study}-{kind}", kind.capitalize(), count, found)


def _count(count: Count, cells: Count | None) -> str:
    """Behind a heading that names the kind."""
    return f"{count.ratio}, {cells.words}" if cells is not None and cells.changed else count.ratio


def _claim(change: ClaimChange) -> ClaimItem:
    old, new = change.old, change.new
    return ClaimItem(
        sentence=change.present.sentence,
        old_verdict=old.verdict if old else "",
        new_verdict=new.verdict if new else "",
        because=_texts(old.because if old else None, new.because if new else None),
        verdict_differs=verdict_differs(change),
    )


def _sentence(change: SentenceChange) -> SentenceItem:
    old, new = change.old, change.new
    return SentenceItem(
        change.section, _texts(old.text if old else None, new.text if new else None)
    )


def _texts(old: str | None, new: str | None) -> TextPair:
    """Words are marked only where there is something to compare them with."""
    if old is None or new is None:
        return TextPair(_plain(old), _plain(new))
    return TextPair(*marked(old, new))


def _plain(text: str | None) -> tuple[Piece, ...]:
    return () if text is None else (Piece(text, differs=False),)


def _value(change: ValueChange) -> Line:
    return _line((change.name,), change.old, change.new, change.step)


def _line(head: tuple[str, ...], old: Printed | None, new: Printed | None, step: Step) -> Line:
    return Line(
        head,
        old.text if old else "none",
        new.text if new else "none",
        _samples(old),
        _samples(new),
        step.relative,
        _INTERVALS[step.apart],
    )


def _samples(printed: Printed | None) -> str:
    return "" if printed is None or printed.n is None else f"n = {printed.n:,}"


def _table(change: TableChange) -> TableItem:
    lines = tuple(
        _line((cell.row, cell.column), Printed(cell.old, None), Printed(cell.new, None), cell.step)
        for cell in change.cells
    )
    return TableItem(
        change.id,
        change.new or change.old or "",
        table_words(change),
        len(lines) <= _OPEN,
        lines,
        tuple((title, found) for title, found in _others(change) if found),
    )


def _others(change: TableChange) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "Rows that are new", change.rows_added
    yield "Rows that are gone", change.rows_removed
    yield "Columns that are new", change.columns_added
    yield "Columns that are gone", change.columns_removed
    yield "Notes that are new", change.notes_added
    yield "Notes that are gone", change.notes_removed
    if change.old and change.new and change.old != change.new:
        yield "Caption before", (change.old,)


def _figure(study: str, change: FigureChange) -> FigureItem:
    old, new = change.old, change.new
    return FigureItem(
        change.id,
        _picture(study, change.id, "old", old),
        _picture(study, change.id, "new", new),
        _texts(old.caption if old else None, new.caption if new else None),
        caption_differs=old is not None and new is not None and old.caption != new.caption,
    )


def _picture(study: str, name: str, age: str, drawn: Drawn | None) -> Picture | None:
    if drawn is None:
        return None
    return Picture(f"figures/{study}/{age}/{name}.svg", drawn.alt, drawn)
