"""The Quarto project, and what the command makes of it where it is installed."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from report.render.quarto import write_project


@pytest.fixture
def project(paper: Path, tmp_path: Path) -> Path:
    sources = dict.fromkeys(("sample", "course"), paper)
    entries = {study: {"title": "A paper", "abstract": ""} for study in sources}
    write_project(sources, tmp_path / "quarto", entries)
    return tmp_path / "quarto"


def test_the_project_is_complete(project: Path) -> None:
    config = yaml.safe_load((project / "_quarto.yml").read_text("utf-8"))
    assert config["project"]["type"] == "website"
    assert config["project"]["render"] == ["index.qmd", "sample/sample.qmd", "course/course.qmd"]
    assert config["filters"] == ["ridgepoint"]
    for name in (
        *config["project"]["render"],
        config["csl"],
        "sample/figures/time.svg",
        "sample/figures/time.pdf",
        "sample/tables/tbl-work.tex",
        "sample/references.bib",
    ):
        assert (project / name).is_file()


@pytest.mark.skipif(shutil.which("quarto") is None, reason="quarto is not on the PATH")
def test_quarto_renders_the_project(project: Path) -> None:
    subprocess.run(["quarto", "render", project, "--to", "html"], check=True)
    assert (project / "_site" / "sample" / "sample.html").is_file()
