"""CSV that is safe to open in a spreadsheet: no text is interpreted as a formula."""

import csv
import io
from collections.abc import Iterable
from typing import Final

#: First characters of texts that spreadsheets interpret as formulas.
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")


def csv_of(rows: Iterable[Iterable[object]]) -> str:
    """Format rows as CSV; None is an empty cell.

    A text that spreadsheets would interpret as a formula gets a leading apostrophe
    (https://owasp.org/www-community/attacks/CSV_Injection).
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    for row in rows:
        cells: list[object] = []
        for cell in row:
            is_formula = isinstance(cell, str) and cell.startswith(_FORMULA_STARTS)
            cells.append(f"'{cell}" if is_formula else cell)
        writer.writerow(cells)
    return stream.getvalue()
