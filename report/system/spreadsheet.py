"""Rows as comma-separated values that a spreadsheet shows and does not compute."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable
from typing import TypeVar

#: What a spreadsheet takes for the beginning of a formula
#: (https://owasp.org/www-community/attacks/CSV_Injection).
_FORMULA = re.compile(r"[=+\-@\t\r]")

_Cell = TypeVar("_Cell")


def harmless(cell: _Cell) -> _Cell | str:
    """The cell; a text that a spreadsheet would compute behind an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell


def csv_of(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV; None is an empty cell."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([*map(harmless, row)] for row in rows)
    return stream.getvalue()
