"""Files that a study offers: from its findings to the page, print and the Quarto project."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from report.engine import computing, pipeline
from report.engine.pipeline import ROOT, Request
from report.paper.findings import Findings
from report.paper.tables import Column, Table

STUDY = "conv_scaling"
NAME, TRACE = "trace-1.json.gz", gzip.compress(b"{}", mtime=0)
FINDINGS = Findings(
    values={},
    tables={"tbl-a": Table("tbl-a", "A.", (Column("Time", "s", "ms"),), ((0.5,),))},
    figures={},
    downloads={NAME: ("Trace of *one* call [gzip]", TRACE)},
)
TEMPLATE = """---
title: A paper
author: [{name: Ada}]
bibliography: references.bib
print-style: ieee
---

# Results

See {{ downloads["trace-1.json.gz"] }}.

{{ tables["tbl-a"] }}
"""


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The output of a study of made-up findings."""

    monkeypatch.setattr(computing, "compute", lambda name, inputs: FINDINGS)
    papers, out = tmp_path / "papers", tmp_path / "out"
    papers.mkdir()
    (papers / f"{STUDY}.qmd.j2").write_text(TEMPLATE, "utf-8")
    request = Request((STUDY,), ("html",), out, "typst", data=ROOT / "data", papers=papers)
    assert not pipeline.build(request, lambda words, share: None).failed
    return out


def test_a_reader_can_download_what_the_study_offers(out: Path) -> None:
    site = out / "html" / STUDY
    page = (site / "index.html").read_text("utf-8")
    assert 'href="files/trace-1.json.gz" class="download" download="">Trace of *one* call' in page
    assert (site / "files" / NAME).read_bytes() == TRACE
    assert 'href="tables/tbl-a.csv"' in page
    assert (site / "tables" / "tbl-a.csv").read_text("utf-8") == "Time [s]\n0.5\n"
    assert (out / "quarto" / STUDY / "files" / NAME).read_bytes() == TRACE
    values = json.loads((out / "values" / f"{STUDY}.json").read_text("utf-8"))
    assert values["downloads"][NAME]["file"] == f"files/{NAME}"
    assert values["downloads"][NAME]["bytes"] == len(TRACE)
