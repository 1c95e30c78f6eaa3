"""Papers by Quarto: by the real one where it is installed, and by a stand-in that also fails."""

import html
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from pypdf import PdfReader
from pytest import approx

from report.core.errors import RenderError
from report.core.system.programs import run
from report.engine.steps import ROOT
from report.render.quarto import (
    find_quarto,
    quarto_version,
    render_paper,
    write_project,
    write_settings,
)
from report.render.source import read_source
from tests.render.conftest import LACKING
from tests.tiny import STUDY

Write = Callable[..., Path]

#: Prints its version, then does what a line of shell says.
STAND_IN = '#!/bin/sh\n[ "$1" = --version ] && echo {version} && exit\n{then}\n'
RENDERS = "mkdir -p _site; echo page > _site/index.html; echo pdf > tiny.pdf"
LATEX = r"""echo 'ERROR:
compilation failed- error
Undefined control sequence.
l.283 It has \\nothing
                     {x}'; exit 1"""
TYPST = "printf 'ERROR: error: unknown variable: x\n    ┌─ p.typ:3:1\n 38 │ It has #x(1)\n'; exit 1"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Makes a stand-in for Quarto, which QUARTO_PATH names."""
    path = tmp_path / "bin" / "quarto"
    path.parent.mkdir()
    monkeypatch.setenv("QUARTO_PATH", str(path))

    def make(version: str = "1.11.0", then: str = RENDERS) -> Path:
        quarto_version.cache_clear()
        path.write_text(STAND_IN.format(version=version, then=then), "utf-8")
        path.chmod(0o755)
        return path

    yield make
    quarto_version.cache_clear()


def build(folder: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of ``build.py`` with Quarto, and all that it said."""
    command = (sys.executable, "build.py", "--engine", "quarto", "--jobs", "1", *arguments)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr + done.stdout


