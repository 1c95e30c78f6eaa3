"""Read tables in CSV, Markdown, HTML and LaTeX files: their columns, and numbers in cells."""

import csv
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias
from xml.etree.ElementTree import Element, ParseError, fromstring

from msgspec import field

from experiments.machine.code import ROOT
from report.core.errors import UsageError
from report.core.records.reported import ReportedPart
from report.core.records.strict import read_strictly
from report.core.system.programs import pandoc_path, run
from report.theory.rounding import Rounded

#: Headings, then rows with a cell for each heading.
TextTable: TypeAlias = list[tuple[str, ...]]
_Rows: TypeAlias = Sequence[Sequence[str]]
#: Time limit of pandoc (s).
_PANDOC_LIMIT_S: Final = 60.0
#: Table in Markdown; groups: the line of headings, and the lines of rows.
_PIPE_TABLE: Final = re.compile(
    r"^(.*\|.*\n)(?=[ \t|:]*-)[ \t|:-]+\n((?:(?!\s*(?:```|[#>])).*\S.*(?:\n|\Z))*)", re.MULTILINE
)
#: Bar between two cells of a Markdown table.
_PIPE: Final = re.compile(r"(?<!^)(?<!\\)\|(?!$)")
#: Beginning of a table in HTML or LaTeX.
_TABLE_START: Final = re.compile(r"<table\b|\\begin\{(?:tabu|longtabl|tblr)", re.IGNORECASE)
#: Last cell of a row in HTML whose end tag is missing; groups: the cell, and its tag's name.
_OPEN_CELL: Final = re.compile(r"(<(t[dh])\b(?:(?!</?t[dhr]\b)[\s\S])*)(?=</tr)", re.IGNORECASE)
#: XPaths of nested tables and merged cells in HTML.
_MERGED_CELLS: Final = (".//table//table", ".//*[@colspan]", ".//*[@rowspan]")
#: Group in braces in LaTeX, with up to two levels of groups inside.
_GROUP: Final = r"\s*\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
#: Table in LaTeX; groups: the environment, and the content after the types of columns.
_ENVIRONMENT: Final = re.compile(
    r"\\begin\{(tabular[xy*]?|longtable)\}"
    rf"(?:(?<=[xy*]\}}){_GROUP})?(?:\[\w+\])?{_GROUP}([\s\S]*?)\\end\{{\1\}}"
)
#: Group in LaTeX that contains a line break.
_LINES_IN_CELL: Final = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\\\\(?:[^{}]|\{[^{}]*\})*\}")
#: Parts of LaTeX that print no text in a cell, to be deleted: comments, lines, colours, citations.
_DECORATION: Final = re.compile(
    r"(?<!\\)%.*|\\addlinespace\b(\[.*?\])?|\\end(first|last)?(head|foot)\b"
    r"|~?\\(cmidrule|cline|rowcolor|cellcolor|h?phantom|cite[pt]?)\b(\(.*?\)|\[.*?\])*\{.*?\}"
)
#: Space in a number with groups of three digits, as pandoc writes ``1\,200`` and ``$1,200$``.
_SPACE_IN_NUMBER: Final = re.compile(r"(?<=\d)(?:(,)\u2006|[\u2006\u2009\u202f\xa0])(?=\d{3}\b)")
#: Number; groups: digits, exponent and unit.
_NUMBER: Final = re.compile(
    r"[~≈]?\s*((?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?|\.\d+)"
    r"(?:\s*(?:e|[×x]\s*10\s*\^?)\s*([+-]?\d{1,2}))?\s*([^\d.,].*|)",
    re.IGNORECASE,
)
#: Name of a model, such as ``LLaMA-7B`` or ``Llama 3.1 8B``; group: its number of parameters.
_MODEL: Final = re.compile(
    r"(?=[a-z]*[A-Z\d-])[a-zA-Z][\w.]*(?:-(?!\d[\d.]*[KMBT]\b)[\w.]+)*?(?:[ -][\d.]+)?"
    r"[ -](\d+(?:\.\d+)?[KMBT])(?:-[a-zA-Z]\w*)*"
)
#: Words in a heading or unit that say that a number is per device.
_PER_DEVICE: Final = re.compile(r"(?:/|per[ -])\s*(?:gpu|device|chip|card|accelerator)s?", re.I)
#: Text in round or square brackets.
IN_BRACKETS: Final = re.compile(r"[(\[](.*?)[)\]]")
#: Quantities that are shares, which tables often print in per cent without a per cent sign.
_PERCENTAGES: Final = ("mfu", "bandwidth_use")
#: Such a share without a unit is read as per cent if it is above this number.
_LARGEST_SHARE: Final = 2


