"""``python -m experiments audit FILE``: verdicts on a table's rows, in words, as JSON or a page."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from experiments.audit.checks import ClaimCheck, checks
from experiments.audit.definitions import QUANTITIES, TEXTS
from experiments.audit.report import begin_study, write_report, write_source
from experiments.audit.rows import AuditedCell, AuditedRow, columns, read_cell, require_known
from experiments.audit.tables import TextTable, read_table
from report.core.errors import UsageError
from report.core.system.commandline import named_values

#: The options of ``audit``, as the command line reads them.
OPTIONS: Final = """\
file  FILE  a table as CSV, Markdown, HTML or LaTeX
--column  QUANTITY=HEADING...  which heading is a quantity, as mfu=Utilisation; may be repeated
--given  QUANTITY=VALUE...  what holds for all rows, as device=H100-SXM; may be repeated
--table  COUNT [1]  which table of the file
--json  –  print one JSON object
--report  DIR  write the verdicts as a page and a PDF
--as-source  STUDY  write the table to data/reported/STUDY.json, for a study that repeats it
--new  TITLE  with --as-source: begin this study, with a list of the claims to answer
"""
#: Text below the help of the command.
EPILOG: Final = f"""quantities: {", ".join(QUANTITIES)}
guide: docs/auditing.md
"""


def audit(options: argparse.Namespace) -> int:
    """Print the verdict of every claim; return 1 if one differs or is impossible."""
    if options.new and not options.as_source:
        raise UsageError("--new begins a study that repeats a table; name it by --as-source.")
    table = read_table(options.file, options.table)
    verdicts: Counter[str] = Counter()
    objects: list[dict[str, Any]] = []
    results: list[tuple[int, ClaimCheck]] = []
    lines = []
    rows = read_rows(table, options.file.parent, options.column, options.given)
    for place, row in enumerate(rows, start=1):
        counted = row.operations_per_item()
        for check in checks(row):
            verdicts[check.verdict] += 1
            results.append((place, check))
            objects.append({"row": place, **check.as_json(), "operations_per_item": counted})
            lines.append(f"row {place}, {check.as_text()}")
        if not results or results[-1][0] != place:
            unread = row.texts.keys() - row.numbers.keys() - TEXTS
            reason = f" (not understood: {', '.join(sorted(unread))})" if unread else ""
            lines.append(f"row {place}: not enough given, missing: a claim{reason}")
        if "config" in row.texts:
            ways = ", ".join(f"{way} {number:.4g}" for way, number in counted.items())
            lines.append(f"  forward operations per token: {ways}")
    total = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()) or "no claims"
    if options.json:
        print(json.dumps({"checks": objects, "verdicts": verdicts}, indent=1))
    else:
        print(*lines, total, sep="\n")
    if options.report:
        write_report(options.report, f"Audit of {options.file.name}: {total}", table, results)
    if options.new:
        begin_study(options.as_source, options.new, results)
    if options.as_source:
        write_source(options.as_source, table)
    return 1 if verdicts["differs"] or verdicts["impossible"] else 0


def read_rows(
    table: TextTable, folder: Path, named: list[str], given: list[str]
) -> Iterator[AuditedRow]:
    """Yield the rows of a table, each with the values that are ``given`` for all rows.

    Configurations of networks lie in ``folder``.
    """
    placed = columns(table, named_values("--column", named))
    constant = named_values("--given", given)
    for name in constant:
        require_known(name, "--given", name, "quantity", tuple(QUANTITIES))
        if name in placed:
            raise UsageError(f"--given {name}: the table has it.")
    headings = {name: table.headings[position] for name, position in placed.items()}
    for cells in table.rows:
        texts = constant | {name: cells[position] for name, position in placed.items()}
        texts = {name: text for name, text in texts.items() if text.strip(" -–—")}
        if "config" in texts:
            texts["config"] = str(folder / texts["config"])
        yield AuditedRow(_numbers(texts, headings), texts)


def _numbers(texts: Mapping[str, str], headings: Mapping[str, str]) -> dict[str, AuditedCell]:
    """Read the numbers of a row, those of one device multiplied by the number of devices."""
    count = read_cell("devices", texts.get("devices", ""), headings.get("devices", ""))
    devices = count.number.value if count else Fraction(1)
    numbers = {}
    for name, text in texts.items():
        if cell := read_cell(name, text, headings.get(name, ""), devices):
            numbers[name] = cell
    return numbers
