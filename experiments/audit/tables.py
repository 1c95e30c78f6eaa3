"""Tables of CSV, Markdown, HTML and LaTeX files, as headings and rows of text."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from report.core.errors import UsageError
from report.core.system.programs import pandoc_path, run

#: Ending of a file → how pandoc names its format; none for CSV, which pandoc cuts to the heading.
_FORMATS: Final = {
    ".csv": "", ".md": "gfm", ".html": "html", ".htm": "html", ".tex": "latex+raw_tex",
}  # fmt: skip
_TIME_LIMIT_S: Final = 60.0
#: What pandoc does not understand, and how it does: boxes and rules of LaTeX, commas in numbers;
#: end tags that HTML allows to leave out, of a cell and of a row.
_REPAIRS: Final = (
    (r"\\resizebox\*?\{[^}]*\}\{[^}]*\}|\\(?:cline|cmidrule(?:\(\w+\))?)\{[^}]*\}", ""),
    (r"\{,\}", ","),
    (r"(<(t[dh])\b[^>]*>(?:(?!</?t(?:[dhr]|able)\b).)*)(?=<t[dhr]\b|</t(?![dh]\b))", r"\1</\2>"),
    (r"(</t[dh]>\s*)(?=<tr\b|</t(?![dhr]\b))", r"\1</tr>"),
)
#: Spaces of LaTeX in mathematics, and commands that change only the style of a number.
_SPACES: Final = re.compile(r"\\[,;! ]|~")
_STYLES: Final = re.compile(r"\\(?:mathrm|mathbf|text(?:bf|rm)?)(?![a-z])|[{}]")
_BETWEEN_DIGITS: Final = re.compile(r"(?<=\d)[\u2006\u2009\u202f\xa0](?=\d{3}\b)")


class TextTable(NamedTuple):
    """Headings, and rows that have a cell for each."""

    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def read_table(path: Path, number: int = 1) -> TextTable:
    """Read the ``number``-th table of a file; raise ``UsageError`` if it cannot be read."""
    file_format = _FORMATS.get(path.suffix.lower())
    if file_format is None:
        raise UsageError(f"{path}: tables are read from {', '.join(_FORMATS)} files.")
    try:
        text = path.read_text("utf-8-sig")
        tables = _parse(path, text, file_format) if file_format else [_csv_rows(text)]
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8; save it as UTF-8.") from None
    except csv.Error as error:
        raise UsageError(f"{path} is no table of CSV: {error}; save it again.") from None
    tables = [table for table in tables if len(table) > 1]
    if number > len(tables):
        raise UsageError(f"{path} has {len(tables)} tables with rows, so --table {number} is none.")
    headings, *rows = tables[number - 1]
    for place, row in enumerate(rows, start=1):
        if len(row) != len(headings):
            raise UsageError(
                f"{path}: row {place} has {len(row)} cells and the heading {len(headings)}; "
                "write out merged cells."
            )
    return TextTable(headings, tuple(rows))


def _csv_rows(text: str) -> list[tuple[str, ...]]:
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [tuple(map(str.strip, row)) for row in rows if any(row)]


def _parse(path: Path, text: str, file_format: str) -> list[list[tuple[str, ...]]]:
    """Return the rows of all tables that pandoc reads from a text."""
    if file_format == "gfm":
        _refuse_ragged_rows(path, text)
    for pattern, repaired in _REPAIRS:
        text = re.sub(pattern, repaired, text, flags=re.IGNORECASE | re.DOTALL)
    command: list[str | Path] = [pandoc_path(), "--sandbox", "-f", file_format, "-t", "json"]
    finished = run(command, path.parent, _TIME_LIMIT_S, stdin=text, place=str(path))
    if finished.returncode:
        raise UsageError(f"{path}: pandoc cannot read it: {finished.stderr.strip()}.")
    return [_rows_of(path, table) for table in _nodes_of_tables(json.loads(finished.stdout))]


def _refuse_ragged_rows(path: Path, text: str) -> None:
    """Refuse a row of Markdown with more or fewer cells than the one above, which pandoc hides."""
    above = 0
    for place, line in enumerate(text.splitlines(), start=1):
        row = line.strip()
        inside = row.removeprefix("|").removesuffix("|")
        cells = len(re.findall(r"(?<!\\)\|", inside)) + 1 if row.startswith("|") else 0
        if above and cells and cells != above:
            raise UsageError(
                f"{path}: line {place} has {cells} cells and the line above {above}; "
                "write out all cells."
            )
        above = cells


def _nodes_of_tables(node: Any) -> Iterator[list[Any]]:
    """Yield the content of each table of a document that stands in no other table."""
    if isinstance(node, dict) and node.get("t") == "Table":
        yield node["c"]
    elif isinstance(node, dict | list):
        for child in node.values() if isinstance(node, dict) else node:
            yield from _nodes_of_tables(child)


def _rows_of(path: Path, table: list[Any]) -> list[tuple[str, ...]]:
    """Return the texts of a table's cells; refuse merged ones."""
    _, _, _, head, bodies, foot = table
    rows = list(head[1])
    for _, _, headings, body in bodies:
        rows += headings + body
    rows += foot[1]
    texts = []
    for _, cells in rows:
        for _, _, row_span, column_span, _ in cells:
            if (row_span, column_span) != (1, 1):
                raise UsageError(f"{path}: the table has merged cells; write them out.")
        texts.append(tuple(" ".join(_text(cell[-1]).split()) for cell in cells))
    return [row for row in texts if any(row)]


def _text(node: Any) -> str:
    """Return the text of a piece of pandoc's document; styled pieces are words of their own."""
    if isinstance(node, list):
        return "".join(map(_text, node))
    if not isinstance(node, dict) or "t" not in node:
        return ""
    kind, content = node["t"], node.get("c", [])
    if kind == "Str":
        return _BETWEEN_DIGITS.sub("", content)
    if kind == "Math":
        spaced = _SPACES.sub("\u2006", content[1].replace(r"\times", "×"))
        return _BETWEEN_DIGITS.sub("", _STYLES.sub("", spaced)).replace(r"\%", "%")
    if kind in ("Code", "RawInline"):
        return str(content[1])
    mark = "^" if kind == "Superscript" else ""
    return f" {mark}{_text(content)} "