class Quantity(ReportedPart, frozen=True):
    """Quantity that tables print, such as a rate; ``data/audit.yaml`` describes the fields."""

    kind: str
    headings: tuple[str, ...] = ()
    formulas: tuple[str, ...] = ()
    limit: str = ""
    input: bool = False
    words: dict[str, str] = field(default_factory=dict)
    example: str = "NUMBER"


class Change(ReportedPart, frozen=True):
    """Change of one quantity that may explain why a claim differs; see ``data/audit.yaml``."""

    text: str
    formula: str
    quantity: str = ""
    claims: tuple[str, ...] = ()
    of_other_devices: bool = False


class Knowledge(ReportedPart, frozen=True):
    """Content of ``data/audit.yaml``.

    ``units`` maps kinds of quantities to units and their factors; a factor is a number or quotient.
    ``prefixes`` maps kinds (or ``all``) to prefixes of units and their factors.
    """

    quantities: dict[str, Quantity]
    units: dict[str, dict[str, int | str]]
    counts: tuple[str, ...]
    unitless: tuple[str, ...]
    prefixes: dict[str, dict[str, int | str]]
    changes: tuple[Change, ...]


@cache
def knowledge() -> Knowledge:
    """Read ``data/audit.yaml`` once; raises ``RecordError`` if the file is damaged."""
    path = ROOT / "data" / "audit.yaml"
    return read_strictly(path, Knowledge, "fix it, or restore it with git", path.parent)


class Cell(NamedTuple):
    """Number of a cell: for 1.5 kB, ``number`` is 1500, ``scale`` 1000 and ``text`` "1.5 kB"."""

    number: Rounded
    scale: Fraction = Fraction(1)
    text: str = ""


def read_table(path: Path, number: int = 1) -> TextTable:
    """Read table ``number`` of a file, counted from 1 among the tables that have rows.

    Raises ``UsageError`` if the table cannot be read.
    """
    try:
        tables = [table for table in map(_nonempty, _read_tables(path)) if len(table) > 1]
        if number > len(tables):
            raise ValueError(f"{len(tables)} tables have rows, so --table {number} does not exist")
        _require_equal_widths(tables[number - 1])
    except (ValueError, csv.Error, ParseError) as error:  # also UnicodeDecodeError
        raise UsageError(f"{path}: no table can be read: {error}.") from None
    return tables[number - 1]


def _read_tables(path: Path) -> Sequence[_Rows]:
    """Read all tables of a file.

    Raises ``ValueError`` for another format, merged cells, rows of different widths in Markdown,
    and tables that pandoc does not understand.
    """
    text, ending = path.read_text("utf-8-sig"), path.suffix.lower()
    if ending == ".csv":
        return [list(csv.reader(text.splitlines(), skipinitialspace=True))]
    if ending == ".md":
        for heading, rows in _PIPE_TABLE.findall(text):  # pandoc would fill or cut rows
            lines = (heading + rows).splitlines()
            _require_equal_widths([_PIPE.split(line.strip()) for line in lines])
        text = page = pandoc(text, "--from=gfm", "--to=html")
    elif ending == ".tex":
        text = _DECORATION.sub("", text).replace("{,}", ",")
        page = _latex_as_html(text)
    elif ending in (".html", ".htm"):
        page = _OPEN_CELL.sub(r"\1</\2>", text)  # add end tags, which HTML lets authors omit
    else:
        raise ValueError("its name must end in .csv, .md, .html or .tex")
    body = fromstring(f"<body>{pandoc(page, '--from=html', '--to=html')}</body>")
    if any(body.find(xpath) is not None for xpath in _MERGED_CELLS):
        raise ValueError("cells are merged or nested; write them out")
    for superscript in body.iter("sup"):
        superscript.text = f"^{superscript.text or ''}"
    tables = []
    for table in body.iter("table"):
        tables.append([list(map(_text, row)) for row in table.iter("tr")])
    if (count := len(_TABLE_START.findall(text))) != len(tables):
        raise ValueError(f"pandoc understands {len(tables)} of {count} tables; write simple rows")
    return tables


