"""Which sentence became which: the old and the new words of a paper, side by side.

Sentences are matched by their words without the numbers in them, since a change of the data
mostly changes numbers in sentences that stay; what is left is paired by likeness.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final

from report.commands.difference.words import Sentence

#: From this share of common words on, two sentences are two states of one.
ALIKE: Final = 0.5

_NUMBER: Final = re.compile(r"[−+-]?\d[\d.,]*")
#: White space, a word or a number, or any other sign.
_TOKEN: Final = re.compile(r"\s+|[−+-]?\w+(?:[.,]\w+)*|[^\w\s]")


@dataclass(frozen=True)
class SentenceChange:
    """A sentence that reads otherwise (both sides), is gone (no new side) or is new (no old)."""

    old: Sentence | None
    new: Sentence | None

    @property
    def section(self) -> str:
        """The heading it stands under, today's where there is one."""
        found = self.new or self.old
        return found.section if found else ""

    def swapped(self) -> SentenceChange:
        """The change from new to old."""
        return SentenceChange(self.new, self.old)


@dataclass(frozen=True)
class Piece:
    """A part of a sentence; ``differs`` if the other side has no such words at this place."""

    text: str
    differs: bool


def sentence_changes(
    old: Sequence[Sentence], new: Sequence[Sentence]
) -> tuple[SentenceChange, ...]:
    """What was changed, added and removed, in the order of the text.

    Exchanging ``old`` and ``new`` exchanges the sides of each change and nothing else.
    """
    # difflib may align otherwise in the other direction, so that one direction serves for both.
    if tuple(old) > tuple(new):
        return tuple(change.swapped() for change in sentence_changes(new, old))
    return tuple(_changes(old, new))


def _changes(old: Sequence[Sentence], new: Sequence[Sentence]) -> Iterator[SentenceChange]:
    matcher = SequenceMatcher(None, _skeletons(old), _skeletons(new), autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(old[i:j], new[k:m], strict=True)
            yield from (SentenceChange(a, b) for a, b in pairs if a.text != b.text)
        else:
            yield from _paired(old[i:j], new[k:m])


def _skeletons(sentences: Sequence[Sentence]) -> list[str]:
    """The words of sentences with every number the same."""
    return [_NUMBER.sub("0", sentence.text) for sentence in sentences]


def _paired(old: Sequence[Sentence], new: Sequence[Sentence]) -> Iterator[SentenceChange]:
    """The two most alike form a pair, and so do those before and behind them."""
    i, k = _most_alike(old, new)
    if not (old and new) or _likeness(old[i].text, new[k].text) < ALIKE:
        yield from (SentenceChange(sentence, None) for sentence in old)
        yield from (SentenceChange(None, sentence) for sentence in new)
        return
    yield from _paired(old[:i], new[:k])
    if old[i].text != new[k].text:
        yield SentenceChange(old[i], new[k])
    yield from _paired(old[i + 1 :], new[k + 1 :])


def _most_alike(old: Sequence[Sentence], new: Sequence[Sentence]) -> tuple[int, int]:
    """The places of the first pair with the most words in common; (0, 0) where there is none."""
    places = ((i, k) for i in range(len(old)) for k in range(len(new)))
    return max(places, key=lambda at: _likeness(old[at[0]].text, new[at[1]].text), default=(0, 0))


@lru_cache(maxsize=2**16)
def _likeness(one: str, other: str) -> float:
    """The share of words that two sentences have in common, in their order; 0 if it is small."""
    matcher = SequenceMatcher(None, one.split(), other.split(), autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= ALIKE else 0.0


def marked(old: str, new: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts in pieces, of which those differ that the other text does not have."""
    one, other = _TOKEN.findall(old), _TOKEN.findall(new)
    codes = SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
    return (
        tuple(Piece("".join(one[i:j]), tag != "equal") for tag, i, j, _, _ in codes if j > i),
        tuple(Piece("".join(other[k:m]), tag != "equal") for tag, _, _, k, m in codes if m > k),
    )
