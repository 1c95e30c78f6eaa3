"""``python -m experiments audit FILE``: verdicts on a table's rows, in words or as JSON."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Final

from experiments.audit.checks import ClaimCheck, checks
from experiments.audit.quantities import QUANTITIES, AuditedCell, columns, read_cell
from experiments.audit.rules import AuditedRow
from experiments.audit.tables import read_table
from experiments.machine.code import ROOT
from report.core.errors import UsageError
from report.core.records.devices import DataSheet, read_devices

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
    rows = list(read_rows(options.file, options.table, options.column, options.given))
    results = [checks(row) for row in rows]
    verdicts = Counter(check.verdict for row_checks in results for check in row_checks)
    objects = []
    for place, (row, row_checks) in enumerate(zip(rows, results, strict=True), start=1):
        counted = {way: float(n.value) for way, n in row.operations_per_item().items()}
        for check in row_checks:
            objects.append({"row": place, **check.as_json(), "operations_per_item": counted})
        if options.json:
            continue
        print(*(_text(place, check) for check in row_checks), sep="\n")
        if not row_checks:
            unread = ", ".join(
                f"{name} {text!r} is not understood" for name, text in row.unread.items()
            )
            print(f"row {place}: not enough given, missing: a claim{unread and f' ({unread})'}")
        if "config" in row.texts:
            ways = ", ".join(f"{way} {number:.4g}" for way, number in counted.items())
            print(f"  forward operations per token: {ways}")
    if options.json:
        print(json.dumps({"checks": objects, "verdicts": verdicts}, indent=1))
    else:
        print(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()) or "no claims")
    return 1 if verdicts["differs"] or verdicts["impossible"] else 0


def read_rows(file: Path, number: int, named: list[str], given: list[str]) -> Iterator[AuditedRow]:
    """Yield the rows of a table, with what ``given`` says of all of them."""
    table = read_table(file, number)
    placed = columns(table, dict(_pair("--column", text) for text in named))
    constant = dict(_pair("--given", text) for text in given)
    for name in constant:
        if name not in QUANTITIES or name in placed:
            reason = "the table has it" if name in placed else "there is no such quantity"
            raise UsageError(f"--given {name}: {reason}.")
    for cells in table.rows:
        content = {name: (cells[at.position], at.heading) for name, at in placed.items()}
        content |= {name: (value, "") for name, value in constant.items()}
        yield _row(content, file.parent)


@cache
def _devices() -> tuple[DataSheet, ...]:
    return read_devices(ROOT / "data" / "devices.yaml").devices


def _row(content: dict[str, tuple[str, str]], folder: Path) -> AuditedRow:
    """Return the row of cells with their headings; an empty cell or a dash is left out."""
    numbers: dict[str, AuditedCell] = {}
    texts, unread = {}, {}
    for name, (text, heading) in content.items():
        if not text.strip(" -–—"):
            continue
        if QUANTITIES[name][0] == "text":
            texts[name] = text
        elif cell := read_cell(name, text, heading):
            numbers[name] = cell
        else:
            unread[name] = text
    count = numbers["devices"].number.value if "devices" in numbers else Fraction(1)
    for name, cell in numbers.items():
        if cell.per_device:
            of_all = cell.number.scaled(count)
            numbers[name] = cell._replace(number=of_all, scale=cell.scale * count)
    return AuditedRow(numbers, texts, _devices(), folder, unread)


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"{option} {text}: write it as QUANTITY=VALUE.")
    return name.strip(), value.strip()


def _text(place: int, check: ClaimCheck) -> str:
    """Describe a check in lines: verdict, formulas, and what would explain a difference."""
    head = f"row {place}, {check.claim} {check.printed.text}: {check.verdict}"
    scale = check.printed.scale
    if check.recomputed is None:
        if check.limit and check.verdict == "impossible":
            return f"{head}, at most {float(check.limit.value / scale):.4g} is possible"
        return f"{head}, missing: {check.missing}"
    value, low, high = (
        float(number / scale) for number in (check.recomputed.value, *check.recomputed.interval)
    )
    lines = [f"{head}, recomputed {value:.4g} ({low:.4g} to {high:.4g})"]
    lines.append(f"  {'; '.join(check.formulas)}")
    if check.verdict != "consistent":
        lines[0] += f", printed is {check.factor:.4g} times that"
        changes = "; ".join(check.explanations) or "nothing that we know"
        lines.append(f"  would explain it, one alone: {changes}")
    return "\n".join(lines)
