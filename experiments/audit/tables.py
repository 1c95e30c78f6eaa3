"""Tables in CSV, Markdown, HTML and LaTeX files: columns, and numbers in cells."""

import csv
import difflib
import html
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import field

from experiments.machine.code import ROOT
from report.core.errors import UsageError
from report.core.records.reported import ReportedPart
from report.core.records.strict import read_strictly
from report.theory.rounding import Rounded

#: Headings, then rows with a cell for each heading.
TextTable: TypeAlias = list[tuple[str, ...]]
_FLAGS: Final = re.MULTILINE | re.IGNORECASE
#: Group in braces (LaTeX) with at most one level of nested groups.
_GROUP: Final = r"\{(?:[^{}]|\{[^{}]*\})*\}"
#: Ending of a file → patterns: a table, text to ignore, separator of rows, separator of cells.
_MARKUP: Final = {
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
#: Cells that span several columns or rows, or contain several lines or a table.
_MERGED: Final = re.compile(
    r"\\(?:multi(?:column|row)|makecell|begin)\b|(?:col|row)span\s*=\s*+(?![\"']?1\b)|<table\b",
    re.I,
)
#: Patterns of styles and spaces → replacement.  A removed style is replaced by a space, so that the
#: digits of two numbers never join.  An unlisted command remains, so that the cell is no number.
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
#: Number: digits, exponent and unit.
_NUMBER: Final = re.compile(
    r"[~≈]?\s*((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:\s*(?:e|[×x]\s*10\s*\^?)\s*([+-]?\d{1,2}))?\s*([^\d.,].*|)",
    re.IGNORECASE,
)
#: Name of a model with its number of parameters, such as ``LLaMA-7B`` or ``Llama 3.1 8B``.
_MODEL: Final = re.compile(
    r"(?=[a-z]*[A-Z\d-])[a-zA-Z][\w.]*(?:-(?!\d[\d.]*[KMBT]\b)[\w.]+)*?(?:[ -][\d.]+)?"
    r"[ -](\d+(?:\.\d+)?[KMBT])(?:-[a-zA-Z]\w*)*"
)
_PER_DEVICE: Final = re.compile(r"(?:/|per[ -])\s*(?:gpu|device|chip|card|accelerator)s?", re.I)
#: Shares that tables often print in per cent without a per cent sign.
_PERCENTAGES: Final = ("mfu", "bandwidth_use")


class Quantity(ReportedPart, frozen=True):
    """Quantity of a table; comments in ``data/audit.yaml`` describe the fields."""

    kind: str
    headings: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()
    limit: str = ""
    input: bool = False
    determines: str = ""
    words: dict[str, int] = field(default_factory=dict)
    example: str = "NUMBER"


class Change(ReportedPart, frozen=True):
    """Change of one quantity that may explain a difference."""

    text: str
    formula: str
    quantity: str = ""
    claims: tuple[str, ...] = ()
    of_other_devices: bool = False


class Knowledge(ReportedPart, frozen=True):
    """Content of ``data/audit.yaml``; a factor of a unit is a number or a quotient."""

    quantities: dict[str, Quantity]
    precisions: dict[str, str]
    units: dict[str, dict[str, int | str]]
    counts: tuple[str, ...]
    unitless: tuple[str, ...]
    prefixes: dict[str, dict[str, int | str]]
    changes: tuple[Change, ...]


@cache
def knowledge() -> Knowledge:
    """Read ``data/audit.yaml``; raises ``RecordError`` if the file is damaged."""
    path = ROOT / "data" / "audit.yaml"
    return read_strictly(path, Knowledge, "fix it, or restore it with git", path.parent)


class Cell(NamedTuple):
    """Number in units without prefix; ``scale`` is the size of the printed unit."""

    number: Rounded
    scale: Fraction = Fraction(1)
    text: str = ""


def read_table(path: Path, number: int = 1) -> TextTable:
    """Read the ``number``-th table of a file; raise ``UsageError`` if it cannot be read."""
    ending = ".html" if path.suffix.lower() == ".htm" else path.suffix.lower()
    if ending not in (".csv", *_MARKUP):
        raise UsageError(f"{path}: tables are read from .csv, {', '.join(_MARKUP)} files.")
    try:
        tables = [table for table in _tables(path.read_text("utf-8-sig"), ending) if len(table) > 1]
    except (ValueError, csv.Error) as error:  # also UnicodeDecodeError
        raise UsageError(f"{path}: no table of UTF-8 text can be read: {error}.") from None
    if number > len(tables):
        raise UsageError(f"{path} has {len(tables)} tables with rows, so --table {number} is none.")
    width = len(tables[number - 1][0])
    for place, row in enumerate(tables[number - 1]):
        if len(row) != width:
            cells = f"row {place} has {len(row)} cells and the heading {width}"
            raise UsageError(f"{path}: {cells}; write out merged and missing cells.")
    return tables[number - 1]


def _tables(text: str, ending: str) -> Iterator[TextTable]:
    """Yield each table without empty rows; raise ``ValueError`` for merged cells."""
    if ending == ".csv":
        yield _nonempty(csv.reader(text.splitlines(), skipinitialspace=True))
        return
    table, ignored, between_rows, between_cells = _MARKUP[ending]
    for match in re.finditer(table, re.sub(ignored, "", text, flags=_FLAGS), _FLAGS):
        if _MERGED.search(match[0], 1):
            raise ValueError("cells are merged or nested; write them out")
        rows = re.split(between_rows, match["body"], flags=_FLAGS)
        yield _nonempty(map(_plain, re.split(between_cells, row, flags=_FLAGS)) for row in rows)


def _nonempty(rows: Iterable[Iterable[str]]) -> TextTable:
    """Return the rows that are not empty, with the text of each cell in one line."""
    nonempty = []
    for row in rows:
        cells = tuple(" ".join(cell.split()) for cell in row)
        if any(cells):
            nonempty.append(cells)
    return nonempty


def _plain(text: str) -> str:
    """Return the text of a cell without markup."""
    for pattern, replacement in _STYLES:
        text = re.sub(pattern, replacement, text)
    return html.unescape(text)


def columns(headings: tuple[str, ...], named: Mapping[str, str]) -> dict[str, int]:
    """Return the position of each quantity's column; ``named`` maps quantities to headings.

    Raises ``UsageError`` if a heading has two meanings, or two headings have the same meaning.
    """
    for name, heading in named.items():
        require_known(name, f"--column {name}", "quantity", knowledge().quantities)
        require_known(heading, f"--column {name}", "heading", headings)
    positions = {name: headings.index(heading) for name, heading in named.items()}
    for position, heading in enumerate(headings):
        if heading in named.values():
            continue
        meanings = [name for name in _meanings(heading) if name not in named]
        if len(meanings) > 1 or positions.keys() & set(meanings):
            options = " or ".join(f'--column {name}="{heading}"' for name in meanings)
            remedy = f"give {options}, or --column with another heading"
            raise UsageError(f"The heading {heading!r} does not say what it is alone; {remedy}.")
        positions |= dict.fromkeys(meanings, position)
    return positions


def require_known(word: str, option: str, kind: str, known: Iterable[str]) -> None:
    """Raise ``UsageError`` with the most similar known words if ``word`` is not known."""
    words = tuple(known)
    if word not in words:
        near = difflib.get_close_matches(word, words, cutoff=0.5) or words
        raise UsageError(f"{option}: no such {kind}; possible are {', '.join(near)}.")


def _meanings(heading: str) -> list[str]:
    """Return the quantities that a heading names by its words outside brackets."""
    bare = _PER_DEVICE.sub("", re.sub(r"\(.*?\)|\[.*?\]|%", "", heading))
    words = " ".join(re.findall(r"[a-z]+", bare.casefold()))
    names = []
    for name, quantity in knowledge().quantities.items():
        named = words in (name.replace("_", " "), *quantity.headings)
        if named and not _names_unknown_unit(heading, quantity.kind):
            names.append(name)
    by_unit = [
        name for name in names if _scale_of_heading(heading, knowledge().quantities[name].kind)
    ]
    return by_unit if len(by_unit) == 1 else names


def read_cell(name: str, text: str, heading: str, devices: Fraction = Fraction(1)) -> Cell | None:
    """Read a number with its unit, from the cell or else the heading; None without a unit.

    A number per device is multiplied by the number of ``devices``.
    """
    model = _MODEL.fullmatch(text.strip()) if name == "parameters" else None
    kind = knowledge().quantities[name].kind
    match = _NUMBER.fullmatch(model[1] if model else text.strip())
    if match is None or kind == "text":
        return None
    digits, exponent, written = match.groups()
    number = Rounded.printed(digits.replace(",", ""))
    unit = _PER_DEVICE.sub("", written).strip()
    scale = _scale(unit, kind) if unit else _scale_of_heading(heading, kind)
    if scale is None and kind == "rate":  # 26k is 26,000 in the heading's unit
        scale = _scale(unit, "count")
    default = kind in knowledge().unitless and not unit and not _names_unknown_unit(heading, kind)
    if scale is None and default:
        scale = Fraction(1, 100 if name in _PERCENTAGES and number.value > 2 else 1)
    if scale is None or not number.value:
        return None
    if kind in knowledge().counts and not unit and scale == 1 and number.value.denominator == 1:
        number = Rounded.exact(number.value)
    if _PER_DEVICE.search(heading + written):
        scale *= devices
    return Cell(number.scaled(scale * Fraction(10) ** int(exponent or 0)), scale, text)


def _names_unknown_unit(heading: str, kind: str) -> bool:
    """Return whether a heading has words in brackets, but no unit although ``kind`` needs one."""
    words = re.findall(r"[(\[](.*?)[)\]]", _PER_DEVICE.sub("", heading))
    measured = kind not in ("text", "share", *knowledge().counts)
    return measured and any(map(str.strip, words)) and _scale_of_heading(heading, kind) is None


def _scale_of_heading(heading: str, kind: str) -> Fraction | None:
    """Return the size of a heading's unit: in brackets or, except for counts, as a word."""
    words = [] if kind in knowledge().counts else [heading, *heading.split()]
    for text in (*re.findall(r"[(\[](.*?)[)\]]", heading), *words):
        scale = _scale(_PER_DEVICE.sub("", text).strip(), kind)
        if scale is not None:
            return scale
    return None


def _scale(unit: str, kind: str) -> Fraction | None:
    """Return the size of a unit in units without prefix; None for a unit of another kind."""
    prefixes = knowledge().prefixes
    for prefix, factor in {"": 1, **prefixes["all"], **prefixes.get(kind, {})}.items():
        for pattern, size in knowledge().units[kind].items():
            if re.fullmatch(rf"{prefix}\s*({pattern})", unit):
                return Fraction(factor) * Fraction(size)
    return None
