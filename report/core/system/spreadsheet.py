"""CSV whose cells a spreadsheet shows as text instead of computing them."""

import csv
import io
from collections.abc import Iterable
from typing import Final

#: Beginnings of a text that a spreadsheet takes for a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_of(rows: Iterable[Iterable[object]]) -> str:
    """Return the rows as CSV; None is an empty cell.

    A text that a spreadsheet would take for a formula gets an apostrophe in front
    (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        cells = [f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA) else c for c in row]
        writer.writerow(cells)
    return stream.getvalue()
