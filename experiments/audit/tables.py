"""Tables of CSV, Markdown, HTML and LaTeX files, as headings and rows of text."""

from __future__ import annotations

import csv
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Final, NamedTuple

from report.core.errors import UsageError

Rows = list[list[str]]

#: Rules and marks of LaTeX that say nothing about a number.
_RULES: Final = re.compile(
    r"\\(?:hline|toprule|midrule|bottomrule|(?:cline|cmidrule)(?:\([a-z]+\))?\{[^}]*\})|(?<!\\)%.*"
)
_STYLES: Final = re.compile(r"\\(?:textbf|textit|emph|mathbf|text|mathrm|underline)\{([^{}]*)\}")
_TABULAR: Final = re.compile(r"\\begin\{(tabular[x*]?|longtable)\}(.*?)\\end\{\1\}", re.DOTALL)


class TextTable(NamedTuple):
    """Headings, and rows that have a cell for each."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_table(path: Path, number: int = 1) -> TextTable:
    """Read the ``number``-th table of a file; raise ``UsageError`` if it cannot be read."""
    readers = {
        ".csv": _of_csv, ".tsv": _of_csv, ".md": _of_markdown, ".markdown": _of_markdown,
        ".html": _of_html, ".htm": _of_html, ".tex": _of_latex,
    }  # fmt: skip
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"{path}: tables are read from {', '.join(readers)} files.")
    try:
        text = path.read_text("utf-8-sig")
        tables = [table for table in reader(text) if len(table) > 1]
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8; save it as UTF-8.") from None
    except csv.Error as error:
        raise UsageError(f"{path} is no table of CSV: {error}; save it again.") from None
    if number > len(tables):
        raise UsageError(f"{path} has {len(tables)} tables with rows, so --table {number} is none.")
    headings, *rows = tables[number - 1]
    for place, row in enumerate(rows, start=1):
        if len(row) != len(headings):
            raise UsageError(
                f"{path}: row {place} has {len(row)} cells and the heading {len(headings)}; "
                "write out merged cells."
            )
    return TextTable(tuple(headings), tuple(map(tuple, rows)))


def _of_csv(text: str) -> list[Rows]:
    delimiter = "\t" if "\t" in text.partition("\n")[0] else ","
    rows = csv.reader(text.splitlines(), delimiter=delimiter, skipinitialspace=True)
    return [[[cell.strip() for cell in row] for row in rows if any(row)]]


def _of_markdown(text: str) -> list[Rows]:
    tables: list[Rows] = [[]]
    for line in text.splitlines():
        inside = line.strip().removeprefix("|").removesuffix("|")
        if not line.strip().startswith("|"):
            tables.append([])
        elif not re.fullmatch(r"[-:| ]+", inside):
            cells = re.split(r"(?<!\\)\|", inside)
            tables[-1].append([re.sub(r"[*`]", "", cell).strip() for cell in cells])
    return tables


class _Html(HTMLParser):
    """Collects the cells of all tables; a table in a cell is refused."""

    def __init__(self) -> None:
        super().__init__()
        self.tables: list[Rows] = []
        self._in_cell = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        spans = [value for name, value in attrs if name in ("colspan", "rowspan")]
        if tag == "table" and self._in_cell:
            raise UsageError("A table stands in a cell of another one; give a file of its own.")
        if tag in ("table", "tr"):
            self._in_cell = False
        if tag == "table":
            self.tables.append([])
        elif tag == "tr" and self.tables:
            self.tables[-1].append([])
        elif tag in ("td", "th") and self.tables and self.tables[-1]:
            if any(span != "1" for span in spans):
                raise UsageError("The table has merged cells (colspan or rowspan); write them out.")
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "table"):
            self._in_cell = False

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            row = self.tables[-1][-1]
            row[-1] = " ".join(f"{row[-1]} {data}".split())


def _of_html(text: str) -> list[Rows]:
    parser = _Html()
    parser.feed(text)
    return [[row for row in table if row] for table in parser.tables]


def _of_latex(text: str) -> list[Rows]:
    tables = []
    for tabular in _TABULAR.finditer(text):
        body = _RULES.sub("", tabular[2])
        if "\\multi" in body:
            raise UsageError("The table has merged cells (\\multicolumn); write them out.")
        # The first group in braces describes the columns.
        body = re.sub(r"^\s*(?:\[[^]]*\])?\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}\s*)+", "", body)
        lines = re.split(r"\\\\(?:\[[^]]*\])?|\\tabularnewline", body)
        cells = [re.split(r"(?<!\\)&", line) for line in lines if line.strip()]
        tables.append([[_plain(cell) for cell in row] for row in cells])
    return tables


def _plain(cell: str) -> str:
    """Return the text of a cell of LaTeX without its commands for style and space."""
    cell, previous = cell.replace("{,}", ","), ""
    while cell != previous:
        previous, cell = cell, _STYLES.sub(r"\1", cell)
    cell = re.sub(r"\\times\s*10\^\{?(-?\d+)\}?", r"e\1", cell)
    cell = re.sub(r"\\[,;! ]|~|\$|[{}]", " ", cell)
    cell = re.sub(r"(?<=\d) (?=\d{3}\b)", "", cell)
    return " ".join(re.sub(r"\\([%&_#])", r"\1", cell).split())
