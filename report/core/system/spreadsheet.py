"""Rows as comma-separated values that a spreadsheet shows and does not compute."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable


def csv_of(rows: Iterable[Iterable[object]]) -> str:
    """The rows as CSV; None is an empty cell.

    A text that a spreadsheet would compute stands behind an apostrophe
    (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows([*map(_harmless, row)] for row in rows)
    return stream.getvalue()


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and re.match(r"[=+\-@\t\r]", cell) else cell
