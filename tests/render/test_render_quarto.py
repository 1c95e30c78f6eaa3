"""The Quarto project, and the command's side of it with a stand-in that records its calls."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import yaml

from report.errors import RenderError
from report.render.quarto import find_quarto, render_quarto, write_project
from report.render.site import Entry


@pytest.fixture
def project(paper: Path, tmp_path: Path) -> Path:
    sources = dict.fromkeys(("sample", "course"), paper)
    entries = {study: Entry(study, "A paper", "", "") for study in sources}
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


def test_quarto_is_called_once_for_all_formats(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarto = tmp_path / "quarto-command"
    quarto.write_text(f'#!/bin/sh\nmkdir -p "$2/_site"\necho "$@" >> {tmp_path}/calls\n')
    quarto.chmod(0o755)
    monkeypatch.setenv("QUARTO_PATH", str(quarto))
    assert render_quarto(project).is_dir()
    assert (tmp_path / "calls").read_text() == f"render {project.resolve()}\n"


@pytest.mark.skipif(shutil.which("quarto") is None, reason="quarto is not on the PATH")
def test_quarto_renders_the_project(project: Path) -> None:
    assert (render_quarto(project, ["html"]) / "sample" / "sample.html").is_file()


def test_quarto_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QUARTO_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RenderError, match="not found by the PATH; run 'pip install quarto-cli'"):
        find_quarto()
    monkeypatch.setenv("QUARTO_PATH", str(tmp_path / "none"))
    with pytest.raises(RenderError, match="not found by QUARTO_PATH="):
        find_quarto()
