"""``python -m experiments audit FILE``: check the claims of a published table.

A claim is a printed number that other numbers of its row determine.  The verdicts are printed as
text or JSON, or written as a page.
"""

import re
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from experiments.audit import tables
from experiments.audit.checks import AuditedRow, ClaimCheck, audited_row, checks
from experiments.audit.tables import TextTable, knowledge
from experiments.commands.outcome import NOTHING_USABLE
from experiments.machine.code import ROOT
from report.core.errors import UsageError
from report.core.system.commandline import parse_named_values

#: Number without exponent, and its unit.
_NUMBER_AND_UNIT: Final = re.compile(r"((?:\d|,(?=\d{3}))*\.?\d+)\s*([^\d\s]*)")
#: Options of ``audit`` in the format of ``report.core.system.commandline``.
OPTIONS: Final = """\
file  FILE  a table as CSV, Markdown, HTML or LaTeX
--column  QUANTITY=HEADING...  heading of a quantity's column, as mfu=Utilisation; may be repeated
--given  QUANTITY=VALUE...  value that holds for all rows, as device=H100-SXM; may be repeated
--table  COUNT [1]  which table of the file
--json  –  print one JSON object
--report  DIR  write the verdicts as a page and a PDF
--as-source  STUDY  write the table to data/reported/STUDY.json, for a study that repeats it
--new  TITLE  with --as-source: begin this study, with a list of the claims to answer
"""


def epilog() -> str:
    """Return the text that follows the command's help."""
    return f"quantities: {', '.join(knowledge().quantities)}\nguide: docs/auditing.md\n"


def audit(options: Namespace) -> int:
    """Print the verdict of every claim; return the exit code.

    The code is 1 if a claim differs or is impossible, ``NOTHING_USABLE`` if no claim could be
    checked, else 0.  Raises ``UsageError`` for ``--new`` without ``--as-source``.
    """
    if options.new and not options.as_source:
        raise UsageError("--new begins a study that repeats a table; name it by --as-source.")
    table = tables.read_table(options.file, options.table)
    results: list[tuple[int, ClaimCheck]] = []
    objects, lines = [], []
    rows = read_rows(table, options.file.parent, options.column, options.given)
    for row_number, row in enumerate(rows, start=1):
        operations, row_checks = row.operations_per_item(), checks(row)
        for check in row_checks:
            results.append((row_number, check))
            content = check._asdict()
            objects.append({"row": row_number, **content, "operations_per_item": operations})
            lines.append(f"row {row_number}, {check.as_text()}")
        if not row_checks:
            unparsed = sorted(name for name in row.texts if isinstance(row.known.get(name), tuple))
            names = f" (not understood: {', '.join(unparsed)})" if unparsed else ""
            lines.append(f"row {row_number}: not enough given, missing: a claim{names}")
        if "config" in row.texts:
            ways = ", ".join(f"{way} {number:.4g}" for way, number in operations.items())
            lines.append(f"  forward operations per token: {ways}")
    verdicts = Counter(check.verdict for _, check in results)
    total = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()) or "no claims"
    if options.json:
        output = msgspec.json.encode({"checks": objects, "verdicts": verdicts})
        print(msgspec.json.format(output, indent=1).decode())
    else:
        print(*lines, total, sep="\n")
    if options.report:
        _write_report(options.report, f"Audit of {options.file.name}: {total}", table, results)
    if options.new:
        _begin_study(options.as_source, options.new, results)
    if options.as_source:
        _write_source(options.as_source, table)
    if verdicts["differs"] or verdicts["impossible"]:
        return 1
    return 0 if verdicts["consistent"] else NOTHING_USABLE


def read_rows(
    table: TextTable, folder: Path, columns: list[str], constants_given: list[str]
) -> Iterator[AuditedRow]:
    """Yield the rows of a table, with the values that hold for all rows.

    ``columns`` and ``constants_given`` are the values of ``--column`` and ``--given``.  ``folder``
    contains the configurations of networks.  Numbers per device are multiplied by the number of
    devices.  Raises ``UsageError`` for an unknown or unreadable value of an option.
    """
    headings, *rows = table
    positions = tables.find_columns(headings, parse_named_values("--column", columns))
    constants = parse_named_values("--given", constants_given)
    for name, text in constants.items():
        tables.require_known(name, f"--given {name}", "quantity", knowledge().quantities)
        quantity = knowledge().quantities[name]
        if name in positions:
            raise UsageError(f"--given {name}: the table has a column {name}.")
        if quantity.words:
            tables.require_known(text.casefold(), f"--given {name}={text}", "value", quantity.words)
        elif quantity.kind != "text" and tables.read_cell(name, text, "") is None:
            raise UsageError(f"--given {name}={text} is not a number with its unit.")
    heading_by_name = {name: headings[position] for name, position in positions.items()}
    for row in rows:
        texts = constants | {name: row[position] for name, position in positions.items()}
        texts = {name: text for name, text in texts.items() if text.strip(" -–—")}
        eight_devices = re.fullmatch(r"(\d+)\s*[xX×]\s*(\S.*)", texts.get("device", ""))  # 8x A100
        if eight_devices and "devices" not in texts:
            texts["devices"], texts["device"] = eight_devices.groups()
        if "config" in texts:
            texts["config"] = str(folder / texts["config"])
        cells = dict(zip(headings, row, strict=True))
        yield audited_row(texts, heading_by_name, cells)


