"""CSV tables beside the records of a study, from programs that write no records."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from report.core.errors import RecordError
from report.core.records.files import read_file

#: Suffix of the file names of tables.
TABLE: Final = ".csv"
_REMEDY: Final = "restore the file with git"

Row = TypeVar("Row")


def read_table(path: Path, row: type[Row]) -> tuple[Row, ...]:
    """Read the rows of a table, typed by the fields of ``row``; empty without a file.

    An empty cell has the default of its field.  Raises ``RecordError`` with the file and the line.
    """
    if not os.path.lexists(path):
        return ()
    place = f"data/{path.parent.name}/{path.name}"
    try:
        text = read_file(path, place, _REMEDY, path.parent.parent).decode("utf-8")
    except UnicodeDecodeError as error:
        raise RecordError(f"{place}: found bytes that are no text; {_REMEDY}.") from error
    rows: list[Row] = []
    for number, cells in enumerate(csv.DictReader(text.splitlines()), start=2):
        filled = {name: cell for name, cell in cells.items() if cell}
        try:
            rows.append(msgspec.convert(filled, row, strict=False))
        except msgspec.ValidationError as error:
            raise RecordError(f"{place}: line {number}: {error}; {_REMEDY}.") from error
    return tuple(rows)
