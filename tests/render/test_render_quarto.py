"""Papers by Quarto: the installed program, and a replacement that can fail."""

import html
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

from report.core.errors import RenderError
from report.core.system.programs import run
from report.engine.steps import ROOT
from report.render import quarto
from report.render.source import read_source
from tests import factory
from tests.render.conftest import LACKING, WritePaper
from tests.tiny import STUDY

#: Replacement for Quarto that prints the version if asked, and else runs the shell code
#: ``behaviour``.
STAND_IN = '#!/bin/sh\n[ "$1" = --version ] && echo {version} && exit\n{behaviour}\n'
#: Behaviours: write a page and a PDF; fail like Quarto with an error of LaTeX or Typst.
RENDERS = "mkdir -p _site; echo page > _site/index.html; echo pdf > tiny.pdf"
LATEX = r"""echo 'ERROR:
compilation failed- error
Undefined control sequence.
l.283 It has \\nothing
                     {x}'; exit 1"""
TYPST = "printf 'ERROR: error: unknown variable: x\n    ┌─ p.typ:3:1\n 38 │ It has #x(1)\n'; exit 1"


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Return a function that writes a replacement for Quarto, to which QUARTO_PATH points."""
    path = tmp_path / "bin" / "quarto"
    monkeypatch.setenv("QUARTO_PATH", str(path))

    def make(version: str = "1.11.0", behaviour: str = RENDERS) -> Path:
        quarto.quarto_version.cache_clear()
        return factory.write_program(path, STAND_IN.format(version=version, behaviour=behaviour))

    yield make
    quarto.quarto_version.cache_clear()


def build(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run ``build.py`` with Quarto; return the exit code and the output."""
    command = (sys.executable, "build.py", "--engine", "quarto", "--jobs", "1", *arguments)
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stderr + ended.stdout


def test_quarto_must_be_recent(stand_in: Callable[..., Path]) -> None:
    for version in ("1.4", "99.9.9"):
        stand_in(version)
        assert quarto.quarto_version() == version
    for version in ("1.3.450", "none"):
        path = stand_in(version)
        with pytest.raises(RenderError, match=f"{path}: found version '{version}'; install .* 1.4"):
            quarto.quarto_version()


