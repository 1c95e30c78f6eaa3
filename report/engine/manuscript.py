"""Writing the document of a paper with its tables, values, pictures and bibliography.

The source folder, from which every format is rendered, holds ``<study>.qmd``, in ``tables/`` each
table as LaTeX and CSV, ``references.bib``, ``values.json``, what ``quarto`` needs to know of one
paper, and in ``pictures/`` the author's own, which lie beside the template in a folder of the
study's name.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from figures.characters import visible
from report.engine.task import write_json
from report.paper.bibliography import check_bibliography
from report.paper.details import summary_of
from report.paper.findings import Findings
from report.paper.manuscript import render_manuscript
from report.paper.tables import to_csv, to_latex
from report.records.files import read_file, shared
from report.render.pandoc import TEMPLATES
from report.render.source import in_style, read_source

_PICTURES: Final = (".jpeg", ".jpg", ".pdf", ".png", ".svg")


def write_source(
    study: str,
    origin: Mapping[str, Any],
    findings: Findings,
    data: Path,
    papers: Path,
    folder: Path,
    style: str = "",
) -> dict[str, Any]:
    """Write the source folder of a study but for its figures; returns what ``values.json`` holds.

    ``origin`` is what the paper says of its data, as ``Chosen`` has it; ``style`` replaces the
    print style that the template asks for.
    Raises ``RidgepointError`` for a template that asks for what does not exist.
    """
    template = papers / f"{study}.qmd.j2"
    manuscript = render_manuscript(template, findings, origin)
    findings = manuscript.findings
    folder.mkdir(parents=True, exist_ok=True)
    text = in_style(manuscript.text, style) if style else manuscript.text
    (folder / f"{study}.qmd").write_text(text, encoding="utf-8")
    shutil.copyfile(TEMPLATES / "quarto" / "paper.yml", folder / "_quarto.yml")
    paper = read_source(folder, study)
    copy_bibliography(data, folder)
    _write_tables(findings, folder / "tables", one_column=paper.one_column)
    _copy_pictures(papers / study, folder / "pictures")
    values = {
        **findings.as_json(study, tuple(origin["records"])),
        # Only a build that was told to use other records says so.
        **{name: part for name, part in origin.items() if part or name != "asked"},
        "title": paper.front["title"],
        "abstract": " ".join(str(paper.front.get("abstract", "")).split()),
        **summary_of(study, findings, paper.front),
        "unsupported": manuscript.unsupported,
    }
    write_json(values, folder / "values.json")
    return values


def copy_bibliography(data: Path, folder: Path) -> None:
    """Put the bibliography beside the manuscript; raises ``RecordError`` if it cannot be used."""
    remedy = "restore it with git"
    path = shared("references.bib", data)
    content = read_file(path, "data/references.bib", remedy, path.parent)
    check_bibliography(content, "data/references.bib")
    text = visible(content.decode("utf-8-sig"))
    (folder / "references.bib").write_text(text, "utf-8", newline="\n")


def _write_tables(findings: Findings, folder: Path, *, one_column: bool) -> None:
    folder.mkdir()
    for table in findings.tables.values():
        tabular = to_latex(table, one_column=one_column)
        (folder / f"{table.id}.tex").write_text(tabular, encoding="utf-8")
        (folder / f"{table.id}.csv").write_text(to_csv(table), encoding="utf-8")


def _copy_pictures(origin: Path, folder: Path) -> None:
    """No link is followed, since it may lead to any file."""
    for path in sorted(origin.glob("*")):
        if path.suffix in _PICTURES and path.is_file() and not path.is_symlink():
            folder.mkdir(exist_ok=True)
            shutil.copyfile(path, folder / path.name)