def _write_report(
    folder: Path, title: str, table: TextTable, results: list[tuple[int, ClaimCheck]]
) -> None:
    """Write ``audit.html`` and ``audit.pdf``, with a line for each claim."""
    import typst
    from pandas import DataFrame

    lines = []
    for row_number, check in results:
        claim, _, verdict = check.as_text().replace("\n  ", "; ").partition(": ")
        lines.append((row_number, table[row_number][0], claim, verdict))
    headings = ["Row", table[0][0], "Claim", "Verdict, and the formulas"]
    text = DataFrame(lines, columns=headings).to_csv(index=False)
    options = ("--from=csv", "--standalone", f"--metadata=title:{title}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "audit.html").write_text(tables.pandoc(text, *options, "--to=html"), "utf-8")
    document: Any = tables.pandoc(text, *options, "--to=typst").encode()
    fonts = [ROOT / "templates" / "fonts"]
    typst.compile(document, output=folder / "audit.pdf", font_paths=fonts)
    print(f"Wrote audit.html and audit.pdf to {folder}", file=sys.stderr)


def _write_source(study: str, table: TextTable) -> None:
    """Write a table to ``data/reported`` for a study; raises ``UsageError`` if the file exists."""
    path = ROOT / "data" / "reported" / f"{study}.json"
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name than {study}.")
    content = msgspec.json.decode((ROOT / "templates/study/reported.json.txt").read_bytes())
    columns, cells_by_column = [], []
    for number, (heading, *texts) in enumerate(zip(*table, strict=True), start=1):
        unit, decimals, cells = _parse_column(heading, texts)
        key = {"key": f"column_{number}", "name": heading}
        columns.append({**key, "unit": unit, "decimals": decimals})
        cells_by_column.append(cells)
    published = {"id": "published", "place": "Table", "title": "The published table", "note": None}
    rows = list(zip(*cells_by_column, strict=True))
    content |= {"study": study, "tables": [{**published, "columns": columns, "rows": rows}]}
    path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
    remedy = "Name the source in it, and add its entry to data/references.bib"
    print(f"Wrote {path}. {remedy}", file=sys.stderr)


def _parse_column(heading: str, texts: list[str]) -> tuple[str | None, int | None, list[Any]]:
    """Return unit, decimals and numbers of a column; None, None and texts if not numeric."""
    missing = {"missing": "the cell is empty"}
    matches = [_NUMBER_AND_UNIT.fullmatch(text) for text in texts if text]
    units = {match and match[2] for match in matches}
    if len(units) != 1 or None in units:
        return None, None, [text or missing for text in texts]
    unit = str(units.pop()) or next(iter(tables.IN_BRACKETS.findall(heading)), "1")
    digits = [_NUMBER_AND_UNIT.sub(r"\1", text).replace(",", "") for text in texts]
    decimals = max(len(number.partition(".")[2]) for number in digits)
    parse = float if decimals else int
    return unit, decimals, [parse(number) if number else missing for number in digits]


def _begin_study(study: str, title: str, results: list[tuple[int, ClaimCheck]]) -> None:
    """Create the files of a new study, with the published claims as comments in its code."""
    command = [sys.executable, str(ROOT / "build.py"), "--new", study, title]
    if subprocess.run(command, check=False).returncode:
        raise UsageError(f"The study {study} was not begun.")
    text = "\n\n# Claims of the source to answer, each by a value, a claim or in words:\n"
    for row_number, check in results:
        text += f"# row {row_number}, {check.as_text()}\n".replace("\n  ", "\n#   ")
    with (ROOT / "report" / "studies" / study / "study.py").open("a", encoding="utf-8") as code:
        code.write(text)
