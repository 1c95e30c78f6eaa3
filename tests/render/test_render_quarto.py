"""The Quarto project, and the command's side of it with a stand-in that records its calls."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml

from report.errors import RenderError
from report.render.quarto import (
    find_quarto,
    render_quarto,
    write_project,
)
from report.render.site import Entry

STAND_IN = """#!{python}
import json, pathlib, sys
here = pathlib.Path(__file__).parent
if sys.argv[1:] == ["--version"]:
    print({version!r})
    sys.exit(0)
with (here / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps(sys.argv[1:]) + "\\n")
if {error!r}:
    sys.stderr.write({error!r})
    sys.exit(1)
site = pathlib.Path(sys.argv[2]) / "_site" / "sample"
site.mkdir(parents=True)
for name in ("sample.html", "sample.pdf"):
    (site / name).write_text("made")
"""


def stand_in(folder: Path, version: str = "1.6.40", error: str = "") -> Path:
    """An executable called quarto that records how it was called."""
    folder.mkdir(exist_ok=True)
    path = folder / "quarto"
    path.write_text(STAND_IN.format(python=sys.executable, version=version, error=error))
    path.chmod(0o755)
    return path


def calls(quarto: Path) -> list[list[str]]:
    return [json.loads(line) for line in (quarto.parent / "calls.jsonl").read_text().splitlines()]


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
    assert all((project / name).is_file() for name in config["project"]["render"])
    assert (project / config["csl"]).is_file()
    assert config["filters"] == ["ridgepoint"]
    for name in (
        "sample/figures/time.svg",
        "sample/figures/time.pdf",
        "sample/tables/tbl-work.tex",
        "sample/references.bib",
    ):
        assert (project / name).is_file()


def test_quarto_is_called_once_for_all_formats(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quarto = stand_in(tmp_path / "bin")
    monkeypatch.setenv("QUARTO_PATH", str(quarto))
    site = render_quarto(project)
    assert calls(quarto) == [["render", str(project.resolve())]]
    assert (site / "sample" / "sample.pdf").read_text() == "made"


def test_quarto_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("QUARTO_PATH", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RenderError, match="not found by the PATH; run 'pip install quarto-cli'"):
        find_quarto()
    monkeypatch.setenv("QUARTO_PATH", str(tmp_path / "none"))
    with pytest.raises(RenderError, match="not found by QUARTO_PATH="):
        find_quarto()
    for version, words in (("1.3.450", "found quarto 1.3.450"), ("dev", "no number")):
        monkeypatch.setenv("QUARTO_PATH", str(stand_in(tmp_path / "bin", version=version)))
        with pytest.raises(RenderError, match=words):
            find_quarto()