def _latex_as_html(text: str) -> str:
    """Convert tables from LaTeX to HTML; unknown commands become text.

    Raises ``ValueError`` for a cell of several lines.
    """
    # Keep the definitions of commands, and write each table with left-aligned columns only.
    fragments = re.findall(r"\\(?:re)?newcommand\b.*", text)
    for _, rows in _ENVIRONMENT.findall(text):
        if lines := _LINES_IN_CELL.search(rows):
            raise ValueError(f"several lines are in a cell, {lines[0]!r}; write one")
        width = len(re.split(r"(?<!\\)&", rows.partition("\\\\")[0]))
        fragments.append(f"\\begin{{tabular}}{{{'l' * width}}}{rows}\\end{{tabular}}")
    content = pandoc("\n\n".join(fragments), "--from=latex+raw_tex", "--to=json")
    # HTML cannot contain raw LaTeX, so that unknown commands become code.
    for raw, code in (("RawInline", "Code"), ("RawBlock", "CodeBlock")):
        content = content.replace(f'"{raw}","c":["latex",', f'"{code}","c":[["",[],[]],')
    return pandoc(content, "--from=json", "--to=html")


def pandoc(text: str, *options: str) -> str:
    """Convert a text by pandoc, which may read no files; raises ``UsageError`` if pandoc fails."""
    finished = run([pandoc_path(), "--sandbox", *options], ROOT, _PANDOC_LIMIT_S, stdin=text)
    if finished.returncode:
        raise UsageError(f"pandoc cannot convert the text: {finished.stderr.strip()}")
    return finished.stdout


def _text(cell: Element) -> str:
    """Return the text of a cell, with spaces in place of tags, so that no two numbers join."""
    return _SPACE_IN_NUMBER.sub(r"\1", " ".join(cell.itertext())).replace("\N{MINUS SIGN}", "-")


def _nonempty(rows: _Rows) -> TextTable:
    """Return the rows that are not empty, with the text of each cell in one line."""
    nonempty = []
    for row in rows:
        cells = tuple(" ".join(cell.split()) for cell in row)
        if any(cells):
            nonempty.append(cells)
    return nonempty


def _require_equal_widths(rows: _Rows) -> None:
    """Raise ``ValueError`` for a row that has more or fewer cells than the heading."""
    for place, row in enumerate(rows):
        if len(row) != len(rows[0]):
            cells = f"the heading has {len(rows[0])} cells, but row {place} has {len(row)}"
            raise ValueError(f"{cells}; write out merged and missing cells")


def find_columns(headings: tuple[str, ...], chosen: Mapping[str, str]) -> dict[str, int]:
    """Return the position of each quantity's column.

    ``chosen`` maps quantities to headings, as the user chose by ``--column``.  Raises
    ``UsageError`` for an unknown quantity or heading in ``chosen``, for a heading with two
    meanings, and for two headings with the same meaning.
    """
    for name, heading in chosen.items():
        require_known(name, f"--column {name}", "quantity", knowledge().quantities)
        require_known(heading, f"--column {name}", "heading", headings)
    positions = {name: headings.index(heading) for name, heading in chosen.items()}
    for position, heading in enumerate(headings):
        if heading in chosen.values():
            continue
        meanings = [name for name in _meanings(heading) if name not in chosen]
        if len(meanings) > 1 or positions.keys() & set(meanings):
            options = " or ".join(f'--column {name}="{heading}"' for name in meanings)
            remedy = f"give {options}, or --column with another heading"
            raise UsageError(f"The heading {heading!r} has no single meaning; {remedy}.")
        positions |= dict.fromkeys(meanings, position)
    return positions


