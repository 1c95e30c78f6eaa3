"""The same source gives the same bytes, whoever renders it, where and when."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.folders import digests

ROOT = Path(__file__).resolve().parents[2]

PROGRAM = """
import hashlib, json, sys
from pathlib import Path
from report.render.html import PageLinks, write_page
from report.render.latex import LatexTools, compile_latex, find_latex, write_latex
from report.render.quarto import write_project
from report.render.site import Entry
from report.render.typst import render_typst

source, target = Path(sys.argv[1]), Path(sys.argv[2])
sources = dict.fromkeys(("sample", "course"), source)
write_project(sources, target / "quarto", {s: Entry(s, "A paper", "", "") for s in sources})
for study in ("sample", "course"):
    place = target / study
    write_page(source, study, place / "html", PageLinks(pdf="a.pdf"))
    write_latex(source, study, place / "tex")
    (place / "typst.pdf").write_bytes(render_typst(source, study))
    if isinstance(find_latex(), LatexTools):
        (place / "latex.pdf").write_bytes(compile_latex(place / "tex", study).pdf)
"""


def render(source: Path, target: Path, **environment: str) -> dict[str, str]:
    """SHA-256 of every file that a fresh process writes for the samples."""
    target.mkdir()
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(source), str(target)],
        check=True,
        cwd=target,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        timeout=240,
    )
    return digests(target)


def test_bytes_do_not_depend_on_time_place_locale_or_hash_seed(paper: Path, tmp_path: Path) -> None:
    one = render(paper, tmp_path / "one", TZ="Asia/Tokyo", LC_ALL="C", PYTHONHASHSEED="1")
    two = render(
        paper,
        tmp_path / "another place",
        TZ="America/New_York",
        LC_ALL="de_DE.UTF-8",
        LANG="tr_TR.UTF-8",
        PYTHONHASHSEED="77",
        SOURCE_DATE_EPOCH="1700000000",
    )
    assert {"sample/html/index.html", "sample/tex/sample.tex", "quarto/_quarto.yml"} <= set(one)
    assert {"course/typst.pdf", "course/html/files/trace.json.gz"} <= set(one)
    assert json.dumps(one, indent=1) == json.dumps(two, indent=1)
