"""CSV that is safe to open in a spreadsheet: no text is computed as a formula."""

import csv
import io
from collections.abc import Iterable
from typing import Final

#: First characters of a text that spreadsheets interpret as a formula.
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_of(rows: Iterable[Iterable[object]]) -> str:
    """Format rows as CSV; None is an empty cell.

    A text that spreadsheets would interpret as a formula gets a leading apostrophe
    (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        cells = [f"'{c}" if isinstance(c, str) and c.startswith(_FORMULA) else c for c in row]
        writer.writerow(cells)
    return stream.getvalue()
