"""Tables of CSV, Markdown, HTML and LaTeX files, as headings and rows of text."""

from __future__ import annotations

import csv
import html
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from report.core.errors import UsageError

#: A group in braces, of LaTeX, that holds at most one level of others.
_GROUP: Final = r"\{(?:[^{}]|\{[^{}]*\})*\}"
#: Ending of a file → patterns of its tables, of text to ignore, and between rows and cells; none
#: for CSV.
_FORMATS: Final[dict[str, tuple[str, str, str, str] | None]] = {
    ".csv": None,
    ".md": (
        r"^(?P<body>.*\|.*\n[ \t|:]*-[ \t|:-]*(?:\n(?!\s*(?:```|[#>])).*\S.*)*)",
        r"^[ \t]*\||(?<!\\)\|[ \t]*$",
        r"\n(?:[ \t|:]*-[ \t|:-]*(?:\n|\Z))?",
        r"(?<!\\)\|",
    ),
    ".html": (
        r"<table\b(?:(?!</?table\b|<t[dh]\b)[\s\S])*<t[dh]\b[^>]*>"
        r"(?P<body>(?:(?!</?table\b)[\s\S])*)(?:</?table\b)?",
        r"<!--[\s\S]*?-->",
        r"<tr\b[^>]*>\s*<t[dh]\b[^>]*>",
        r"<t[dh]\b[^>]*>",
    ),
    ".tex": (
        rf"\\begin\{{(tabular|tabular[xy*]|longtable)\}}(?:(?<=[xy*]\}})\s*{_GROUP})?"
        rf"(?:\[\w+\])?\s*{_GROUP}(?P<body>[\s\S]*?)\\end\{{\1\}}",
        r"(?<!\\)%.*|\\(?:(?:top|mid|bottom)rule|hline|addlinespace|end(?:first|last|)(?:head|foot))"
        r"\b(?:\[.*?\])?|\\(?:cmidrule|cline|rowcolor)\b(?:\(.*?\)|\[.*?\])*\{.*?\}",
        r"\\\\(?:\[.*?\])?|\\tabularnewline\b",
        r"(?<!\\)&",
    ),
}
#: Cells over several columns or rows, or with lines or a table of their own.
_MERGED: Final = re.compile(
    r"\\(?:multi(?:column|row)|makecell|begin)\b|(?:col|row)span\s*=\s*+(?![\"']?1\b)|<table\b",
    re.I,
)
#: Styles and spaces, and their text.  A style leaves a space, since no mark may join the digits of
#: two numbers.  A command that is not listed stays, so that its cell is no number.
_STYLES: Final = (
    (r"(?i)<sup>", " ^"),
    (r"<[a-zA-Z/][^>]*>", " "),
    (r"!?\[([^\[\]]*)\]\([^)]*\)|(?<![\\*])\*{1,3}([^*]+)\*{1,3}|`([^`]*)`", r" \1\2\3 "),
    (r"\{,\}", ","),
    (r"\\times(?![a-zA-Z])", "×"),
    (r"\^\{([^{}]*)\}", r"^\1"),
    (r"(?<=\d)(?:\\[,;:! ]|[~\u2006\u2009\u202f\xa0])(?=\d{3}\b)", ""),
    (r"\\(?:(?:math|text)(?:bf|it|rm|sf|tt|sc)?|emph|underline)(?![a-zA-Z])", " "),
    (r"\\[,;:! ]|[{}$~]", " "),
    (r"\\([%&#_|*])", r"\1"),
)


class TextTable(NamedTuple):
    """Headings, and rows that have a cell for each."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_table(path: Path, number: int = 1) -> TextTable:
    """Read the ``number``-th table of a file; raise ``UsageError`` if it cannot be read."""
    ending = {".htm": ".html"}.get(path.suffix.lower(), path.suffix.lower())
    if ending not in _FORMATS:
        raise UsageError(f"{path}: tables are read from {', '.join(_FORMATS)} files.")
    try:
        tables = [rows for rows in _tables(path.read_text("utf-8-sig"), ending) if len(rows) > 1]
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8; save it as UTF-8.") from None
    except csv.Error as error:
        raise UsageError(f"{path}: the table cannot be read: {error}.") from None
    if number > len(tables):
        raise UsageError(f"{path} has {len(tables)} tables with rows, so --table {number} is none.")
    headings, *rows = tables[number - 1]
    for place, row in enumerate(rows, start=1):
        if len(row) != len(headings):
            raise UsageError(
                f"{path}: row {place} has {len(row)} cells and the heading {len(headings)}; "
                "write out merged and missing cells."
            )
    return TextTable(headings, tuple(rows))


def _tables(text: str, ending: str) -> Iterator[list[tuple[str, ...]]]:
    """Yield the rows of each table; raise ``csv.Error`` for cells that are merged."""
    markup = _FORMATS[ending]
    if markup is None:
        lines = csv.reader(text.splitlines(), skipinitialspace=True)
        yield [tuple(map(str.strip, row)) for row in lines if any(row)]
        return
    table, ignored, between_rows, between_cells = markup
    text = re.sub(ignored, "", text, flags=re.MULTILINE)
    for match in re.finditer(table, text, re.MULTILINE | re.IGNORECASE):
        if _MERGED.search(match[0], 1):
            raise csv.Error("cells are merged or nested; write them out")
        rows = []
        for row in re.split(between_rows, match["body"], flags=re.IGNORECASE):
            rows.append(tuple(map(_plain, re.split(between_cells, row, flags=re.IGNORECASE))))
        yield [row for row in rows if any(row)]


def _plain(text: str) -> str:
    """Return the text of a cell without the marks of its style."""
    plain = text
    for pattern, replacement in _STYLES:
        plain = re.sub(pattern, replacement, plain)
    return " ".join(html.unescape(plain).split())
