"""The archive of a paper's LaTeX source, which compiles in an empty folder and without BibTeX."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from pypdf import PdfReader

from report.render.bundle import bundle
from report.render.latex import Compiled, LatexTools, compile_latex, write_latex
from report.render.references import cited_entries
from tests.latex import TOOLS, needs_latex


def text_of(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


@pytest.fixture(params=["sample", "course"])
def study(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def folder(study: str, paper: Path, tmp_path: Path) -> Path:
    return write_latex(paper, study, tmp_path / "tex").parent


def unpacked(content: bytes, target: Path) -> list[str]:
    """Unpack into ``target``; ``extractall(filter=)`` came with Python 3.11.4."""
    target.mkdir()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = archive.getnames()
        for member in archive.getmembers():
            target.joinpath(member.name).write_bytes(archive.extractfile(member).read())
    return names


def test_an_archive_has_no_folders_and_the_same_bytes_each_time(folder: Path, study: str) -> None:
    content = bundle(folder, study, b"")
    assert content == bundle(folder, study, b"")
    names = unpacked(content, folder.parent / "flat")
    assert names == sorted(names) and not [name for name in names if "/" in name]
    assert len(names) == len([path for path in folder.rglob("*") if path.is_file()])


@needs_latex
def test_the_archive_makes_the_same_paper(folder: Path, study: str) -> None:
    assert isinstance(TOOLS, LatexTools)
    made: Compiled = compile_latex(folder, study)
    flat = folder.parent / "flat"
    assert f"{study}.bbl" in unpacked(bundle(folder, study, made.bibliography), flat)
    command = [TOOLS.pdflatex, "-interaction=nonstopmode", "-halt-on-error", f"{study}.tex"]
    for _ in range(3):
        subprocess.run(command, cwd=flat, check=True, capture_output=True)
    assert text_of((flat / f"{study}.pdf").read_bytes()) == text_of(made.pdf)


def test_only_what_is_cited_stands_in_its_bibliography() -> None:
    bibliography = """% A comment.
@string{acm = "ACM"}

@inproceedings{cited,
  title = {Mail to me@example.org},
  crossref = {volume},
}
@article{other, title = {Not cited}}
@proceedings(volume, title = "A volume")
@misc{twice,
  title = {A title}
}
"""
    found = cited_entries(bibliography, {"cited", "twice"}.__contains__)
    for part in ("@string{acm", "@inproceedings{cited,", "me@example.org", "@proceedings(volume"):
        assert part in found
    assert "@misc{twice" in found and "Not cited" not in found
