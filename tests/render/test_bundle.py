"""The archive of a paper's LaTeX source, in which `latexmk` makes the same paper."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

import pytest
from pypdf import PdfReader

from report.render.bundle import bundle
from report.render.latex import Compiled, LatexTools, compile_latex, write_latex
from tests.latex import TOOLS, needs_latex


def text_of(pdf: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(pdf)).pages)


STUDY = "sample"


@pytest.fixture
def folder(paper: Path, tmp_path: Path) -> Path:
    return write_latex(paper, STUDY, tmp_path / "tex").parent


def unpacked(content: bytes, target: Path) -> list[str]:
    """Unpack into ``target``; ``extractall(filter=)`` came with Python 3.11.4."""
    target.mkdir()
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        names = archive.getnames()
        for member in archive.getmembers():
            target.joinpath(member.name).write_bytes(archive.extractfile(member).read())
    return names


def test_an_archive_has_no_folders_and_the_same_bytes_each_time(folder: Path) -> None:
    content = bundle(folder, STUDY, b"")
    assert content == bundle(folder, STUDY, b"")
    names = unpacked(content, folder.parent / "flat")
    assert names == sorted(names) and not [name for name in names if "/" in name]
    assert len(names) == len([path for path in folder.rglob("*") if path.is_file()])


@needs_latex
def test_the_archive_makes_the_same_paper(folder: Path) -> None:
    assert isinstance(TOOLS, LatexTools)
    made: Compiled = compile_latex(folder, STUDY)
    flat = folder.parent / "flat"
    assert f"{STUDY}.bbl" in unpacked(bundle(folder, STUDY, made.bibliography), flat)
    subprocess.run([TOOLS.latexmk], cwd=flat, check=True, capture_output=True)
    assert text_of((flat / f"{STUDY}.pdf").read_bytes()) == text_of(made.pdf)