def test_a_new_enough_quarto_is_found(
    stand_in: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    for version, good in (("1.4", True), ("99.9.9", True), ("1.3.450", False), ("none", False)):
        path = stand_in(version)
        if good:
            assert quarto_version() == version
            continue
        with pytest.raises(RenderError, match=f"{path}: found version '{version}'; install .* 1.4"):
            quarto_version()
    monkeypatch.delenv("QUARTO_PATH")
    monkeypatch.setenv("PATH", str(path.parent))
    assert find_quarto() == path
    monkeypatch.setenv("PATH", "/nowhere")
    package = shutil.copytree(path.parent, path.parent / "quarto_cli" / "bin")
    monkeypatch.syspath_prepend(path.parent)
    assert find_quarto() == package / "quarto"
    monkeypatch.setenv("QUARTO_PATH", "/nowhere/quarto")
    code, said = build(ROOT, "--dry-run", "--html")
    assert code == 1 and said.startswith("error: QUARTO_PATH=/nowhere/quarto: is no program")
    assert said.endswith(".\n") and said.count("\n") == 1 and "pip install .[quarto]" in said


@pytest.mark.parametrize(("then", "message"), [
    (LATEX, r"p\.qmd:11: Quarto refused it \(Undefined control sequence\)"),
    (TYPST, r"p\.qmd:11: Quarto refused it \(unknown variable: x\)"),
    ("echo 'ERROR: bad key (line 9, columns 1--5)'; exit 1", r"p\.qmd:9: .*\(bad key "),
    ("kill -9 $$", "it was killed, probably for lack of memory"),
    ("exit 3", "no reason given"),
])  # fmt: skip
def test_quarto_refuses(
    stand_in: Callable[..., Path], write: Write, then: str, message: str
) -> None:
    stand_in(then=then)
    paper = read_source(write("One.\n\nIt has #x(1) and \\nothing.\n"), "p")
    write_settings(paper)
    with pytest.raises(RenderError, match=message) as caught:
        render_paper(paper, "typst")
    assert "\n" not in str(caught.value)


def test_failed_builds_keep_what_was(stand_in: Callable[..., Path], project: Path) -> None:
    stand_in()
    assert build(project)[0] == 0
    out = project / "out"
    made = [out / "pdf" / f"{STUDY}.pdf", out / "html" / STUDY / f"{STUDY}.pdf"]
    assert {path.read_text() for path in made} == {"pdf\n"}
    assert (out / "quarto" / "_site" / "index.html").read_text() == "page\n"
    assert "Nothing to do" in build(project)[1]
    assert [build(project, "--check", "--engine", name)[0] for name in ("quarto", "auto")] == [0, 0]
    stand_in("1.12.0", "echo 'WARNING: old key' >&2; " + RENDERS)
    code, said = build(project, "--explain")
    assert code == 0 and "note: site: Quarto warns: old key" in said
    assert said.count("Quarto changed from 1.11.0 to 1.12.0") == 2
    stand_in("1.13.0", "exit 3")
    code, said = build(project)
    assert code == 1 and said.count("error: ") == 2 and "Traceback" not in said
    assert made[0].read_text() == "pdf\n" and (out / "quarto" / "_site").exists()


def test_the_project_holds_each_papers_settings(write: Write, tmp_path: Path) -> None:
    folder = write("Words.\n")
    write_settings(read_source(folder, "p"))
    entries = {"p": {"title": "A paper", "abstract": "Why?"}}
    project = write_project({"p": folder}, tmp_path / "quarto", entries)
    settings = [project, folder / "_quarto.yml", project.with_name("p") / "_metadata.yml"]
    whole, alone, in_project = (yaml.safe_load(path.read_text("utf-8")) for path in settings)
    assert whole["project"]["render"] == ["index.qmd", "p/p.qmd"]
    assert alone.pop("project") == {"type": "default", "render": ["p.qmd"]} and alone == in_project
    named = [*alone["filters"], alone["csl"], alone["format"]["pdf"]["include-in-header"]]
    for name in (*named, "quarto/tabular.lua", "figures/time.png", "references.bib"):
        assert (project.parent / "p" / name).is_file(), name


PAPER = "conv_profiling"
_VALUE = re.compile(r"\[((?:\\.|[^\[\]\\])*)\]\(#v-([\w-]+)\)\{\.value\}")
_MARKED = re.compile(r"Q(\d+)Q([^Q]*)Q")
_NUMBER = re.compile(r"-?[\d,]*\.?\d+")


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A paper built with Quarto: its folder ``out``; skips where there is none."""
    try:
        quarto_version()
    except RenderError as error:
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("real") / "out"
    code, said = build(ROOT, PAPER, "--out", str(out))
    assert code == 0 and "Quarto warns" not in said, said
    return out


def numbered(document: Path) -> dict[int, tuple[str, str]]:
    """Mark each value of a document by its number; returns the text and the id of each."""
    values: dict[int, tuple[str, str]] = {}

    def mark(link: re.Match[str]) -> str:
        number = len(values)
        text = re.sub(r"\\(.)", r"\1", link[1]).replace("−", "-")
        values[number] = "".join(text.split()), link[2]
        return f"[Q{number}Q{link[1]}Q](#v-{link[2]}){{.value}}"

    document.write_text(_VALUE.sub(mark, document.read_text("utf-8")), "utf-8")
    return values


def printed_in(path: Path) -> dict[int, str]:
    """The values that a page, a PDF or a Word document prints, by their number."""
    if path.suffix == ".pdf":
        text = "".join(page.extract_text() for page in PdfReader(path).pages)
    else:
        word = path.suffix == ".docx" and zipfile.ZipFile(path).read("word/document.xml")
        text = html.unescape(re.sub(r"<[^>]+>", "", (word or path.read_bytes()).decode()))
    found = _MARKED.findall("".join(text.split()).replace("−", "-"))
    return {int(number): value for number, value in found}


#: What Quarto is asked for, and the endings of what it makes of a paper; all that a project names.
FORMATS = {
    "html": ["html"], "pdf": ["pdf"], "typst": ["pdf"], "docx": ["docx"], "all": ["html", "pdf"]
}  # fmt: skip


def figures_in(made: Path, document: Path) -> set[str]:
    """The figures of a page, a Word document, or a PDF, whose source lies beside the document."""
    if made.suffix == ".docx":
        return {name for name in zipfile.ZipFile(made).namelist() if "media/" in name}
    kept = [document.with_suffix(ending) for ending in (".tex", ".typ")]
    source = made if made.suffix == ".html" else next(path for path in kept if path.exists())
    return set(re.findall(r"(?<=[\"{])(figures/\w+)\.", source.read_text("utf-8")))


@pytest.mark.parametrize("to", FORMATS)
def test_quarto_prints_every_value_and_figure(rendered: Path, tmp_path: Path, to: str) -> None:
    if "pdf" in FORMATS[to] and to != "typst" and LACKING:
        pytest.skip(LACKING)
    source = rendered / "quarto" if to == "all" else rendered / "qmd" / PAPER
    folder = shutil.copytree(source, tmp_path / "p", ignore=shutil.ignore_patterns("_site"))
    document = folder / (PAPER if to == "all" else "") / f"{PAPER}.qmd"
    values = numbered(document)
    what = ["."] if to == "all" else [document.name, "--to", to, "-M", "keep-typ:true"]
    done = run([find_quarto(), "render", *what], folder, 600)
    assert done.returncode == 0 and "WARN" not in done.stderr, done.stderr
    computed = json.loads((rendered / "values" / f"{PAPER}.json").read_text("utf-8"))["values"]
    for text, id in values.values():
        exact = computed[id.replace("-", "_")]["printed"].replace("−", "-")
        first, second = (float(_NUMBER.findall(t)[0].replace(",", "")) for t in (text, exact))
        assert first == approx(second, rel=0.06), id
    for ending in FORMATS[to]:
        made = (folder / "_site" / PAPER if to == "all" else folder) / f"{PAPER}.{ending}"
        assert printed_in(made) == {number: text for number, (text, _) in values.items()}
        figures = set(re.findall(r"\]\((figures/\w+)\)", document.read_text("utf-8")))
        assert len(figures_in(made, document)) == len(figures) > 0
