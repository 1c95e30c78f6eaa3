"""MNIST as a table: a line an image, the label first, then 784 pixels from 0 to 255.

Two forms go round: with a header, ``label,pixel0,…`` (Kaggle's Digit Recognizer) or
``label,1x1,…``, and without one.  ``numpy.loadtxt`` reads blocks of lines strictly and fast; only
when it refuses one, the line and the column are looked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Final

import numpy as np

from experiments.datasets.files import Observer, opened
from experiments.datasets.images import Bytes
from experiments.datasets.refusal import DataSetError, refusal

PIXELS: Final = 28 * 28
COLUMNS: Final = 1 + PIXELS

_ROW: Final = f"{COLUMNS} values, the label and {PIXELS} pixels"
_LINES: Final = 2000
#: Many times a row of 784 pixels; what is no table may have no end of line.
_LONGEST: Final = 2**16
_BOM: Final = "\ufeff".encode().decode("latin-1")


def read_table(path: Path, observer: Observer) -> tuple[Bytes, Bytes]:
    """Images ``(N, 28, 28)`` and labels ``(N,)``.

    Raises ``DataSetError`` with the line and column for what is no label from 0 to 9 and no pixel
    from 0 to 255, for a line with another number of values, and for a table without rows.
    """
    blocks = []
    with opened(path) as source:
        lines = _lines(source.content)
        while block := list(islice(lines, _LINES)):
            blocks.append(_values(block, path))
            observer(path, source.share)
    rows = np.concatenate([np.empty((0, COLUMNS), np.uint8), *blocks])
    if not len(rows):
        raise refusal(path, "line 1", "no row of pixels", f"rows of {_ROW}")
    return rows[:, 1:].reshape(-1, 28, 28), rows[:, 0]


def is_unlabelled(path: Path) -> bool:
    """Whether the table has the 784 pixels alone, as the ``test.csv`` of Kaggle has."""
    with opened(path) as source:
        _, first = next(_lines(source.content), (1, ""))
    return first.count(",") + 1 == PIXELS


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, str]]:
    """Lines that are not blank, with their numbers from 1."""
    number = 0
    while line := stream.readline(_LONGEST):
        number += 1
        # Latin-1 takes every byte, so that a file that is no text is refused for what it holds.
        text = line.decode("latin-1").strip()
        if number == 1:
            text = text.removeprefix(_BOM)
        if text:
            yield number, text


def _values(block: list[tuple[int, str]], path: Path) -> Bytes:
    """The numbers of some lines, ``(lines, 785)``, the header left out."""
    if _is_header(block[0]):
        _check_header(block.pop(0)[1], path)
    if not block:
        return np.empty((0, COLUMNS), np.uint8)
    try:
        rows: Bytes = np.loadtxt(
            [text for _, text in block], dtype=np.uint8, delimiter=",", comments=None, ndmin=2
        )
    except ValueError:
        rows = np.array([_checked(number, text, path) for number, text in block], np.uint8)
    if rows.shape[1] != COLUMNS or rows[:, 0].max() > 9:
        for number, text in block:
            _checked(number, text, path)
    return rows


def _is_header(line: tuple[int, str]) -> bool:
    """Whether this is the first line and its first value has no digit at its beginning."""
    number, text = line
    first = text.split(",", 1)[0].strip().lstrip("+-")
    return number == 1 and not first[:1].isdigit()


def _check_header(text: str, path: Path) -> None:
    names = [name.strip(' "') for name in text.split(",")]
    if len(names) != COLUMNS:
        shown = _shown(names[0])
        found = f"{len(names):,} column{'s' * (len(names) > 1)}, the first of them {shown}"
        raise refusal(path, "line 1", found, _ROW)
    if names[0].lower() != "label":
        place = "line 1, column 1"
        raise refusal(path, place, f"the name {_shown(names[0])}", "the name 'label'")


def _checked(number: int, text: str, path: Path) -> list[int]:
    """The numbers of one line; raises ``DataSetError`` for what is wrong in it."""
    fields = [field.strip() for field in text.split(",")]
    if len(fields) != COLUMNS:
        found = f"{len(fields):,} value{'s' * (len(fields) > 1)}"
        raise refusal(path, f"line {number:,}", found, _ROW)
    for column, field in enumerate(fields, start=1):
        if (error := _fault(column, field, path, number)) is not None:
            raise error
    return [int(field) for field in fields]


def _fault(column: int, field: str, path: Path, number: int) -> DataSetError | None:
    largest = 9 if column == 1 else 255
    if field.isascii() and field.isdigit() and len(field) < 9 and int(field) <= largest:
        return None
    wanted = "a label from 0 to 9" if column == 1 else "a whole number from 0 to 255"
    return refusal(path, f"line {number:,}, column {column}", _shown(field), wanted)


def _shown(text: str) -> str:
    """The beginning of ``text`` in quotes, without characters that a terminal would obey."""
    return ascii(text if len(text) <= 20 else f"{text[:20]}...")
