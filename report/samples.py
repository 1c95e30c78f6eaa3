"""Every raw sample as text, one a row: the rows of ``report.frames.sample_frame``.

A study has hundreds of thousands of samples, and a frame of them takes many times as long to make
and to print as this does.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Final

from report.frames import Column
from report.records import Case, Factor
from report.store import Stored

#: What stands behind the factors of a case; the last two tell the samples of a series apart.
_COLUMNS: Final = (
    Column.FILE,
    Column.DEVICE,
    Column.CASE,
    Column.QUANTITY,
    Column.UNIT,
    Column.REPETITION,
    Column.VALUE,
)
_END: Final = "\r\n"


def samples_csv(stored: Iterable[Stored]) -> str:
    """All samples of all cases as CSV with a head; values are in the unit that their row names.

    Factors come first, in the order in which cases name them; a case without one leaves it empty.
    """
    records = tuple(stored)
    cases = (case for item in records for case in item.record.cases)
    factors = tuple(dict.fromkeys(name for case in cases for name in case.factors))
    rows = (row for item in records for row in _rows(item, factors))
    return "".join((_line((*factors, *_COLUMNS)), "\n", *rows))


def _rows(item: Stored, factors: tuple[str, ...]) -> Iterator[str]:
    for index, case in enumerate(item.record.cases):
        place = (*_levels(case, factors), item.file, item.record.environment.key, index)
        for series in case.series:
            head = _line((*place, series.quantity, series.unit))
            # repr is the shortest text that is read back as the same number.
            yield from (f"{head},{i},{sample!r}\n" for i, sample in enumerate(series.samples))


def _levels(case: Case, factors: tuple[str, ...]) -> tuple[Factor | None, ...]:
    return tuple(case.factors.get(name) for name in factors)


def _line(cells: Iterable[object]) -> str:
    """Cells with commas between them, quoted where they need it; None is empty."""
    stream = io.StringIO()
    # The writer quotes what ends a line, in whichever way its own lines end.
    csv.writer(stream, lineterminator=_END).writerow(cells)
    return stream.getvalue().removesuffix(_END)