def test_quarto_is_found_on_the_path_or_in_its_python_package(
    stand_in: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = stand_in()
    monkeypatch.delenv("QUARTO_PATH")
    monkeypatch.setenv("PATH", str(path.parent))
    assert quarto.find_quarto() == path
    monkeypatch.setenv("PATH", "/nowhere")
    package = shutil.copytree(path.parent, path.parent / "quarto_cli" / "bin")
    monkeypatch.syspath_prepend(path.parent)
    assert quarto.find_quarto() == package / "quarto"


def test_a_quarto_path_without_a_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTO_PATH", "/nowhere/quarto")
    code, output = build(ROOT, "--dry-run", "--html")
    assert code == 1 and output.startswith("error: QUARTO_PATH=/nowhere/quarto: is no program")
    assert output.endswith(".\n") and output.count("\n") == 1 and "-e '.[quarto]'" in output


@pytest.mark.parametrize(("behaviour", "message"), [
    (LATEX, r"p\.qmd:11: Quarto refused it \(Undefined control sequence\)"),
    (TYPST, r"p\.qmd:11: Quarto refused it \(unknown variable: x\)"),
    ("echo 'ERROR: bad key (line 9, columns 1--5)'; exit 1", r"p\.qmd:9: .*\(bad key "),
    ("kill -9 $$", "it was killed, probably for lack of memory"),
    ("exit 3", "no reason given"),
])  # fmt: skip
def test_errors_of_quarto_name_the_line(
    stand_in: Callable[..., Path], write: WritePaper, behaviour: str, message: str
) -> None:
    stand_in(behaviour=behaviour)
    paper = read_source(write("One.\n\nIt has #x(1) and \\nothing.\n"), "p")
    quarto.write_settings(paper)
    with pytest.raises(RenderError, match=message) as caught:
        quarto.render_paper(paper, "typst")
    assert "\n" not in str(caught.value)


def test_failed_builds_keep_earlier_output(stand_in: Callable[..., Path], project: Path) -> None:
    """Another version of Quarto renders everything again."""
    stand_in()
    assert build(project)[0] == 0
    out = project / "out"
    pdfs = [out / "pdf" / f"{STUDY}.pdf", out / "html" / STUDY / f"{STUDY}.pdf"]
    assert {path.read_text() for path in pdfs} == {"pdf\n"}
    assert (out / "quarto" / "_site" / "index.html").read_text() == "page\n"
    assert "Nothing to do" in build(project)[1]
    assert [build(project, "--check", "--engine", name)[0] for name in ("quarto", "auto")] == [0, 0]
    stand_in("1.12.0", "echo 'WARNING: old key' >&2; " + RENDERS)
    code, output = build(project, "--explain")
    assert code == 0 and "note: site: Quarto warns: old key" in output
    assert output.count("Quarto changed from 1.11.0 to 1.12.0") == 2
    stand_in("1.13.0", "exit 3")
    code, output = build(project)
    assert code == 1 and output.count("error: ") == 2 and "Traceback" not in output
    assert pdfs[0].read_text() == "pdf\n" and (out / "quarto" / "_site").exists()


def test_the_project_contains_settings_of_each_paper(write: WritePaper, tmp_path: Path) -> None:
    folder = write("Words.\n")
    quarto.write_settings(read_source(folder, "p"))
    entries = {"p": {"title": "A paper", "abstract": "Why?"}}
    project = quarto.write_project({"p": folder}, tmp_path / "quarto", entries)
    settings = [project, folder / "_quarto.yml", project.with_name("p") / "_metadata.yml"]
    shared, alone, in_project = (yaml.safe_load(path.read_text("utf-8")) for path in settings)
    assert shared["project"]["render"] == ["index.qmd", "p/p.qmd"]
    assert alone.pop("project") == {"type": "default", "render": ["p.qmd"]} and alone == in_project
    files = [*alone["filters"], alone["csl"], alone["format"]["pdf"]["include-in-header"]]
    for name in (*files, "quarto/tabular.lua", "figures/time.png", "references.bib"):
        assert (project.parent / "p" / name).is_file(), name


PAPER = "conv_profiling"
#: A value in a paper's Markdown: text and identifier.
_VALUE = re.compile(r"\[((?:\\.|[^\[\]\\])*)\]\(#v-([\w-]+)\)\{\.value\}")
#: A value that ``number_values`` marked: number and text.
_MARKED = re.compile(r"Q(\d+)Q([^Q]*)Q")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a paper with Quarto; return the folder of outputs.  Skip the test without Quarto."""
    try:
        quarto.quarto_version()
    except RenderError as error:
        pytest.skip(str(error))
    out = tmp_path_factory.mktemp("real") / "out"
    code, output = build(ROOT, PAPER, "--out", str(out))
    assert code == 0 and "Quarto warns" not in output, output
    return out


def number_values(document: Path) -> dict[int, str]:
    """Mark all values of a document with numbers; return the values' texts by number."""
    values: dict[int, str] = {}

    def mark(link: re.Match[str]) -> str:
        number = len(values)
        text = re.sub(r"\\(.)", r"\1", link[1]).replace("−", "-")
        values[number] = "".join(text.split())
        return f"[Q{number}Q{link[1]}Q](#v-{link[2]}){{.value}}"

    document.write_text(_VALUE.sub(mark, document.read_text("utf-8")), "utf-8")
    return values


def marked_values(path: Path) -> dict[int, str]:
    """Return the marked values in a page, PDF or Word document, by number."""
    if path.suffix == ".pdf":
        text = "".join(page.extract_text() for page in PdfReader(path).pages)
    else:
        word = path.suffix == ".docx" and zipfile.ZipFile(path).read("word/document.xml")
        text = html.unescape(re.sub(r"<[^>]+>", "", (word or path.read_bytes()).decode()))
    marked = _MARKED.findall("".join(text.split()).replace("−", "-"))
    return {int(number): value for number, value in marked}


#: Requested format → file types that Quarto writes; ``all`` are the formats of a project.
FORMATS = {
    "html": ["html"], "pdf": ["pdf"], "typst": ["pdf"], "docx": ["docx"], "all": ["html", "pdf"]
}  # fmt: skip


def figures_in(file: Path, document: Path) -> set[str]:
    """Return the figures of a page or Word document, or of the source beside a PDF."""
    if file.suffix == ".docx":
        return {name for name in zipfile.ZipFile(file).namelist() if "media/" in name}
    sources = [document.with_suffix(ending) for ending in (".tex", ".typ")]
    source = file if file.suffix == ".html" else next(path for path in sources if path.exists())
    return set(re.findall(r"(?<=[\"{])(figures/\w+)\.", source.read_text("utf-8")))


@pytest.mark.parametrize("to", FORMATS)
def test_quarto_prints_every_value_and_figure(out: Path, tmp_path: Path, to: str) -> None:
    if "pdf" in FORMATS[to] and to != "typst" and LACKING:
        pytest.skip(LACKING)
    source = out / "quarto" if to == "all" else out / "qmd" / PAPER
    folder = shutil.copytree(source, tmp_path / "p", ignore=shutil.ignore_patterns("_site"))
    document = folder / (PAPER if to == "all" else "") / f"{PAPER}.qmd"
    values = number_values(document)
    arguments = ["."] if to == "all" else [document.name, "--to", to, "-M", "keep-typ:true"]
    ended = run([quarto.find_quarto(), "render", *arguments], folder, 600)
    assert ended.returncode == 0 and "WARN" not in ended.stderr, ended.stderr
    for ending in FORMATS[to]:
        file = (folder / "_site" / PAPER if to == "all" else folder) / f"{PAPER}.{ending}"
        assert marked_values(file) == values
        figures = set(re.findall(r"\]\((figures/\w+)\)", document.read_text("utf-8")))
        assert len(figures_in(file, document)) == len(figures) > 0