def require_known(word: str, option: str, kind: str, known: Iterable[str]) -> None:
    """Raise ``UsageError`` with similar words if a word in ``option`` is not known."""
    words = tuple(known)
    if word not in words:
        similar = difflib.get_close_matches(word, words, cutoff=0.5) or words
        raise UsageError(f"{option}: no such {kind}; possible are {', '.join(similar)}.")


def _meanings(heading: str) -> list[str]:
    """Return the quantities that a heading may mean by its words outside brackets.

    If the unit in brackets fits only one of these quantities, return this quantity alone.
    """
    bare = _PER_DEVICE.sub("", IN_BRACKETS.sub("", heading))
    words = " ".join(re.findall(r"[a-z]+", bare.casefold()))
    by_name, by_name_and_unit = [], []
    for name, quantity in knowledge().quantities.items():
        scale = _scale_of_heading(heading, quantity.kind)
        if words in (name.replace("_", " "), *quantity.headings) and scale != 0:
            by_name.append(name)
            if scale:
                by_name_and_unit.append(name)
    return by_name_and_unit if len(by_name_and_unit) == 1 else by_name


def read_cell(name: str, text: str, heading: str, devices: Fraction = Fraction(1)) -> Cell | None:
    """Read a number of the quantity ``name`` with its unit, from the cell or else the heading.

    A number per device is multiplied by the number of ``devices``.  Returns None for zero, for a
    text that is not a number, and for an unknown or missing unit.
    """
    kind = knowledge().quantities[name].kind
    model = _MODEL.fullmatch(text) if name == "parameters" else None
    match = _NUMBER.fullmatch(model[1] if model else text)
    if match is None or kind == "text":
        return None
    digits, exponent, cell_unit = match.groups()
    number = Rounded.parse(digits.replace(",", ""))
    unit = _PER_DEVICE.sub("", cell_unit).strip()
    scale = _scale(unit, kind) if unit else _scale_of_heading(heading, kind)
    if scale is None and kind == "rate":  # 26k is 26,000 in the heading's unit
        scale = _scale(unit, "count")
    if scale is None and not unit and kind in knowledge().unitless:
        is_percentage = name in _PERCENTAGES and number.value > _LARGEST_SHARE
        scale = Fraction(1, 100 if is_percentage else 1)
    if not scale or not number.value:
        return None
    is_whole = number.value.denominator == 1
    if kind in knowledge().counts and not unit and scale == 1 and is_whole:
        number = Rounded.from_exact(number.value)
    if _PER_DEVICE.search(heading + cell_unit):
        scale *= devices
    return Cell(number.scaled(scale * Fraction(10) ** int(exponent or 0)), scale, text)


def _scale_of_heading(heading: str, kind: str) -> Fraction | None:
    """Return the factor of the unit (1000 for kB) in a heading, in brackets or as a word.

    For counts, only brackets are read.  The factor is None if the heading has no unit.  It is 0 if
    the brackets contain another text, although the kind of quantity has units.
    """
    is_count = kind in knowledge().counts
    in_brackets = IN_BRACKETS.findall(_PER_DEVICE.sub("", heading))
    candidates = in_brackets if is_count else [*in_brackets, heading, *heading.split()]
    for text in candidates:
        scale = _scale(_PER_DEVICE.sub("", text).strip(), kind)
        if scale is not None:
            return scale
    has_units = not is_count and kind not in ("text", "share")
    return Fraction(0) if has_units and any(map(str.strip, in_brackets)) else None


def _scale(unit: str, kind: str) -> Fraction | None:
    """Return the factor of a unit (1000 for kB); None for a unit of another kind of quantity."""
    prefixes = knowledge().prefixes
    for prefix, factor in {"": 1, **prefixes["all"], **prefixes.get(kind, {})}.items():
        for pattern, size in knowledge().units[kind].items():
            if re.fullmatch(rf"{prefix}\s*({pattern})", unit):
                return Fraction(factor) * Fraction(size)
    return None
