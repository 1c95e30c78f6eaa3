"""The Quarto project, and the command's side of it with a stand-in that records its calls."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from report.errors import RenderError
from report.render.pandoc import TEMPLATES, pandoc_path
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


def run_extension(tmp_path: Path, style: str, form: str) -> str:
    """What the extension's filter makes of a wide table, with Quarto's side played by a script."""
    (tmp_path / "tables").mkdir(exist_ok=True)
    (tmp_path / "tables" / "tbl-done.tex").write_text("\\begin{tabular}{l}FINISHED\\end{tabular}")
    driver = tmp_path / "driver.lua"
    driver.write_text(
        f"""
quarto = {{
  doc = {{ is_format = function(name) return name == "{form}" end }},
  utils = {{ resolve_path = function() return "{TEMPLATES}/filter/tabular.lua" end }},
}}
local passes = dofile("{TEMPLATES}/quarto/ridgepoint.lua")
function Pandoc(doc)
  passes[1].Meta(doc.meta)
  local blocks = pandoc.Blocks({{}})
  for _, id in ipairs({{ "tbl-built", "tbl-done" }}) do
    local float = {{
      type = "Table", identifier = id, attributes = {{}},
      classes = pandoc.List({{ "wide" }}), content = pandoc.Blocks({{ doc.blocks[1] }}),
    }}
    float = passes[2].FloatRefTarget(float) or float
    blocks:insert(pandoc.Plain({{ pandoc.Str(float.attributes["fig-env"] or "none") }}))
    blocks:extend(float.content)
  end
  blocks:extend(doc.blocks)
  return pandoc.Pandoc(blocks):walk(passes[3])
end
"""
    )
    finished = subprocess.run(
        [
            pandoc_path(),
            "--from=markdown",
            "--to=latex",
            f"--metadata=print-style:{style}",
            f"--lua-filter={driver}",
        ],
        input="| a | b |\n|:--|--:|\n| 1 | 2 |\n\nA [5 B](#v-x){.value}, [t](files/t.gz).\n",
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
        timeout=60,
    )
    return finished.stdout


def test_the_extension_writes_tables_that_two_columns_accept(tmp_path: Path) -> None:
    text = run_extension(tmp_path, "ieee", "latex")
    assert "longtable" not in text
    assert text.count("table*") == 2
    assert text.count("\\begin{tabular}{lr}") == 2
    assert "FINISHED" in text
    assert "A 5 B, t (\\texttt{t.gz})." in text


def test_the_extension_leaves_one_column_and_the_page_alone(tmp_path: Path) -> None:
    assert "table*" not in run_extension(tmp_path, "report", "latex")
    page = run_extension(tmp_path, "ieee", "html")
    assert "FINISHED" not in page
    assert "v-x" in page
    assert "\\href{files/t.gz}{t}" in page


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
