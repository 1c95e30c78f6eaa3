"""CSV whose cells a spreadsheet shows as text instead of computing them."""

import csv
import io
import re
from collections.abc import Iterable


def csv_of(rows: Iterable[Iterable[object]]) -> str:
    """Return the rows as CSV; None is an empty cell.

    A text that a spreadsheet would take for a formula gets an apostrophe in front
    (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        writer.writerow(map(_harmless, row))
    return stream.getvalue()


def _harmless(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and re.match(r"[=+\-@\t\r]", cell) else cell
