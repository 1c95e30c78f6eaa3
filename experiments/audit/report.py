"""An audit as a page and a PDF, and an audited table as the source of a study."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

import typst

from experiments.audit.checks import ClaimCheck
from experiments.audit.tables import TextTable
from experiments.machine.code import ROOT
from report.core.errors import RidgepointError, UsageError
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


def write_report(folder: Path, title: str, table: TextTable, results: Results) -> None:
    """Write ``audit.html`` and ``audit.pdf`` with a line for each claim of a row."""
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


def write_source(study: str, table: TextTable) -> None:
    """Write a table as the numbers that the source of a study reports."""
    path = ROOT / "data" / "reported" / f"{study}.json"
    if path.exists():
        raise UsageError(f"{path} exists already; choose another name than {study}.")
    template = ROOT / "templates" / "study" / "reported.json.txt"
    content = json.loads(template.read_text("utf-8"))
    columns, cells = [], []
    for number, heading in enumerate(table.headings):
        unit, decimals, numbers = _numbers(heading, [row[number] for row in table.rows])
        key = {"key": f"column_{number + 1}", "name": heading}
        columns.append({**key, "unit": unit, "decimals": decimals})
        cells.append(numbers)
    published = {"id": "published", "place": "Table", "title": "The published table", "note": None}
    rows = list(zip(*cells, strict=True))
    content |= {"study": study, "tables": [{**published, "columns": columns, "rows": rows}]}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", "utf-8")
    remedy = "Name the source in it, and add its entry to data/references.bib"
    print(f"Wrote {path}. {remedy}", file=sys.stderr)


def _numbers(heading: str, texts: list[str]) -> tuple[str | None, int | None, list[Any]]:
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


def begin_study(study: str, title: str, results: Results) -> None:
    """Write the files of a study, whose code lists the claims of the source to answer."""
    command = [sys.executable, str(ROOT / "build.py"), "--new", study, title]
    if subprocess.run(command, check=False).returncode:
        raise UsageError(f"The study {study} was not begun.")
    text = "\n\n# Claims of the source to answer, each by a value, a claim or in words:\n"
    for row, check in results:
        text += f"# row {row}, {check.as_text()}\n".replace("\n  ", "\n#   ")
    with (ROOT / "report" / "studies" / study / "study.py").open("a", encoding="utf-8") as code:
        code.write(text)
