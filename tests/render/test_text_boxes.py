"""No word of a paper's PDF is printed over another or out of the page."""

from __future__ import annotations

from pathlib import Path

import pytest

import build
from tests.boxes import misplaced, needs_pdftotext
from tests.latex import needs_latex

STUDY = "gpu_survey"


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for both engines, which read the same document."""
    return tmp_path_factory.mktemp("out")


@needs_pdftotext
@pytest.mark.parametrize("engine", ["typst", pytest.param("latex", marks=needs_latex)])
def test_words_of_a_paper_stand_clear_of_each_other(out: Path, engine: str) -> None:
    assert build.main(["--pdf", "--engine", engine, "--out", str(out), STUDY]) == 0
    assert misplaced(out / f"pdf/{STUDY}.pdf") == []
