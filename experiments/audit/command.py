"""``python -m experiments audit FILE``: verdicts on a table's rows, in words, as JSON or a page."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final, TypeAlias

from experiments.audit.checks import ClaimCheck, checks
from experiments.audit.definitions import QUANTITIES, TEXTS
from experiments.audit.rows import AuditedRow, columns, read_cell, require_known
from experiments.audit.tables import TextTable, read_table
from experiments.machine.code import ROOT
from report.core.errors import RidgepointError, UsageError
from report.core.system.commandline import named_values
from report.core.system.programs import pandoc_path, run
from report.core.text.escape import markdown

#: Rows, counted from 1, with a check for each claim.
Results: TypeAlias = Sequence[tuple[int, ClaimCheck]]

_LIMIT_S: Final = 60.0
#: Headings of the report; the dashes are the widths of the columns.
_HEADINGS: Final = (
    "| Row | | Claim | Verdict, and the formulas |\n|:-|:---|:---|:---------------|\n"
)
_PLAIN: Final = re.compile(r"((?:\d|,(?=\d{3}))*\.?\d+)\s*([^\d\s]*)")
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
    objects: list[dict[str, Any]] = []
    results: list[tuple[int, ClaimCheck]] = []
    lines = []
    rows = read_rows(table, options.file.parent, options.column, options.given)
    for place, row in enumerate(rows, start=1):
        counted = row.operations_per_item()
        for check in checks(row):
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
    verdicts = Counter(check.verdict for _, check in results)
    total = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()) or "no claims"
    if options.json:
        print(json.dumps({"checks": objects, "verdicts": verdicts}, indent=1))
    else:
        print(*lines, total, sep="\n")
    if options.report:
        _write_report(options.report, f"Audit of {options.file.name}: {total}", table, results)
    if options.new:
        _begin_study(options.as_source, options.new, results)
    if options.as_source:
        _write_source(options.as_source, table)
    return 1 if verdicts["differs"] or verdicts["impossible"] else 0


def read_rows(
    table: TextTable, folder: Path, named: list[str], given: list[str]
) -> Iterator[AuditedRow]:
    """Yield the rows of a table, each with the values that are ``given`` for all rows.

    Configurations of networks lie in ``folder``.  Numbers of one device are multiplied by the
    number of devices.
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
        count = read_cell("devices", texts.get("devices", ""), headings.get("devices", ""))
        devices = count.number.value if count else Fraction(1)
        numbers = {}
        for name, text in texts.items():
            if cell := read_cell(name, text, headings.get(name, ""), devices):
                numbers[name] = cell
        yield AuditedRow(numbers, texts)


def _write_report(folder: Path, title: str, table: TextTable, results: Results) -> None:
    """Write ``audit.html`` and ``audit.pdf`` with a line for each claim of a row."""
    import typst

    text = _HEADINGS
    for row, check in results:
        claim, _, verdict = check.as_text().replace("\n  ", "; ").partition(": ")
        cells = (str(row), table.rows[row - 1][0], claim, verdict)
        text += f"| {' | '.join(map(markdown, cells))} |\n"
    folder.mkdir(parents=True, exist_ok=True)
    page, source = folder.resolve() / "audit.html", folder.resolve() / "audit.typ"
    for path in (page, source):
        options = ("--standalone", f"--metadata=title:{title}", f"--output={path}")
        finished = run([pandoc_path(), *options], folder, _LIMIT_S, stdin=text)
        if finished.returncode:
            raise RidgepointError(f"{path}: pandoc failed: {finished.stderr.strip()}")
    typst.compile(source, output=folder / "audit.pdf", font_paths=[ROOT / "templates" / "fonts"])
    source.unlink()
    print(f"Wrote audit.html and audit.pdf to {folder}", file=sys.stderr)


def _write_source(study: str, table: TextTable) -> None:
    """Write a table as the numbers that the source of a study reports."""
    path = ROOT / "data" / "reported" / f"{study}.json"
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name than {study}.")
    content = json.loads((ROOT / "templates/study/reported.json.txt").read_text("utf-8"))
    columns, cells = [], []
    for number, heading in enumerate(table.headings):
        unit, decimals, numbers = _column(heading, [row[number] for row in table.rows])
        key = {"key": f"column_{number + 1}", "name": heading}
        columns.append({**key, "unit": unit, "decimals": decimals})
        cells.append(numbers)
    published = {"id": "published", "place": "Table", "title": "The published table", "note": None}
    rows = list(zip(*cells, strict=True))
    content |= {"study": study, "tables": [{**published, "columns": columns, "rows": rows}]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    remedy = "Name the source in it, and add its entry to data/references.bib"
    print(f"Wrote {path}. {remedy}", file=sys.stderr)


def _column(heading: str, texts: list[str]) -> tuple[str | None, int | None, list[Any]]:
    """Return unit, decimals and numbers of a column; its texts if one of them is no number."""
    missing = {"missing": "the cell is empty"}
    matches = [_PLAIN.fullmatch(text) for text in texts]
    units = {
        match[2] if match else None for match, text in zip(matches, texts, strict=True) if text
    }
    if len(units) != 1 or None in units:
        return None, None, [text or missing for text in texts]
    bracketed = re.search(r"[(\[](.*?)[)\]]", heading)
    digits = [match[1].replace(",", "") if match else "" for match in matches]
    decimals = max(len(number.partition(".")[2]) for number in digits)
    unit = units.pop() or (bracketed[1] if bracketed else "1")
    read = float if decimals else int
    return unit, decimals, [read(number) if number else missing for number in digits]


def _begin_study(study: str, title: str, results: Results) -> None:
    """Write the files of a study, whose code lists the claims of the source to answer."""
    command = [sys.executable, str(ROOT / "build.py"), "--new", study, title]
    if subprocess.run(command, check=False).returncode:
        raise UsageError(f"The study {study} was not begun.")
    text = "\n\n# Claims of the source to answer, each by a value, a claim or in words:\n"
    for row, check in results:
        text += f"# row {row}, {check.as_text()}\n".replace("\n  ", "\n#   ")
    with (ROOT / "report" / "studies" / study / "study.py").open("a", encoding="utf-8") as code:
        code.write(text)
