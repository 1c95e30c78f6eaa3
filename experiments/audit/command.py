"""``python -m experiments audit FILE``: verdicts on a table's rows, in words or as JSON."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from experiments.audit.checks import checks
from experiments.audit.definitions import QUANTITIES
from experiments.audit.quantities import AuditedCell, columns, read_cell, require_known
from experiments.audit.rows import AuditedRow
from experiments.audit.tables import read_table
from report.core.errors import UsageError

#: The options of ``audit``, as the command line reads them.
OPTIONS: Final = """\
file  FILE  a table as CSV, Markdown, HTML or LaTeX
--column  QUANTITY=HEADING...  which heading is a quantity, as mfu=Utilisation; may be repeated
--given  QUANTITY=VALUE...  what holds for all rows, as device=H100-SXM; may be repeated
--table  COUNT [1]  which table of the file
--json  –  print one JSON object
"""
#: Text below the help of the command.
EPILOG: Final = f"""quantities: {", ".join(QUANTITIES)}
guide: docs/auditing.md
"""


def audit(options: argparse.Namespace) -> int:
    """Print the verdict of every claim; return 1 if one differs or is impossible."""
    verdicts: Counter[str] = Counter()
    objects: list[dict[str, Any]] = []
    lines = []
    rows = read_rows(options.file, options.table, options.column, options.given)
    for place, row in enumerate(rows, start=1):
        results = checks(row)
        counted = row.operations_per_item()
        verdicts.update(check.verdict for check in results)
        for check in results:
            objects.append({"row": place, **check.as_json(), "operations_per_item": counted})
            lines.append(f"row {place}, {check.as_text()}")
        if not results:
            lines.append(f"row {place}: not enough given, missing: a claim{_unread(row)}")
        if "config" in row.texts:
            ways = ", ".join(f"{way} {number:.4g}" for way, number in counted.items())
            lines.append(f"  forward operations per token: {ways}")
    if options.json:
        print(json.dumps({"checks": objects, "verdicts": verdicts}, indent=1))
    else:
        total = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items())
        print(*lines, total or "no claims", sep="\n")
    return 1 if verdicts["differs"] or verdicts["impossible"] else 0


def read_rows(file: Path, number: int, named: list[str], given: list[str]) -> Iterator[AuditedRow]:
    """Yield the rows of a table, each with the values that are ``given`` for all rows."""
    table = read_table(file, number)
    placed = columns(table, _pairs("--column", named))
    constant = _pairs("--given", given)
    for name in constant:
        require_known(name, "--given", name, "quantity", tuple(QUANTITIES))
        if name in placed:
            raise UsageError(f"--given {name}: the table has it.")
    headings = {name: table.headings[position] for name, position in placed.items()}
    for cells in table.rows:
        texts = constant | {name: cells[position] for name, position in placed.items()}
        texts = {name: text for name, text in texts.items() if text.strip(" -–—")}
        if "config" in texts:
            texts["config"] = str(file.parent / texts["config"])
        yield AuditedRow(_numbers(texts, headings), texts)


def _numbers(texts: Mapping[str, str], headings: Mapping[str, str]) -> dict[str, AuditedCell]:
    """Read the numbers of a row, those of one device multiplied by the number of devices."""
    count = read_cell("devices", texts.get("devices", ""), headings.get("devices", ""))
    devices = count.number.value if count else Fraction(1)
    numbers = {}
    for name, text in texts.items():
        if QUANTITIES[name][0] == "text":
            continue
        if cell := read_cell(name, text, headings.get(name, ""), devices):
            numbers[name] = cell
    return numbers


def _unread(row: AuditedRow) -> str:
    """Name the cells of a row that are not understood, in brackets."""
    cells = [
        f"{name} {text!r} is not understood"
        for name, text in row.texts.items()
        if name not in row.numbers and QUANTITIES[name][0] != "text"
    ]
    return f" ({', '.join(cells)})" if cells else ""


def _pairs(option: str, texts: list[str]) -> dict[str, str]:
    """Read QUANTITY=VALUE options."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"{option} {text}: write it as QUANTITY=VALUE.")
        pairs[name.strip()] = value.strip()
    return pairs
