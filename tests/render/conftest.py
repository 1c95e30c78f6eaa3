"""The sample papers: their text is in sample/, what they show is made for the tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from report.render.html import PageLinks, write_page

SAMPLE = Path(__file__).parent / "sample"

HEAD = """---
title: A paper
author:
  - name: Ada Example
bibliography: references.bib
print-style: ieee
---

"""


def draw_figures(folder: Path) -> None:
    """Draw the two figures of the sample as PDF and SVG."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    batches = [16, 32, 64, 128, 256]
    for name, draw in {"time": "plot", "memory": "bar"}.items():
        with mpl.rc_context({"svg.hashsalt": name, "pdf.fonttype": 42, "font.size": 8}):
            figure, axes = plt.subplots(figsize=(3.5, 2.3), layout="constrained")
            getattr(axes, draw)([str(batch) for batch in batches], [b * 0.22 for b in batches])
            axes.set(xlabel="Batch size", ylabel=name)
            figure.savefig(folder / f"{name}.pdf", metadata={"CreationDate": None})
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
            plt.close(figure)


def page_of(folder: Path, study: str = "p") -> str:
    """The page of a paper."""
    return write_page(folder, study, folder / "page", PageLinks()).read_text("utf-8")


@pytest.fixture(scope="session")
def paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The complete source folder of the samples; tests read it only."""
    folder = tmp_path_factory.mktemp("source") / "sample"
    shutil.copytree(SAMPLE, folder)
    (folder / "figures").mkdir()
    draw_figures(folder / "figures")
    return folder


@pytest.fixture
def write(paper: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Writes a small paper ``p.qmd`` with the sample's figures and bibliography; its folder."""

    def make(body: str, head: str = HEAD) -> Path:
        folder = tmp_path / "p"
        folder.mkdir(exist_ok=True)
        shutil.copytree(paper / "figures", folder / "figures", dirs_exist_ok=True)
        shutil.copyfile(paper / "references.bib", folder / "references.bib")
        (folder / "p.qmd").write_text(head + body, "utf-8")
        return folder

    return make
